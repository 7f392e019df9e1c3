"""nodectl: look after the worker nodes.

    nodectl list                                   the nodes, and what can be done on them
    nodectl help OPERATION                         what an operation takes
    nodectl NODE OPERATION [VALUE ...] [--NAME VALUE ...] [--json]

    nodectl worker-1 service status kubelet
    nodectl worker-1 service restart kubelet
    nodectl worker-1 journal --unit kubelet --lines 100 --grep error
    nodectl worker-1 kubelet-config
    nodectl worker-1 kubelet-set maxPods 110
    nodectl worker-1 disk-free
    nodectl worker-1 disk-usage /var/log --depth 2
    nodectl worker-1 find-files /var/log --larger_than_mib 100
    nodectl worker-1 remove-file /var/log/old.log
    nodectl worker-1 sysctl-read net.ipv4.tcp
    nodectl worker-1 conntrack list --protocol tcp --destination 10.96.0.10
    nodectl worker-1 processes --sort memory
    nodectl worker-1 network filter

Values without a name are taken in the order that `nodectl help OPERATION` shows. Ends with 0 where the operation
succeeded, 1 where it did not, 2 where it was refused or not understood.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

USAGE = 2
WITHIN_S = 90
Operation = dict[str, Any]


class Stop(Exception):
    """Says why, and ends with a status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


def main(argv: list[str]) -> int:
    try:
        return _main(argv)
    except Stop as stop:
        print(stop, file=sys.stderr)
        return stop.status


def _main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help") or argv == ["help"]:
        print((__doc__ or "").strip())
        return 0
    there = ask("GET", "/nodes")
    operations = {one["op"]: one for one in there["operations"]}
    if argv[0] in ("list", "ls"):
        print("\n".join(there["nodes"]) + "\n\noperations:")
        for one in operations.values():
            print(f"  {one['op']:<15} {one['description']}")
        return 0
    if argv[0] == "help":
        print(described(_known(operations, argv[1])))
        return 0
    if len(argv) < 2:
        raise Stop("which operation? (nodectl list)")
    node, name, *rest = argv
    operation = _known(operations, name)
    if "--help" in rest or "-h" in rest:
        print(described(operation))
        return 0
    whole = "--json" in rest
    body = {"op": name, **arguments(operation, [word for word in rest if word != "--json"])}
    answer = ask("POST", f"/nodes/{urllib.parse.quote(node, safe='')}", body)
    print(json.dumps(answer, indent=2) if whole else answer["text"])
    if not whole and answer.get("truncated"):
        print(f"-- {answer['truncated']}", file=sys.stderr)
    return 0 if answer["ok"] else 1


def _known(operations: dict[str, Operation], name: str) -> Operation:
    if name not in operations:
        raise Stop(f"there is no operation {name}; there are {', '.join(operations)}")
    return operations[name]


def described(operation: Operation) -> str:
    """What an operation takes, as text."""
    lines = [operation["op"], f"  {operation['description']}"]
    for name, schema in operation["arguments"].items():
        need = "" if name in operation["required"] else " (optional)"
        lines.append(f"  --{name} {_values(schema)}{need}")
    return "\n".join(lines)


def _values(schema: dict[str, Any]) -> str:
    for one in (schema, *schema.get("anyOf", [])):
        if "enum" in one:
            return "|".join(map(str, one["enum"]))
    kinds = [one["type"] for one in (schema, *schema.get("anyOf", [])) if one.get("type", "null") != "null"]
    return kinds[0].upper() if kinds else "JSON"


def arguments(operation: Operation, words: list[str]) -> dict[str, Any]:
    """Words of the command line as named values."""
    known = operation["arguments"]
    given: dict[str, Any] = {}
    words = list(words)
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, mark, value = word[2:].partition("=")
            name = name.replace("-", "_")
            if not mark:
                boolean = known.get(name, {}).get("type") == "boolean"
                if not boolean and not words:
                    raise Stop(f"--{name} needs a value")
                value = "true" if boolean else words.pop(0)
        else:
            name = next((one for one in known if one not in given), "")
            value = word
        if name not in known:
            raise Stop(f"{word} is one too many\n{described(operation)}")
        given[name] = _typed(known[name], value)
    return given


def _typed(schema: dict[str, Any], value: str) -> Any:
    """A word as what the schema wants; texts stay as they are."""
    kinds = {one.get("type") for one in (schema, *schema.get("anyOf", []))}
    if "string" in kinds or any("enum" in one for one in (schema, *schema.get("anyOf", []))):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request to the desk."""
    data = None if body is None else json.dumps(body).encode()
    base = os.environ.get("API_URL") or f"http://{os.environ['API_HOSTNAME']}:{os.environ['API_PORT']}"
    request = urllib.request.Request(
        base.rstrip("/") + path, data=data, headers={"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
    except urllib.error.HTTPError as error:
        raise Stop(_reason(error.read())) from error
    except OSError as error:
        raise Stop(f"cannot be reached: {error}", status=1) from error


def _reason(body: bytes) -> str:
    try:
        told = json.loads(body)
        return str(told.get("error") or told.get("message") or told)
    except ValueError:
        return body.decode(errors="replace")[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
