"""Pods that the second wall refuses, and pods that it takes."""

from __future__ import annotations

from typing import Any

from sregym.cluster.objects import Obj

NAMESPACE = "walls"


def pod(*, container: Obj | None = None, annotations: Obj | None = None, **spec: Any) -> Obj:
    body = {"name": "main", "image": "registry.internal/library/memcached:1.6.18", **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "try-", "namespace": NAMESPACE, "annotations": annotations or {}},
        "spec": {"containers": [body], **spec},
    }


def guarded(**context: Any) -> Obj:
    return {"securityContext": context}


_TRUST = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
PODS_REFUSED: dict[str, Obj] = {
    "privileged": pod(container=guarded(privileged=True)),
    "capability": pod(container=guarded(capabilities={"add": ["NET_ADMIN"]})),
    "privileged init container": pod(initContainers=[{"name": "i", "image": "x", **guarded(privileged=True)}]),
    "raw /proc": pod(container=guarded(procMount="Unmasked"), hostUsers=False),
    "host network": pod(hostNetwork=True),
    "host processes": pod(hostPID=True),
    "host IPC": pod(hostIPC=True),
    "host path": pod(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
    "NFS": pod(volumes=[{"name": "n", "nfs": {"server": "172.18.0.1", "path": "/"}}]),
    "iSCSI": pod(
        volumes=[
            {"name": "n", "iscsi": {"targetPortal": "172.18.0.1", "iqn": "iqn.2001-04.com.example:disk", "lun": 0}}
        ]
    ),
    "other audience": pod(volumes=[{"name": "t", "projected": {"sources": [_TRUST]}}]),
    "host port": pod(container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "host port of an init container": pod(
        initContainers=[{"name": "i", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    ),
    "any toleration": pod(tolerations=[{"operator": "Exists"}]),
    "control plane": pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
    "seccomp": pod(container=guarded(seccompProfile={"type": "Unconfined"})),
    "seccomp of the pod": pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "apparmor": pod(container=guarded(appArmorProfile={"type": "Unconfined"})),
    "apparmor of the pod": pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
    "apparmor by annotation": pod(
        annotations={"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    ),
    "SELinux type": pod(securityContext={"seLinuxOptions": {"type": "spc_t"}}),
    "sysctl": pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "Windows host process": pod(
        os={"name": "windows"}, hostNetwork=True, securityContext={"windowsOptions": {"hostProcess": True}}
    ),
    "probe of the node": pod(
        container={"livenessProbe": {"httpGet": {"host": "127.0.0.1", "port": 10248, "path": "/healthz"}}}
    ),
    "hook to another host": pod(
        container={"lifecycle": {"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80, "path": "/"}}}}
    ),
}
PODS_TAKEN: dict[str, Obj] = {
    "plain": pod(),
    "careful": pod(
        container=guarded(
            capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, seccompProfile={"type": "RuntimeDefault"}
        )
    ),
    "volumes": pod(
        volumes=[
            {"name": "a", "emptyDir": {}},
            {"name": "b", "configMap": {"name": "x"}},
            {"name": "c", "secret": {"secretName": "x"}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "x"}},
            {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ]
    ),
    "tolerations and a sysctl": pod(
        tolerations=[{"key": "dedicated", "operator": "Exists"}],
        securityContext={"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]},
    ),
    "probes": pod(container={"readinessProbe": {"httpGet": {"port": 80}}, "ports": [{"containerPort": 80}]}),
}
