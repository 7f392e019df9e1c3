"""The kubeconfig of an agent's user."""

from __future__ import annotations

import yaml


def kubeconfig_text(server: str, namespace: str) -> str:
    """A kubeconfig without credentials: the gateway adds the attempt's token, or the address holds it."""
    name = "cluster"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": "oncall", "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "oncall", "namespace": namespace}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False)
