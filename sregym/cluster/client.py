"""The real cluster: `KubeCluster` implements the `Cluster` contract over one API server.

Every write carries the same field manager, so that none of them stands out in an object's history, and none of them
leaves a last-applied annotation, which would hold the healthy value. What a controller owns is changed in its name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Self

from sregym.cluster import executing, requesting, waits, watching
from sregym.cluster.contract import ExecResult, HttpReply, NodeShell, PatchType, Selection, WatchEvent
from sregym.cluster.discovery import listable_kinds
from sregym.cluster.objects import CRD, KNOWN_KINDS, NAMESPACE, REPLICASET, Kind, Obj, Objs, Ref, path_of, uid_of
from sregym.cluster.transport import Transport
from sregym.errors import DefinitionError, NotFound

FIELD_MANAGER = "kubectl"
"""Under which name changes are recorded in managedFields: kubectl's own for server-side apply."""
CONTROLLED = {REPLICASET: "kube-controller-manager"}
"""Kinds that nobody changes by hand, and who does."""
PAGE = 500
"""Objects per page of a list: client-go's default for kubectl."""
NEW_KIND_WITHIN_S = 30.0
"""How long the API server may take from a CRD's creation until it serves the kind."""


class KubeCluster:
    """A cluster behind a kubeconfig. Open it with `async with KubeCluster.connect(...)`."""

    def __init__(self, transport: Transport, *, name: str, field_manager: str, node_shell: NodeShell | None) -> None:
        self._transport = transport
        self._name = name
        self._field_manager = field_manager
        self._node_shell = node_shell
        self._identity = ""
        self._kinds: dict[tuple[str, str], Kind] = dict(KNOWN_KINDS)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        kubeconfig: Path,
        context: str | None = None,
        *,
        name: str | None = None,
        node_shell: NodeShell | None = None,
        field_manager: str = FIELD_MANAGER,
    ) -> AsyncIterator[Self]:
        """Connects; makes no call yet.

        Args:
            name: What people call the cluster; the kubeconfig's file name where None.
            node_shell: How to run commands on nodes; without it requests go through the API server's proxy.
            field_manager: See `FIELD_MANAGER`.

        Raises:
            PrerequisiteError: The kubeconfig cannot be used.
        """
        async with Transport.open(kubeconfig, context) as transport:
            yield cls(transport, name=name or kubeconfig.stem, field_manager=field_manager, node_shell=node_shell)

    @property
    def name(self) -> str:
        return self._name

    @property
    def node_shell(self) -> NodeShell | None:
        return self._node_shell

    async def identity(self) -> str:
        if not self._identity:
            self._identity = uid_of(await self.get(Ref(NAMESPACE, "kube-system")))
        return self._identity

    # --- reading

    async def get(self, ref: Ref) -> Obj:
        return _object(await self._transport.call("GET", _path(ref)))

    async def find(self, ref: Ref) -> Obj | None:
        try:
            return await self.get(ref)
        except NotFound:
            return None

    async def list(self, selection: Selection) -> Objs:
        return (await self.list_at(selection))[0]

    async def list_at(self, selection: Selection) -> tuple[Objs, str]:
        """All objects, page by page, and the resourceVersion of the list."""
        path, query = path_of(selection.kind, selection.namespace), {**_query_of(selection), "limit": str(PAGE)}
        objects: Objs = []
        while True:
            page = await self._transport.call("GET", path, query=query)
            # Items of a list carry neither apiVersion nor kind.
            whole = {"apiVersion": selection.kind.api_version, "kind": selection.kind.name}
            objects += [{**whole, **item} for item in page["items"] or ()]
            if not (token := page["metadata"].get("continue")):
                return objects, page["metadata"].get("resourceVersion", "")  # component statuses have none
            query["continue"] = token

    def watch(self, selection: Selection) -> AsyncGenerator[WatchEvent | None, None]:
        return watching.watch_forever(self, selection)

    def lines(
        self, selection: Selection, resource_version: str, *, idle_s: float, server_s: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The raw stream of a watch; see `watching.Source`."""
        query = {
            **_query_of(selection),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(server_s),
        }
        return self._transport.lines(path_of(selection.kind, selection.namespace), query=query, idle_s=idle_s)

    async def kinds(self) -> Sequence[Kind]:
        served = await listable_kinds(self._transport)
        self._kinds.update({(kind.api_version, kind.name): kind for kind in served})
        return served

    async def kind_of(self, obj: Obj) -> Kind:
        key = (obj["apiVersion"], obj["kind"])
        if key not in self._kinds:
            await self.kinds()
        if key not in self._kinds:
            raise NotFound(f"the cluster serves no {key[1]} of {key[0]}", status=404)
        return self._kinds[key]

    # --- writing

    async def create(self, obj: Obj) -> Obj:
        path = _collection(await self.kind_of(obj), obj)
        query = {**self._manager, "fieldValidation": "Strict"}
        return _object(await self._transport.call("POST", path, query=query, body=obj))

    async def patch(self, ref: Ref, patch: Any, kind: PatchType = PatchType.MERGE) -> Obj:
        query = {"fieldManager": CONTROLLED.get(ref.kind, self._field_manager)}
        answer = await self._transport.call("PATCH", _path(ref), query=query, body=patch, content_type=kind.value)
        return _object(answer)

    async def replace(self, obj: Obj) -> Obj:
        path = _collection(await self.kind_of(obj), obj) + "/" + obj["metadata"]["name"]
        return _object(await self._transport.call("PUT", path, query=self._manager, body=obj))

    async def delete(self, ref: Ref, *, grace_s: int | None = None, uid: str | None = None) -> bool:
        options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._transport.call("DELETE", _path(ref), body=options)
        except NotFound:
            return False
        return True

    async def apply(self, manifests: Sequence[Obj], *, namespace: str | None = None) -> None:
        for obj in manifests:
            await self._apply_one(obj, namespace)

    async def _apply_one(self, obj: Obj, namespace: str | None) -> None:
        kind = await self.kind_of(obj)
        if kind.namespaced and "namespace" not in obj["metadata"]:
            obj = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
        path = _collection(kind, obj) + "/" + obj["metadata"]["name"]
        query = {**self._manager, "force": "true", "fieldValidation": "Strict"}
        await self._transport.call("PATCH", path, query=query, body=obj, content_type="application/apply-patch+yaml")
        if kind == CRD:
            await self._until_served(obj)

    async def _until_served(self, crd: Obj) -> None:
        """A kind can be used only some moments after its definition was created."""
        spec = crd["spec"]
        probe = {"apiVersion": f"{spec['group']}/{spec['versions'][0]['name']}", "kind": spec["names"]["kind"]}

        async def served() -> Kind | None:
            try:
                return await self.kind_of(probe)
            except NotFound:
                return None

        what = f"the API server serves {probe['kind']}"
        await waits.poll(served, what=what, every=0.2, within=NEW_KIND_WITHIN_S)

    @property
    def _manager(self) -> dict[str, str]:
        return {"fieldManager": self._field_manager}

    # --- looking from inside

    async def exec(
        self, pod: Ref, argv: Sequence[str], *, container: str | None = None, stdin: str = "", within: float = 30.0
    ) -> ExecResult:
        return await executing.run_in_container(
            self._transport, pod, argv, container=container, stdin=stdin, within=within
        )

    async def logs(
        self, pod: Ref, *, container: str | None = None, previous: bool = False, tail: int | None = None
    ) -> str:
        query = {"container": container or "", "previous": "true" if previous else "", "tailLines": str(tail or "")}
        path = _path(pod) + "/log"
        data = await self._transport.call_raw("GET", path, query={key: value for key, value in query.items() if value})
        return data.decode(errors="replace")

    async def request(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        within: float = 5.0,
    ) -> HttpReply:
        request = requesting.Request(url=url, method=method, headers=headers or {}, body=body, within=within)
        if self._node_shell is not None:
            return await requesting.from_node(self, self._node_shell, request)
        return await requesting.through_api_server(self, self._transport, request)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        return await self._transport.call(method, path, query=query or {}, body=body, headers=headers)


def _path(ref: Ref) -> str:
    if ref.kind.namespaced and ref.namespace is None:
        raise DefinitionError(f"{ref}: its namespace must be filled in before it is sent")
    return path_of(ref.kind, ref.namespace, ref.name)


def _collection(kind: Kind, obj: Obj) -> str:
    namespace = obj["metadata"].get("namespace")
    if kind.namespaced and not namespace:
        raise DefinitionError(
            f"{kind} {obj['metadata'].get('name')}: its namespace must be filled in before it is sent"
        )
    return path_of(kind, namespace)


def _object(answer: Any) -> Obj:
    obj: Obj = answer
    return obj


def _query_of(selection: Selection) -> dict[str, str]:
    query = {"labelSelector": selection.labels} if selection.labels else {}
    if selection.name is not None:
        query["fieldSelector"] = f"metadata.name={selection.name}"
    return query
