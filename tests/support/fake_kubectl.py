"""A kubectl that keeps its objects in a file: enough of it for tests of what stands around kubectl.

Called as `python fake_kubectl.py WORLD ARGUMENTS...`. It knows deployments, configmaps and pods.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import yaml

KINDS = {"deployment": ("apps/v1", "Deployment"), "configmap": ("v1", "ConfigMap"), "pod": ("v1", "Pod")}
VALUED = ("-n", "-o", "-f", "--namespace", "--output", "--type", "-p")


class Fails(Exception):
    pass


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.objects: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def save(self) -> None:
        self.path.write_text(json.dumps(self.objects))

    def key(self, obj: dict[str, Any]) -> str:
        return f"{obj['kind']}/{obj['metadata'].get('namespace', 'shop')}/{obj['metadata']['name']}"

    def put(self, obj: dict[str, Any]) -> dict[str, Any]:
        old = self.objects.get(self.key(obj))
        meta = {"namespace": "shop", **obj["metadata"]}
        meta["uid"] = old["metadata"]["uid"] if old else uuid.uuid4().hex
        meta["resourceVersion"] = str(int(old["metadata"]["resourceVersion"]) + 1 if old else 1)
        return {**obj, "metadata": meta}


def main(world: World, argv: list[str], stdin: str) -> str:  # noqa: C901
    plain, flags = [], {}
    words = iter(argv)
    for word in words:
        if word == "--":
            break
        if word in VALUED:
            flags[word.lstrip("-")[0:1] if len(word) == 2 else word.lstrip("-")] = next(words)
        elif word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flags[name] = value or "true"
        else:
            plain.append(word)
    verb, rest = plain[0], plain[1:]
    dry = flags.get("dry-run") == "server"
    given = [one for one in yaml.safe_load_all(stdin) if one] if flags.get("f") == "-" else []
    given = [item for one in given for item in (one["items"] if one["kind"] == "List" else [one])]
    if verb in ("exec", "rollout", "sleep"):
        return f"{verb} done\n"
    if verb == "env":
        import os

        return json.dumps(dict(os.environ))
    if verb in ("create", "apply", "replace"):
        made = []
        for obj in given:
            exists = world.key(obj) in world.objects
            if verb == "create" and exists:
                raise Fails(f'Error from server (AlreadyExists): "{obj["metadata"]["name"]}" already exists')
            if "refuse" in obj["metadata"]["name"]:
                raise Fails("Error from server (Forbidden): admission refused it")
            made.append(world.put(obj))
        if not dry:
            world.objects |= {world.key(obj): obj for obj in made}
        return _printed(made, flags, verb.removesuffix("e").removesuffix("ly") + "ed")
    found = _selected(world, rest, given, flags)
    if verb == "get":
        if flags.get("o") == "json":
            return json.dumps(found[0] if len(found) == 1 else {"kind": "List", "items": found})
        return "NAME\n" + "".join(f"{obj['metadata']['name']}\n" for obj in found)
    if verb == "delete":
        if not dry:
            for obj in found:
                world.objects.pop(world.key(obj))
        return "".join(f"{obj['kind'].lower()}/{obj['metadata']['name']}\n" for obj in found)
    changed = [world.put(_changed(verb, obj, rest, flags)) for obj in found]
    if not dry:
        world.objects |= {world.key(obj): obj for obj in changed}
    return _printed(changed, flags, f"{verb}ed")


def _changed(verb: str, obj: dict[str, Any], rest: list[str], flags: dict[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(obj))
    if verb == "scale":
        result["spec"]["replicas"] = int(flags["replicas"])
    elif verb == "label":
        pairs = dict(word.split("=") for word in rest if "=" in word)
        result["metadata"]["labels"] = {**result["metadata"].get("labels", {}), **pairs}
    elif verb == "patch":
        import jsonpatch

        result = jsonpatch.apply_patch(result, json.loads(Path(flags["patch-file"]).read_text()))
        if result["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise Fails("Error from server (Conflict): the object has been modified")
    else:
        raise Fails(f'error: unknown command "{verb}" for "kubectl"')
    return result


def _selected(world: World, rest: list[str], given: list[Any], flags: dict[str, str]) -> list[Any]:
    names = [word for word in rest if "=" not in word]
    if given:
        keys = [world.key(obj) for obj in given]
    elif names and "/" in names[0]:
        keys = [f"{KINDS[kind.rstrip('s')][1]}/shop/{name}" for kind, _, name in (one.partition("/") for one in names)]
    elif names:
        kind = KINDS[names[0].rstrip("s")][1]
        keys = [f"{kind}/shop/{name}" for name in names[1:]] or [one for one in world.objects if one.startswith(kind)]
    else:
        keys = list(world.objects)
    missing = [key for key in keys if key not in world.objects]
    if missing and "ignore-not-found" not in flags:
        raise Fails(f'Error from server (NotFound): "{missing[0]}" not found')
    return [world.objects[key] for key in keys if key in world.objects]


def _printed(objects: list[Any], flags: dict[str, str], did: str) -> str:
    if flags.get("o") == "json":
        return json.dumps(objects[0] if len(objects) == 1 else {"kind": "List", "items": objects})
    return "".join(f"{obj['kind'].lower()}/{obj['metadata']['name']} {did}\n" for obj in objects)


if __name__ == "__main__":
    place = World(Path(sys.argv[1]))
    try:
        sys.stdout.write(main(place, sys.argv[2:], "" if sys.stdin.isatty() else sys.stdin.read()))
    except Fails as failure:
        sys.stderr.write(f"{failure}\n")
        sys.exit(1)
    place.save()
