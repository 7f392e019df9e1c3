"""The second wall: ValidatingAdmissionPolicies, which the agent's user may read but not change.

An agent can run code in pods, give them rights of its own and have controllers and webhooks act for it; so RBAC alone
does not end what it can do. What no pod may be is in `pod_rules`, what the agent and its pods may not do to the
cluster in `cluster_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sregym.cluster.objects import Obj
from sregym.gateway.cluster_rules import cluster_policies
from sregym.gateway.identity import Identity
from sregym.gateway.pod_rules import pod_policy


def admission_objects(identity: Identity | None = None, *, control_plane: Sequence[str] = ()) -> list[Obj]:
    """Policies and their bindings, to be applied before the base snapshot is taken.

    Args:
        control_plane: Names of the nodes that take no workloads.
    """
    policies = [pod_policy(control_plane), *cluster_policies(identity or Identity())]
    return [obj for policy in policies for obj in policy.objects()]
