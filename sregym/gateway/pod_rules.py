"""What no pod outside the system's namespaces may be, whoever creates it: Kubernetes' own "baseline", and more.

A controller creates the pods of the agent's Deployments, so the rules match by namespace and not by user. On kind a
node is itself a privileged container: root in it is root on the host.
https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Sequence

from sregym.gateway.policies import Policy, all_of, any_of, none_of, on, texts

_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
"""Those that a container has in any case, so that naming them adds nothing."""
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS = (
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
    *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
    "net.ipv4.tcp_syncookies",
)
"""Those that end at the pod."""
_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"),
)
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_OPTIONAL = "object.spec.?{}.orValue([])"


def pod_policy(control_plane: Sequence[str]) -> Policy:
    """Args: control_plane: Names of the nodes that take no workloads."""
    return Policy(
        name="pod-baseline",
        inside=False,
        rules=[on("CREATE|UPDATE", "pods"), on("UPDATE", "pods/ephemeralcontainers")],
        # Ephemeral containers are of another type than containers, so that the lists cannot be joined in CEL.
        variables={
            "containers": "object.spec.containers + " + _OPTIONAL.format("initContainers"),
            "ephemeral": _OPTIONAL.format("ephemeralContainers"),
            "volumes": _OPTIONAL.format("volumes"),
        },
        validations={
            "host namespaces are not available": none_of(
                *(f"object.spec.?{name}.orValue(false)" for name in ("hostNetwork", "hostPID", "hostIPC"))
            ),
            "this kind of volume, like hostPath, is not available": "variables.volumes.all(v, "
            + any_of(*(f"has(v.{kind})" for kind in _VOLUMES))
            + ")",
            "tokens for others than the API server are not available": "variables.volumes.all(v, "
            "v.?projected.?sources.orValue([]).all(s, s.?serviceAccountToken.?audience.orValue('') == ''))",
            "privileged containers and added capabilities are not available": _each(
                "!c.?securityContext.?privileged.orValue(false)",
                f"c.?securityContext.?capabilities.?add.orValue([]).all(k, k in {texts(_CAPABILITIES)})",
                "c.?securityContext.?procMount.orValue('Default') == 'Default'",
            ),
            "unconfined containers are not available": all_of(
                _confined("object.spec"),
                _each(_confined("c")),
                f"object.metadata.?annotations.orValue({{}}).all(k, !k.startsWith('{_APPARMOR}')"
                " || object.metadata.annotations[k] != 'unconfined')",
            ),
            "sysctls of the node are not available": "object.spec.?securityContext.?sysctls.orValue([])"
            f".all(s, s.name in {texts(_SYSCTLS)})",
            "host ports are not available": "variables.containers.all(c, "
            "c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))",
            "probes and hooks of other hosts are not available": f"variables.containers.all(c, {_at_home()})",
            "the control plane takes no workloads": all_of(
                "object.spec.?tolerations.orValue([]).all(t, t.?key.orValue('') != ''"
                " && !t.key.startsWith('node-role.kubernetes.io/'))",
                f"request.operation != 'CREATE' || !(object.spec.?nodeName.orValue('') in {texts(control_plane)})",
            ),
        },
    )


def _each(*conditions: str) -> str:
    body = all_of(*conditions)
    return f"variables.containers.all(c, {body}) && variables.ephemeral.all(c, {body})"


def _confined(owner: str) -> str:
    context = f"{owner}.?securityContext"
    return all_of(
        f"{context}.?seccompProfile.?type.orValue('') != 'Unconfined'",
        f"{context}.?appArmorProfile.?type.orValue('') != 'Unconfined'",
        f"!{context}.?windowsOptions.?hostProcess.orValue(false)",
        f"{context}.?seLinuxOptions.?type.orValue('') in {texts(_SELINUX_TYPES)}",
        f"{context}.?seLinuxOptions.?user.orValue('') == ''",
        f"{context}.?seLinuxOptions.?role.orValue('') == ''",
    )


def _at_home() -> str:
    """The kubelet asks probes and hooks from the node's own network, so that another host could be asked for us."""
    handlers = ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle.?postStart", "lifecycle.?preStop"]
    return all_of(
        *(f"c.?{handler}.?{how}.?host.orValue('') == ''" for handler in handlers for how in ("httpGet", "tcpSocket"))
    )
