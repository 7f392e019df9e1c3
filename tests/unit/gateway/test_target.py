"""Paths are decoded once, judged, and written anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sregym.gateway.target import BadTarget, parse_target


@pytest.mark.parametrize(
    ("raw", "namespace", "resource", "name", "subresource"),
    [
        ("/api/v1/pods", "", "pods", "", ""),
        ("/api/v1/namespaces/shop/pods?watch=1", "shop", "pods", "", ""),
        ("/api/v1/namespaces/shop/pods/web-1/log?follow=true", "shop", "pods", "web-1", "log"),
        ("/api/v1/namespaces/shop", "shop", "namespaces", "shop", ""),
        ("/api/v1/namespaces/shop/finalize", "shop", "namespaces", "shop", "finalize"),
        ("/api/v1/namespaces", "", "namespaces", "", ""),
        ("/apis/apps/v1/namespaces/shop/deployments/web/scale", "shop", "deployments", "web", "scale"),
        ("/api/v1/watch/namespaces/shop/pods", "shop", "pods", "", ""),
        ("/api/v1/nodes/n1/proxy/metrics", "", "nodes", "n1", "proxy"),
        ("/api/v1/n%61mespaces/sh%6Fp/pods", "shop", "pods", "", ""),
        ("/version", "", "", "", ""),
        ("/api", "", "", "", ""),
        ("/apis/apps/v1", "", "", "", ""),
        ("/", "", "", "", ""),
    ],
)
def test_what_a_path_names(raw: str, namespace: str, resource: str, name: str, subresource: str) -> None:
    target = parse_target(raw)
    assert (target.namespace, target.resource, target.name, target.subresource) == (
        namespace,
        resource,
        name,
        subresource,
    )


@pytest.mark.parametrize(
    "raw",
    [
        "", "api/v1", "http://elsewhere/api", "//api/v1", "/api//v1/pods", "/api/v1/../v1/pods", "/api/v1/%2e%2e/pods",
        "/api/v1/./pods", "/api/v1/namespaces/a%2Fpods", "/api/v1/namespaces/a%252fpods", "/api/v1/pods/%00",
        "/api/v1/pods/a%0d%0aHost:x", "/api/v1/pods/%zz", "/api/v1/pods/%", "/api/v1/pods/%ff", "/api/v1/pods/\u00e9",
        "/api/v1/pods/a b", "/api/v1/pods/a%5cb", "/api/v1/pods?x=%g1", "/api/v1/pods?x=%ff", "/" + "a" * 9000,
        "/api/v1/namespaces/shop/services/web/proxy/../../../secrets", "/api/v1/nodes/n1/proxy/%2e%2e/x",
        "/api/v1/namespaces//pods",
    ],
)  # fmt: skip
def test_paths_of_two_meanings_are_refused(raw: str) -> None:
    with pytest.raises(BadTarget):
        parse_target(raw)


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ("/api/v1/n%61mespaces/shop", "/api/v1/namespaces/shop"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode", None),
        ("/api/v1/namespaces/shop/services/http:web:80/proxy/a//b%2Fc/", None),
        ("/api/v1/pods?labelSelector=a%3Db%2Cc&limit=500", "/api/v1/pods?labelSelector=a%3Db%2Cc&limit=500"),
        ("/api/", "/api/"),
    ],
)
def test_what_is_sent_on(raw: str, sent: str | None) -> None:
    canonical = parse_target(raw).canonical
    assert canonical == sent or sent is None
    assert parse_target(canonical).path == parse_target(raw).path


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_refused_or_has_one_stable_form(text: str) -> None:
    try:
        target = parse_target("/" + text)
    except BadTarget:
        return
    again = parse_target(target.canonical)
    assert (again.canonical, again.path, again.resource) == (target.canonical, target.path, target.resource)
    assert target.canonical.isascii()
    assert ".." not in target.path.split("/")
