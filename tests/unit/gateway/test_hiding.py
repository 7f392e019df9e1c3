"""What is hidden is found in paths, objects, lists, tables, watches, events, image lists and references."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from sregym.gateway.filtering import Filter, Unreadable, asked, dumped, parsed, replaced
from sregym.gateway.hiding import Hidden, Hiding, images_only_in, repository
from sregym.gateway.target import Target, parse_target

HIDING = Hiding(Hidden(namespaces=frozenset({"vault", "vault-2"}), images=frozenset({"registry.internal/vault"})))
META = "application/json;as=Table;v=v1;g=meta.k8s.io"


def obj(name: str, namespace: str | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}


def listed(*items: dict[str, Any], kind: str = "PodList", **meta: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7", **meta}, "items": list(items)}


def table(*objects: dict[str, Any] | None, columns: bool = True) -> dict[str, Any]:
    rows = [{"cells": ["c"], "object": one} for one in objects]
    found = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "7"}}
    return {**found, "columnDefinitions": [{"name": "Name"}] if columns else None, "rows": rows}


def names(document: dict[str, Any] | None) -> list[str]:
    assert document is not None
    return [one["metadata"]["name"] for one in document["items"]]


def entries(document: dict[str, Any] | None) -> list[dict[str, Any]]:
    assert document is not None
    found: list[dict[str, Any]] = document.get("items") or document["rows"]
    return found


def after(path: str, document: dict[str, Any], surplus: str | None = None) -> dict[str, Any] | None:
    return Filter(HIDING, parse_target(path), surplus).document(document)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/namespaces/vault", 404),
        ("/api/v1/namespaces/vault/pods", 404),
        ("/api/v1/namespaces/v%61ult/pods/x/exec?command=id", 404),
        ("/api/v1/namespaces/vault/services/http:store:80/proxy/metrics", 404),
        ("/api/v1/namespaces/vault-2/finalize", 404),
        ("/api/v1/watch/namespaces/vault/pods", 404),
        ("/apis/apps/v1/namespaces/vault/deployments/x/scale", 404),
        ("/apis/metrics.k8s.io/v1beta1/namespaces/vault/pods", 404),
        ("/api/v1/nodes/worker/proxy/pods", 403),
        ("/api/v1/nodes/worker:10250/proxy/", 403),
        ("/api/v1/proxy/nodes/worker/pods", 403),
        ("/api/v1/namespaces/vault-3/pods", None),
        ("/api/v1/namespaces/shop/pods/vault", None),
        ("/api/v1/nodes/worker", None),
    ],
)
def test_paths(path: str, code: int | None) -> None:
    refusal = HIDING.refusal(parse_target(path))
    assert (refusal.code if refusal else None) == code


def test_nodes_are_not_proxied_even_where_nothing_is_hidden() -> None:
    assert Hiding().refusal(parse_target("/api/v1/nodes/worker/proxy/pods")) is not None
    assert Hiding().refusal(parse_target("/api/v1/namespaces/vault/pods")) is None
    assert not Hiding().concerns(parse_target("/api/v1/pods"))


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("/api/v1/pods", True),
        ("/api/v1/pods?watch=1", True),
        ("/api/v1/namespaces/shop/pods", False),
        ("/api/v1/namespaces/shop/events", True),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", True),
        ("/api/v1/namespaces", True),
        ("/api/v1/namespaces/shop", False),
        ("/api/v1/nodes/worker/status", True),
        ("/api/v1/namespaces/shop/pods/web/log", False),
        ("/openapi/v3", False),
        ("/apis", False),
    ],
)
def test_only_answers_that_can_hold_it_are_read(path: str, concerned: bool) -> None:
    assert HIDING.concerns(parse_target(path)) is concerned


def test_lists() -> None:
    pods = listed(obj("a", "shop"), obj("b", "vault"), obj("c", "vault-3"), remainingItemCount=3)
    kept = after("/api/v1/pods", pods)
    assert kept is not None
    assert (names(kept), kept["metadata"]) == (["a", "c"], {"resourceVersion": "7"})
    spaces = listed(obj("shop"), obj("vault"), kind="NamespaceList")
    assert names(after("/api/v1/namespaces", spaces)) == ["shop"]
    partial = listed(obj("a", "shop"), obj("b", "vault"), kind="PartialObjectMetadataList")
    assert names(after("/api/v1/pods", partial)) == ["a"]


EVENTS = {
    "in it": obj("e", "vault"),
    "involved": obj("e", "default", involvedObject={"kind": "Pod", "namespace": "vault", "name": "p"}),
    "regarding": obj("e", "shop", regarding={"namespace": "vault"}),
    "related": obj("e", "shop", related={"namespace": "vault"}),
    "about the namespace": obj("e", "default", involvedObject={"kind": "Namespace", "name": "vault"}),
    "in words": obj("e", "default", message="Evicted pod vault/store-0 from node worker"),
    "in a note": obj("e", "shop", note='namespaces "vault" is being removed'),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/namespaces/shop/events"])
def test_events_about_it(event: dict[str, Any], path: str) -> None:
    other = obj("other", "shop", message="the vaults of vault-3", involvedObject={"namespace": "shop"})
    assert names(after(path, listed(event, other, kind="EventList"))) == ["other"]


REFERENCES = {
    "/api/v1/persistentvolumes": {"spec": {"claimRef": {"namespace": "vault", "name": "data"}}},
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "subjects": [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "namespace": "vault", "name": "x"}]
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings": {
        "subjects": [{"kind": "Group", "name": "system:serviceaccounts:vault"}]
    },
    "/apis/certificates.k8s.io/v1/certificatesigningrequests": {"spec": {"username": "system:serviceaccount:vault:x"}},
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {
        "webhooks": [{"clientConfig": {"service": {"namespace": "vault", "name": "x"}}}]
    },
    "/apis/apiregistration.k8s.io/v1/apiservices": {"spec": {"service": {"namespace": "vault"}}},
    "/apis/example.com/v1/widgets": {"spec": {"target": {"namespace": "vault-2"}}},
}


@pytest.mark.parametrize(("path", "more"), REFERENCES.items(), ids=[p.rpartition("/")[2] for p in REFERENCES])
def test_objects_that_refer_to_it(path: str, more: dict[str, Any]) -> None:
    hidden, other = obj("hidden", **more), obj("other", **json.loads(json.dumps(more).replace("vault", "shop")))
    assert names(after(path, listed(hidden, other, kind="SomethingList"))) == ["other"]
    assert after(path + "/hidden", hidden) is None
    assert after(path + "/other", other) == other


def test_node_image_lists() -> None:
    images = [
        {"names": ["registry.internal/vault@sha256:00", "registry.internal/vault:1"], "sizeBytes": 1},
        {"names": ["registry.internal/vault-other:1"], "sizeBytes": 1},
    ]
    node = obj("worker", status={"images": images, "phase": "x"})
    for found in (
        after("/api/v1/nodes/worker", node) or {},
        entries(after("/api/v1/nodes", listed(node, kind="NodeList")))[0],
        entries(after("/api/v1/nodes", table(node)))[0]["object"],
    ):
        assert found["status"] == {"images": images[1:], "phase": "x"}


def test_images_only_in_hidden_namespaces() -> None:
    def pod(namespace: str, *images: str) -> dict[str, Any]:
        return {"metadata": {"namespace": namespace}, "spec": {"containers": [{"image": one} for one in images]}}

    pods = [pod("vault", "r:5000/vault@sha256:0", "busybox:1"), pod("shop", "busybox:2", "shop")]
    assert images_only_in(["vault"], pods) == {"r:5000/vault"}
    assert repository("r:5000/a/b") == "r:5000/a/b"


@pytest.mark.parametrize(
    ("path", "accept", "sent", "surplus"),
    [
        ("/api/v1/pods", META, "/api/v1/pods?includeObject=Metadata", None),
        ("/api/v1/pods?includeObject=None&limit=5", META, "/api/v1/pods?limit=5&includeObject=Metadata", "None"),
        ("/api/v1/persistentvolumes", META, "/api/v1/persistentvolumes?includeObject=Object", "Metadata"),
        ("/api/v1/events?include%4Fbject=None", META, "/api/v1/events?includeObject=Object", "None"),
        ("/api/v1/events?includeObject=Object&includeObject=None", META, "/api/v1/events?includeObject=Object", None),
        ("/api/v1/events?includeObject=x;y", META, "/api/v1/events?includeObject=Object", "Metadata"),
        ("/api/v1/events?includeObject=None", "application/json", "/api/v1/events?includeObject=None", None),
    ],
)
def test_tables_are_asked_for_with_what_they_are_judged_by(
    path: str, accept: str, sent: str, surplus: str | None
) -> None:
    form = asked(HIDING, parse_target(path), accept.encode())
    assert form is not None
    assert (form.path, form.surplus) == (sent, surplus)


def test_metadata_alone_is_not_enough_to_judge_what_refers() -> None:
    target = parse_target("/api/v1/persistentvolumes")
    partial = b"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    assert asked(HIDING, target, partial) is None
    form = asked(HIDING, target, partial + b", application/json")
    assert form is not None
    assert form.accept == b"application/json"
    assert asked(HIDING, parse_target("/api/v1/pods"), partial) is not None
    for document in (
        listed(obj("a"), kind="PartialObjectMetadataList"),
        table({"kind": "PartialObjectMetadata", **obj("a")}),
        table(None),
        obj("a", kind="PartialObjectMetadata"),
    ):
        with pytest.raises(Unreadable):
            after("/api/v1/persistentvolumes", document)


def test_tables_and_their_surplus() -> None:
    whole = [obj("a", spec={"claimRef": {"namespace": "vault"}}), obj("b", spec={"claimRef": {"namespace": "shop"}})]
    kept = after("/api/v1/persistentvolumes", table(*whole), "Metadata")
    assert kept is not None
    assert kept["rows"] == [
        {
            "cells": ["c"],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "b"}},
        }
    ]
    bare = after("/api/v1/pods", table(obj("a", "shop"), obj("b", "vault")), "None")
    assert bare is not None
    assert bare["rows"] == [{"cells": ["c"], "object": None}]
    assert after("/api/v1/persistentvolumes/a", table(whole[0])) is None


def test_a_page_must_not_end_with_what_is_hidden() -> None:
    sieve = Filter(HIDING, parse_target("/api/v1/pods?limit=2"))
    shown, hidden = obj("a", "shop"), obj("b", "vault")
    assert sieve.ends_hidden(listed(shown, hidden, **{"continue": "t"}))
    assert sieve.ends_hidden({**table(shown, hidden), "metadata": {"continue": "t"}})
    assert not sieve.ends_hidden(listed(hidden, shown, **{"continue": "t"}))
    assert not sieve.ends_hidden(listed(shown, hidden))
    assert replaced("/api/v1/pods?limit=2&continue=a&c%6Fntinue=b", "continue", "x=+/") == (
        "/api/v1/pods?limit=2&continue=x%3D%2B%2F"
    )


async def watched(target: Target, *events: dict[str, Any], cut: int = 0, surplus: str | None = None) -> list[Any]:
    """Events as a client gets them; `cut`: bytes in each piece that comes from the server."""
    raw = b"".join(map(dumped, events))

    async def pieces() -> AsyncIterator[bytes]:
        step = cut or len(raw)
        for start in range(0, len(raw), step):
            yield raw[start : start + step]

    found = b"".join([piece async for piece in Filter(HIDING, target, surplus).events(pieces())])
    return [parsed(line) for line in found.splitlines()]


def kinds(events: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["type"], one["object"].get("metadata", {}).get("name", "")) for one in events]


@pytest.mark.parametrize("cut", [0, 1, 7, 100])
async def test_watches(cut: int) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}}
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "vault"}}
    events = [
        {"type": "ADDED", "object": obj("a", "shop")},
        {"type": "ADDED", "object": obj("b", "vault")},
        bookmark,
        {"type": "DELETED", "object": obj("b", "vault")},
        {"type": "MODIFIED", "object": obj("vault", "shop")},
        gone,
    ]
    found = await watched(parse_target("/api/v1/pods?watch=1"), *events, cut=cut)
    assert found == [events[0], bookmark, events[4], gone]


async def test_the_columns_of_a_watched_table_move_to_the_first_row_that_is_shown() -> None:
    events = [
        {"type": "ADDED", "object": table(obj("b", "vault"))},
        {"type": "ADDED", "object": table(obj("v", "vault-2"), columns=False)},
        {"type": "ADDED", "object": table(obj("a", "shop"), columns=False)},
        {"type": "ADDED", "object": table(obj("c", "shop"), columns=False)},
    ]
    found = await watched(parse_target("/api/v1/pods?watch=1"), *events)
    assert [one["object"]["columnDefinitions"] for one in found] == [[{"name": "Name"}], None]
    assert [one["object"]["rows"][0]["object"]["metadata"]["name"] for one in found] == ["a", "c"]


async def test_a_list_that_comes_where_a_watch_was_expected_is_judged_as_a_list() -> None:
    found = await watched(parse_target("/api/v1/pods?watch=1"), listed(obj("a", "shop"), obj("b", "vault")))
    assert names(found[0]) == ["a"]


async def test_what_is_no_event_ends_the_stream() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"vault is not JSON\n"

    with pytest.raises(Unreadable):
        assert [piece async for piece in Filter(HIDING, parse_target("/api/v1/pods?watch=1")).events(pieces())] == []


@pytest.mark.parametrize(
    ("query", "watches"),
    [
        ("watch=1", True), ("watch", True), ("watch=", True), ("watch=true", True), ("watch=yes", True),
        ("watch=%74rue", True), ("w%61tch=1", True), ("watch=0", False), ("watch=FALSE", False), ("", False),
        ("watch=0&watch=1", False), ("watch=1&watch=0", True), ("a;watch=1", False), ("Watch=1", False),
    ],
)  # fmt: skip
def test_which_requests_are_watches(query: str, watches: bool) -> None:
    assert parse_target(f"/api/v1/pods?{query}").watch is watches
    assert parse_target(f"/api/v1/watch/pods?{query}").watch is True
