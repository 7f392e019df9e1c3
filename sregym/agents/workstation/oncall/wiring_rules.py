"""Rules about how parts find each other: Services, their ports and selectors, and names that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from .findings import LIKELY, SURE, Finding, create
from .kube import Obj, dig, name_of, patch
from .world import World, containers_of, numbers_of, ports_of, selector_of, selects, texts_of

ADDRESS = re.compile(r"(?<![\w.:/@-])([a-z][a-z0-9-]*[a-z0-9]):([0-9]{2,5})(?![\w.])")


def service_ports(world: World) -> Iterator[Finding]:
    """A Service that forwards to a port on which its pods do not listen."""
    for service in world.services:
        pods = [pod for pod in world.pods if selects(dig(service, "spec", "selector", default={}), pod)]
        if not pods or not ports_of(pods[0]):
            continue
        for index, port in enumerate(service["spec"].get("ports", [])):
            target = port.get("targetPort", port["port"])
            names = [p.get("name") for p in ports_of(pods[0])]
            if target in numbers_of(pods[0]) or target in names:
                continue
            right = port["port"] if port["port"] in numbers_of(pods[0]) else numbers_of(pods[0])[0]
            yield Finding(
                SURE,
                f"Service {name_of(service)} forwards port {port['port']} to targetPort {target}, but no container of"
                f" its pods listens there: they listen on {sorted(numbers_of(pods[0]))}.",
                f"connections to {name_of(service)} are refused, and its callers and users see errors.",
                partial(_set_target, service, index, right),
            )


def service_selectors(world: World) -> Iterator[Finding]:
    """A Service that selects no pod although a workload of its name has some."""
    for service in world.services:
        selector = dig(service, "spec", "selector", default={})
        workload = world.workload(name_of(service))
        if not selector or workload is None or not world.pods_of(workload):
            continue
        if any(selects(selector, pod) for pod in world.pods):
            continue
        wanted = selector_of(workload)
        yield Finding(
            SURE,
            f"Service {name_of(service)} selects {selector}, which no pod carries; its pods carry {wanted}.",
            f"{name_of(service)} has no endpoints and its callers cannot connect.",
            partial(_set_selector, service, wanted),
        )


def services_missing(world: World) -> Iterator[Finding]:
    """A name that configurations refer to, with a workload behind it but no Service."""
    wanted: dict[str, set[int]] = {}
    for source in (*world.configmaps, *map(_told, world.workloads)):
        for text in texts_of(source):
            for name, port in ADDRESS.findall(text):
                wanted.setdefault(name, set()).add(int(port))
    for name, ports in sorted(wanted.items()):
        workload = world.workload(name)
        if workload is None or world.service(name) is not None:
            continue
        yield _no_service(workload, sorted(ports), f"configurations refer to {name}:{min(ports)}")


def services_unlike_siblings(world: World) -> Iterator[Finding]:
    """A workload with ports that no Service selects, where nearly all others have one."""
    with_ports = [one for one in world.workloads if ports_of(one)]
    bare = [one for one in with_ports if not _selected(world, one)]
    if len(with_ports) >= 4 and 0 < len(bare) <= len(with_ports) // 4:
        for workload in bare:
            yield _no_service(workload, [], "nearly every other workload has one", weight=LIKELY)


def _no_service(workload: Obj, ports: list[int], why: str, weight: int = SURE) -> Finding:
    name = name_of(workload)
    return Finding(
        weight,
        f"The Service {name} is missing: it was deleted (or never made), although {why}; its pods run.",
        f"the name {name} does not resolve, and its callers cannot connect and fail.",
        lambda: create(_service_for(workload, ports)),
    )


def _told(workload: Obj) -> list[Obj]:
    return [{key: c.get(key) for key in ("env", "args", "command")} for c in containers_of(workload)]


def _selected(world: World, workload: Obj) -> bool:
    template = dig(workload, "spec", "template", default={})
    return any(selects(dig(service, "spec", "selector", default={}), template) for service in world.services)


def _service_for(workload: Obj, ports: list[int]) -> Obj:
    declared = {(int(p["containerPort"]), p.get("protocol", "TCP")): p.get("name") for p in ports_of(workload)}
    numbers = {number for number, _ in declared}
    listed = [*declared, *((port, "TCP") for port in ports if port not in numbers)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name_of(workload), "namespace": workload["metadata"]["namespace"]},
        "spec": {
            "selector": dig(workload, "spec", "template", "metadata", "labels") or selector_of(workload),
            "ports": [
                {"name": f"p{number}-{protocol.lower()}", "port": number, "targetPort": number, "protocol": protocol}
                for number, protocol in listed
            ],
        },
    }


def _set_target(service: Obj, index: int, port: int) -> None:
    body = [{"op": "replace", "path": f"/spec/ports/{index}/targetPort", "value": port}]
    patch("services", name_of(service), service["metadata"]["namespace"], body, "json")


def _set_selector(service: Obj, selector: dict[str, str]) -> None:
    body = [{"op": "replace", "path": "/spec/selector", "value": selector}]
    patch("services", name_of(service), service["metadata"]["namespace"], body, "json")


RULES = (service_ports, service_selectors, services_missing, services_unlike_siblings)
