"""What an agent must not see, as one policy: hidden namespaces, and images that only they use.

The policy is fixed per attempt. It judges decoded paths and decoded objects, so that there is one place that says what
is hidden, whichever way an object is asked for: by path, in a list, in a watch, through an event about it, through a
node's image list or through an object of the cluster that refers to it (a volume's claim, a binding's subject).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sregym.cluster.objects import Obj
from sregym.gateway.target import Target

SELF_CONTAINED = frozenset(
    {
        "configmaps",
        "controllerrevisions",
        "cronjobs",
        "daemonsets",
        "deployments",
        "horizontalpodautoscalers",
        "ingresses",
        "jobs",
        "leases",
        "limitranges",
        "networkpolicies",
        "persistentvolumeclaims",
        "poddisruptionbudgets",
        "pods",
        "podtemplates",
        "replicasets",
        "replicationcontrollers",
        "resourcequotas",
        "roles",
        "secrets",
        "serviceaccounts",
        "services",
        "statefulsets",
    }
)
"""Resources of a namespace that belong to it alone: their metadata says whether they are hidden."""
REFERRING = frozenset({"events", "rolebindings"})
"""Resources of a namespace that may speak of another one."""
_ACCOUNT = re.compile(r"system:serviceaccounts?:([a-z0-9-]+)")


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """What is hidden. `images` are repositories (no tag, no digest)."""

    namespaces: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer of our own in place of the API server's."""

    code: int
    message: str


class Hiding:
    """Judges requests and objects."""

    def __init__(self, hidden: Hidden | None = None) -> None:
        self._hidden = hidden or Hidden()
        names = sorted(map(re.escape, self._hidden.namespaces))
        self._word = re.compile(rf"(?<![a-z0-9-])(?:{'|'.join(names)})(?![a-z0-9-])") if names else None
        # Go escapes no character that may stand in these names, so they can be looked for in raw JSON.
        self._traces = [name.encode() for name in (*self._hidden.namespaces, *self._hidden.images)]

    def refusal(self, target: Target) -> Refusal | None:
        """Why a request is refused for its path alone."""
        if (target.resource, target.subresource) == ("nodes", "proxy") or target.resource == "proxy":
            return Refusal(code=403, message="nodes are not reached through the API server")
        if target.namespace in self._hidden.namespaces:
            return Refusal(code=404, message=f'namespaces "{target.namespace}" not found')
        return None

    def concerns(self, target: Target) -> bool:
        """Whether answers to this request may hold something hidden."""
        if not self._traces or not target.resource or target.subresource not in ("", "status"):
            return False
        return not target.namespace or target.resource in REFERRING

    def needs_whole_objects(self, target: Target) -> bool:
        """Whether more than an object's metadata must be read to judge it."""
        return target.resource not in SELF_CONTAINED and target.resource not in ("namespaces", "nodes")

    def may_hold(self, raw: bytes) -> bool:
        """Whether raw JSON may hold something hidden; False is certain."""
        return any(trace in raw for trace in self._traces)

    def visible(self, target: Target, obj: Obj) -> bool:
        """Whether an object of the target's resource (as in an answer: whole, or its metadata) may be seen."""
        meta = obj.get("metadata") or {}
        if meta.get("namespace") in self._hidden.namespaces:
            return False
        if target.resource == "namespaces":
            return meta.get("name") not in self._hidden.namespaces
        if target.resource == "events":
            return self._word is None or not any(map(self._word.search, _strings(obj)))
        return not self.needs_whole_objects(target) or not self._refers(obj)

    def cleaned(self, target: Target, obj: Obj) -> Obj:
        """A visible object without the hidden things in it."""
        status = obj.get("status")
        if target.resource != "nodes" or target.group or not status or not status.get("images"):
            return obj
        kept = [image for image in status["images"] if not self._hides_image(image)]
        return {**obj, "status": {**status, "images": kept}}

    def _hides_image(self, image: Obj) -> bool:
        return any(repository(name) in self._hidden.images for name in image.get("names") or ())

    def _refers(self, value: object) -> bool:
        if isinstance(value, dict):
            return value.get("namespace") in self._hidden.namespaces or any(
                self._refers(inner) for key, inner in value.items() if key != "managedFields"
            )
        if isinstance(value, list):
            return any(map(self._refers, value))
        return isinstance(value, str) and any(name in self._hidden.namespaces for name in _ACCOUNT.findall(value))


def images_only_in(namespaces: Iterable[str], pods: Iterable[Obj]) -> frozenset[str]:
    """Repositories of the images that pods of these namespaces use, and pods of no other."""
    hidden = frozenset(namespaces)
    inside: set[str] = set()
    outside: set[str] = set()
    for pod in pods:
        (inside if pod["metadata"]["namespace"] in hidden else outside).update(_images_of(pod["spec"]))
    return frozenset(inside - outside)


def repository(image: str) -> str:
    """An image's name without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _images_of(spec: Obj) -> Iterator[str]:
    lists: Sequence[str] = ("initContainers", "containers", "ephemeralContainers")
    for name in lists:
        for container in spec.get(name) or ():
            yield repository(container["image"])


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != "managedFields":
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value
