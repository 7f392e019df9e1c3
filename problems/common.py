"""What problems share: how users are hurt, what repairs are made of, stand-ins that cheats put in a workload's place.

Pure. Everything is read from the application's topology, so that a primitive works on any of its targets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from oracles.requests import OperationsFail
from sregym.api import (
    App,
    DefinitionError,
    Obj,
    Patch,
    PatchType,
    Repair,
    Restart,
    ServiceSpec,
    Step,
    Topology,
    configmap,
    deployment,
)

SAMPLES = 5
"""Requests that a symptom rests on at least."""


def not_as_it_should_be(value: object) -> str:
    """Matches a value that a text gives, but not one that it says should be there instead."""
    wanted = ("should be", "should be port", "should have been", "must be", "must be port", "expected")
    return "".join(f"(?<!{words} )" for words in wanted) + rf"\b{value}\b"


def users_hurt(topology: Topology, *services: str) -> OperationsFail:
    """Most requests that need one of the services fail; looks back far enough to see requests of rare operations."""
    operations = topology.operations_of(*services)
    if not operations:
        raise DefinitionError(f"no user of {topology.name} needs {', '.join(services)}: nobody would be hurt")
    weights = {one.name: one.weight for one in topology.operations}
    rate = topology.rate * sum(weights[name] for name in operations) / sum(weights.values())
    return OperationsFail(operations=operations, over=max(6.0, round(1.6 * SAMPLES / rate)), minimum=SAMPLES)


def often_used(topology: Topology, name: str) -> bool:
    """Whether users need the service often enough that its loss is seen within a minute or two."""
    return bool(topology.operations_of(name)) and users_hurt(topology, name).over <= 30.0


def restart(*names: str) -> tuple[Step, ...]:
    """Roll-out restarts, one after the other."""
    return tuple(Restart(deployment(name)) for name in names)


def restart_only(*names: str, why: str) -> Repair:
    """The cheat of restarting and hoping."""
    return Repair(name=f"restart {' and '.join(names)} only", steps=restart(*names), why=why)


def config_of(topology: Topology, service: str) -> tuple[str, str]:
    """Name of the ConfigMap and of the file in it that configure a service. Raises DefinitionError."""
    for volume in topology.service(service).volumes:
        if volume.configmap and volume.sub_path and volume.sub_path.endswith(".json"):
            return volume.configmap, volume.sub_path
    raise DefinitionError(f"{topology.name}: {service} mounts no configuration file")


def configuration(topology: Topology, service: str) -> dict[str, Any]:
    """The content of a service's configuration file as shipped."""
    name, file = config_of(topology, service)
    return dict(json.loads(topology.configmaps[name][file]))


def configure(topology: Topology, service: str, changes: Mapping[str, str]) -> tuple[Step, ...]:
    """Writes a service's configuration file with some keys changed, and restarts it so that it is read."""
    name, file = config_of(topology, service)
    text = json.dumps(configuration(topology, service) | dict(changes), indent=2)
    written = Patch(configmap(name), {"data": {file: text}}, PatchType.MERGE)
    return (written, *restart(service))


def pod_template(service: str, **spec: Any) -> Patch:
    """Changes fields of the pods of a service's Deployment, as `kubectl patch` does: lists of containers by name."""
    return Patch(deployment(service), {"spec": {"template": {"spec": spec}}})


def peers(topology: Topology, name: str) -> Iterable[ServiceSpec]:
    """Other services in the same role and with the same image: what a cheat borrows."""
    own = topology.service(name)
    return (one for one in topology.services if one.name != name and (one.role, one.image) == (own.role, own.image))


def neighbour(topology: Topology, name: str) -> str:
    """Another service in the same role, to blame in a wrong diagnosis."""
    own = topology.service(name)
    others = [one for one in topology.services if one.name != name]
    return next((one.name for one in others if one.role == own.role), others[0].name)


def service_object(spec: ServiceSpec, *, name: str | None = None, **changes: Any) -> Obj:
    """A Service for a workload, as somebody would write it by hand."""
    ports = [{"name": p.name, "port": p.port, "targetPort": p.target_port, "protocol": p.protocol} for p in spec.ports]
    body = {"selector": dict(spec.labels), "ports": ports} | changes
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name or spec.name}, "spec": body}


def container_of(app: App, spec: ServiceSpec) -> Obj:
    """A container that runs the workload's image, without its volumes."""
    return {
        "name": spec.container,
        "image": app.topology.images[spec.image][app.profile],
        "imagePullPolicy": "IfNotPresent",
        **({"command": list(spec.command)} if spec.command else {}),
        **({"args": list(spec.args)} if spec.args else {}),
        "env": [{"name": key, "value": value} for key, value in spec.env.items()],
    }


def bare_pod(app: App, name: str) -> Obj:
    """A pod of one's own that looks like the workload's, while the workload stays as it is."""
    spec = app.topology.service(name)
    meta = {"name": f"{name}-manual", "labels": dict(spec.labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container_of(app, spec)]}}


def second_deployment(app: App, name: str) -> Obj:
    """Another Deployment whose pods carry the workload's labels."""
    spec = app.topology.service(name)
    labels = {**spec.labels, "track": "standby"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container_of(app, spec)]}}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": f"{name}-standby", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": body}
