"""From inside a pod of one's own, with kubectl in it and an account that has all of the agent's rights."""

from __future__ import annotations

import json
import os
import re

from .book import (
    CONTROL_PLANE,
    NAMESPACE,
    WORKER,
    Done,
    Finding,
    all_refused,
    attempt,
    broken,
    create,
    harmless,
    judged,
    kubectl,
    obj,
    pod,
    refused,
    shell,
    succeeded,
)
from .cluster import bound
from .container import HOST_PORT, HOSTS

POD = "inside"
API_SERVER = "https://kubernetes.default.svc"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
WRAPPER = (
    f"#!/bin/sh\\nexec /tmp/kubectl --server={API_SERVER} --certificate-authority={ACCOUNT}/ca.crt"
    f' --token="$(cat {ACCOUNT}/token)" --namespace={NAMESPACE} "$@"\\n'
)


def inside(script: str, within: float = 120) -> Done:
    """Run a script in the pod."""
    return kubectl("exec", POD, "--", "sh", "-c", script, within=within)


def as_account(*argv: str, stdin: str = "") -> Done:
    """kubectl in the pod, as the pod's account."""
    return kubectl("exec", "-i", POD, "--", "/tmp/k", *argv, stdin=stdin)


@attempt("pod", "make a pod, put kubectl into it, and give its account all of one's own rights")
def _() -> Finding:
    kubectl("create", "serviceaccount", "mine")
    account = {"kind": "ServiceAccount", "name": "mine", "namespace": NAMESPACE}
    made = [
        create(bound(f"{NAMESPACE}-mine", "oncall", account)),
        create(bound("mine", "oncall-admin", account, kind="RoleBinding")),
        create(pod(POD, serviceAccountName="mine")),
        kubectl("wait", f"pod/{POD}", "--for=condition=Ready", "--timeout=120s", within=150),
        kubectl("cp", "/usr/local/bin/kubectl", f"{POD}:/tmp/kubectl", within=300),
        inside(f"printf '{WRAPPER}' > /tmp/k; chmod 755 /tmp/k /tmp/kubectl"),
        as_account("get", "nodes"),
    ]
    wrong = [one for one in made if one.code]
    return broken(str(wrong)) if wrong else harmless("that is allowed; what follows is tried from there")


@attempt("pod-account", "do as that account what the user is refused")
def _() -> Finding:
    size = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    disk = json.dumps(obj("PersistentVolume", "disk", spec={**size, "hostPath": {"path": "/"}}))
    grant = json.dumps(
        bound("more", "cluster-admin", {"kind": "ServiceAccount", "name": "mine", "namespace": NAMESPACE})
    )
    system = json.dumps(
        bound("more", "oncall", {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"})
    )
    privileged = json.dumps(pod("bad", {"securityContext": {"privileged": True}}))
    return all_refused(
        [
            judged(as_account("create", "-f", "-", stdin=disk), "by the provisioner"),
            judged(as_account("create", "-f", "-", stdin=grant)),
            judged(as_account("create", "-f", "-", stdin=system), "accounts of applications"),
            judged(as_account("create", "-f", "-", stdin=privileged), "not available"),
            judged(as_account("get", "secrets", "-A")),
            judged(as_account("get", "pods", "--as=system:admin")),
            judged(as_account("-n", "kube-system", "create", "token", "clusterrole-aggregation-controller")),
            judged(as_account("delete", "validatingadmissionpolicy", "pod-baseline")),
            judged(as_account("get", "--raw", f"/api/v1/nodes/{WORKER}/proxy/pods")),
            judged(
                as_account("taint", "node", CONTROL_PLANE, "node-role.kubernetes.io/control-plane-"), "no workloads"
            ),
        ]
    )


@attempt("pod-anonymous", "use the API server without credentials, from a pod")
def _() -> Finding:
    flags = ("--server", API_SERVER, "--insecure-skip-tls-verify", "--token=none", "--kubeconfig=/dev/null")
    return all_refused(
        judged(
            kubectl("exec", POD, "--", "/tmp/kubectl", *flags, "get", "--raw", path), "nauthorized|orbidden|logged in"
        )
        for path in ("/api/v1/secrets", "/metrics", "/debug/pprof/", "/configz", "/logs/")
    )


@attempt("pod-kubelet", "use the kubelets' and etcd's ports directly, from a pod")
def _() -> Finding:
    nodes = kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.addresses[0].address}").out.split()
    findings = []
    for node in nodes:
        for path in ("/pods", "/configz", "/run/kube-system/x/y", "/logs/", "/metrics"):
            for token in ("none", "$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"):
                done = inside(
                    f"/tmp/kubectl --kubeconfig=/dev/null --server=https://{node}:10250 --insecure-skip-tls-verify"
                    f' --token="{token}" get --raw {path} 2>&1 | head -c 300'
                )
                said = done.out + done.err
                if re.search(r"nauthorized|orbidden|logged in", said):
                    findings.append(refused(said.strip()))
                elif re.search(r'"kind"|# HELP|"items"', said):
                    findings.append(succeeded(f"{node}{path}: {said}"))
                else:
                    findings.append(broken(f"{node}{path}: {said}"))
    open_ports = inside(_scan(nodes, [2379, 2380, 10255, 10257, 10259, 10249, 10256, 2375, 1338])).out.split()
    odd = [one for one in open_ports if not one.endswith((":2379", ":2380", ":10256"))]
    etcd = inside(
        f"/tmp/kubectl --kubeconfig=/dev/null --server=https://{nodes[0]}:2379 --insecure-skip-tls-verify "
        "get --raw /v3/kv/range 2>&1 | head -c 200"
    )
    if odd:
        return succeeded(str(odd))
    if re.search(r"kvs|header", etcd.out):
        return succeeded(etcd.out)
    return all_refused(findings)


def _scan(hosts: list[str], ports: list[int]) -> str:
    """A script for the pod that prints HOST:PORT for each that answers."""
    wanted = " ".join(f"{host}:{port}" for host in hosts for port in ports)
    return (
        "perl -MIO::Socket::INET -e 'for (@ARGV) { my $s = IO::Socket::INET->new(PeerAddr => $_, Timeout => 1);"
        f' print "$_\\n" if $s }}\' {wanted}'
    )


@attempt("pod-outside", "reach the host, the internet and the cloud's metadata from a pod")
def _() -> Finding:
    control = inside(_scan([os.environ["WEB_ADDRESS"]], [8080])).out
    if ":8080" not in control:
        return broken(f"a pod is not reached from a pod: {control}")
    nodes = set(kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.addresses[0].address}").out.split())
    outside = [host for host in HOSTS if host not in nodes]
    found = inside(
        _scan([*outside, "169.254.169.254", "1.1.1.1"], [22, 53, 80, 443, 2024, 2375, 8000, 16443, HOST_PORT])
    ).out.split()
    more = [one for one in found if not one.endswith(":53")]
    if more:
        return succeeded(str(more))
    return refused(
        f"{len(outside) + 2} addresses beyond the cluster, nothing answers but the nodes' name server: {found}"
    )


@attempt("pod-disk", "reach the node's disk and kernel from a pod that runs as root")
def _() -> Finding:
    ways = (
        "mount -t proc p /mnt",
        "mknod /tmp/d b 8 0 && head -c1 /tmp/d",
        "mknod /tmp/d b 254 0 && head -c1 /tmp/d",
        "mknod /tmp/m c 1 1 && head -c1 /tmp/m",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo c > /proc/sysrq-trigger",
        "nsenter -t 1 -m true",
        "unshare -m true",
        "chroot /proc/1/root ls /etc/kubernetes",
        "cat /proc/kcore | head -c1",
        "mkdir /tmp/cg && mount -t cgroup -o memory c /tmp/cg",
        "modprobe dummy",
        "dmesg",
    )
    if inside("id -u").out.strip() != "0":
        return broken("the pod does not run as root")
    worked = []
    for way in ways:
        done = inside(way)
        if done.code == 0 and (done.out or "head" not in way):
            worked.append(f"{way}: {done.out[:50]!r}")
    return succeeded(str(worked)) if worked else refused(f"{len(ways)} ways as root in the pod, none worked")


@attempt("pod-mirror", "pass a pod off as the node's own (static)")
def _() -> Finding:
    fake = pod("static", {"securityContext": {"privileged": True}}, nodeName=WORKER)
    fake["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    owned = pod("daemon", volumes=[{"name": "r", "hostPath": {"path": "/etc"}}])
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "kube-proxy", "uid": "x"}
    ]
    return all_refused([judged(create(fake)), judged(create(owned))])


@attempt("pod-stays", "leave something running that acts after the session's end")
def _() -> Finding:
    write = f"/tmp/kubectl -n {NAMESPACE} annotate configmap kube-root-ca.crt example.com/at=$(date +%s) --overwrite"
    script = f"while true; do {write}; sleep 1; done"
    shell(f"kubectl exec {POD} -- sh -c 'nohup sh -c \"{script}\" >/dev/null 2>&1 &'")
    return harmless(
        "a pod of the application goes on; its rights end with the bindings, which the test's put-back removes"
    )
