"""What the fake cluster goes by: which objects a selection names, what a write may change, and default scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sregym.cluster.contract import ExecResult, HttpReply, Selection
from sregym.cluster.objects import Kind, Obj, Ref, labels_of
from sregym.errors import DefinitionError

ExecScript = Callable[[Ref, Sequence[str], str], ExecResult]
RequestScript = Callable[[str, str, str | None], HttpReply]
LogScript = Callable[[Ref, str | None, bool], str]
Checkpoint = Callable[[str], None]


def no_exec(pod: Ref, argv: Sequence[str], stdin: str) -> ExecResult:
    return ExecResult(code=127, stdout="", stderr=f"{argv[0]}: not scripted")


def no_request(method: str, url: str, body: str | None) -> HttpReply:
    return HttpReply(status=0, error="connection refused")


def no_logs(pod: Ref, container: str | None, previous: bool) -> str:
    return ""


def nothing(point: str) -> None:
    """A checkpoint at which nothing happens."""


def kind_row(kind: Kind) -> dict[str, Any]:
    return {
        "api_version": kind.api_version,
        "name": kind.name,
        "plural": kind.plural,
        "namespaced": kind.namespaced,
    }


def active_namespace(name: str) -> Obj:
    return {"metadata": {"labels": {"kubernetes.io/metadata.name": name}}, "status": {"phase": "Active"}}


def check_complete(ref: Ref) -> None:
    if ref.kind.namespaced and not ref.namespace:
        raise DefinitionError(f"{ref}: its namespace must be filled in before it is sent")


def selects(selection: Selection, ref: Ref, obj: Obj) -> bool:
    return (
        ref.kind == selection.kind
        and selection.namespace in (None, ref.namespace)
        and selection.name in (None, ref.name)
        and label_selector_matches(selection.labels, labels_of(obj))
    )


def label_selector_matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Equality selectors as in a URL: `a=b,c!=d,e,!f`."""
    for term in filter(None, (part.strip() for part in selector.split(","))):
        if "!=" in term:
            key, value = term.split("!=", 1)
            if labels.get(key.strip()) == value.strip():
                return False
        elif "=" in term:
            key, value = term.replace("==", "=").split("=", 1)
            if labels.get(key.strip()) != value.strip():
                return False
        elif (term.startswith("!") and term[1:] in labels) or (not term.startswith("!") and term not in labels):
            return False
    return True


def with_status_of(present: Obj, obj: Obj) -> Obj:
    """Status is a subresource: ordinary writes do not change it."""
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "status": present["status"]} if "status" in present else rest


def without_meta(obj: Obj) -> Obj:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}


def unversioned(obj: Obj) -> Obj:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}
