"""Earlier revisions: owned, at zero, harmless, and not the current one."""

from __future__ import annotations

import pytest

from apps.history import HASH, earlier_revisions
from sregym.api import Obj


@pytest.fixture
def deployment() -> Obj:
    labels = {"app": "geo"}
    container = {"name": "geo", "image": "geo:1", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}}
    return {
        "metadata": {"name": "geo", "namespace": "shop", "uid": "u-1", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_they_are_owned_and_want_no_pods(deployment: Obj) -> None:
    revisions = earlier_revisions(deployment)
    assert [r["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for r in revisions] == ["1", "2"]
    assert len({r["metadata"]["name"] for r in revisions}) == 2
    for revision in revisions:
        assert revision["metadata"]["ownerReferences"][0]["uid"] == "u-1"
        assert revision["spec"]["replicas"] == 0
        tag = revision["metadata"]["labels"][HASH]
        assert revision["spec"]["selector"]["matchLabels"] == {"app": "geo", HASH: tag}
        assert revision["spec"]["template"]["metadata"]["labels"] == {"app": "geo", HASH: tag}


def test_a_roll_back_changes_nothing_that_matters(deployment: Obj) -> None:
    now = deployment["spec"]["template"]["spec"]["containers"][0]
    for revision in earlier_revisions(deployment):
        then = revision["spec"]["template"]["spec"]["containers"][0]
        assert then["image"] == now["image"]
        assert then["resources"]["limits"] == now["resources"]["limits"]
        assert then["resources"]["requests"] != now["resources"]["requests"]


def test_the_deployment_itself_is_left_as_it_is(deployment: Obj) -> None:
    earlier_revisions(deployment)
    assert deployment["spec"]["template"]["metadata"]["labels"] == {"app": "geo"}
