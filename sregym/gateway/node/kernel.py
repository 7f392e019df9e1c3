"""Kernel settings of a node, its clock, and what its kernel said about it.

Where nodes share the machine's kernel (kind), only settings of the node's own network namespace can be written, and
of the kernel's log only what is about the node's own pods and disks is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from sregym.cluster.node_undo import SysctlValue
from sregym.gateway.node.contract import Node, Operation, Refused, Said, said_by, without_machine

NAMESPACED = re.compile(
    r"net\.ipv4\.(ip_forward|ip_local_port_range|ip_local_reserved_ports|ip_default_ttl|fwmark_reflect"
    r"|tcp_(fin_timeout|keepalive_intvl|keepalive_probes|keepalive_time|max_syn_backlog|mtu_probing|orphan_retries"
    r"|retries1|retries2|syn_retries|synack_retries|syncookies|tw_reuse|ecn|sack|timestamps|window_scaling"
    r"|slow_start_after_idle|base_mss|rmem|wmem|congestion_control|max_tw_buckets)"
    r"|conf\.[a-z0-9_-]+\.(forwarding|rp_filter|arp_announce|arp_ignore|arp_filter|accept_redirects|send_redirects"
    r"|route_localnet|src_valid_mark)|icmp_echo_ignore_all|ping_group_range)"
    r"|net\.core\.somaxconn"
    r"|net\.netfilter\.nf_conntrack_(max|acct|log_invalid|tcp_be_liberal|tcp_loose|generic_timeout|icmp_timeout"
    r"|tcp_timeout_[a-z_]+|udp_timeout(_stream)?)"
    r"|net\.bridge\.bridge-nf-call-(iptables|ip6tables|arptables)"
    r"|net\.unix\.max_dgram_qlen"
)
"""Settings that belong to a network namespace: a change stays on the node."""
OWN_KERNEL = re.compile(
    r"fs\.(file-max|nr_open|aio-max-nr|inotify\.max_(user_instances|user_watches|queued_events))"
    r"|vm\.(max_map_count|overcommit_memory|overcommit_ratio|swappiness|dirty_ratio|dirty_background_ratio"
    r"|min_free_kbytes|panic_on_oom|vfs_cache_pressure)"
    r"|kernel\.(pid_max|threads-max|panic|panic_on_oops|sem|shmmax|shmall|shmmni|msgmax|msgmnb)"
    r"|net\.core\.(rmem_max|wmem_max|netdev_max_backlog|rmem_default|wmem_default)"
    r"|net\.ipv4\.neigh\.default\.gc_thresh[123]"
    r"|user\.max_[a-z_]+"
)
"""Settings of a whole kernel: written only where the node has one of its own."""
SHOWN = r"^(net|vm|fs|user)\.|^kernel\.(pid_max|threads-max|panic|sem|shm|msg|random\.)"
Key = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+([./][A-Za-z0-9_-]+)+$", max_length=120)]
Prefix = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.-]*$", max_length=120)]
Value = Annotated[str, StringConstraints(pattern=r"^(-?[0-9]+([ \t,-][0-9]+){0,3}|[a-z_]{1,20})$", max_length=64)]
_OOM = re.compile(r"oom-kill:.*\bpid=(\d+)")
_KILLED = re.compile(r"[Kk]illed process (\d+)")
_DISK = re.compile(r"I/O error|EXT4-fs|XFS|Buffer I/O|critical (medium|target) error", re.IGNORECASE)


class SysctlRead(Operation):
    """Read kernel settings whose names begin with a prefix, such as net.ipv4.tcp_ or net.netfilter."""

    op: Literal["sysctl-read"] = "sysctl-read"
    prefix: Prefix = "net."

    async def run(self, node: Node) -> Said:
        done = await node.run("sysctl", "--all", "--pattern", SHOWN)
        rows = [line for line in done.stdout.splitlines() if line.startswith(self.prefix)]
        return Said(text="\n".join(rows) or f"no setting begins with {self.prefix}", ok=bool(rows))


class SysctlWrite(Operation):
    """Write one kernel setting of the node's network (forwarding, TCP, connection tracking, ...)."""

    op: Literal["sysctl-write"] = "sysctl-write"
    key: Key
    value: Value
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        key = self.key.replace("/", ".")
        if OWN_KERNEL.fullmatch(key) and not node.shell.own_kernel:
            raise Refused(f"{key} belongs to the whole kernel, which this node shares; it cannot be written here")
        if not (NAMESPACED.fullmatch(key) or OWN_KERNEL.fullmatch(key)):
            raise Refused(f"{key} cannot be written here; settings of the node's network and limits can")
        before = await node.run("sysctl", "-n", key)
        if before.code != 0:
            return said_by(before)
        await node.will_change(SysctlValue(node=node.name, key=key, value=before.stdout.strip()))
        done = await node.run("sysctl", "-w", f"{key}={self.value}")
        after = await node.run("sysctl", "-n", key)
        if done.code != 0:
            return said_by(done)
        return Said(text=f"{key}: {before.stdout.strip()} -> {after.stdout.strip()}")


class Time(Operation):
    """The node's clock, and how far it is from ours."""

    op: Literal["time"] = "time"

    async def run(self, node: Node) -> Said:
        begun = datetime.now(UTC)
        done = await node.run("date", "--utc", "+%s.%N")
        ended = datetime.now(UTC)
        if done.code != 0:
            return said_by(done)
        there = datetime.fromtimestamp(float(done.stdout), UTC)
        middle = begun + (ended - begun) / 2
        apart = (there - middle).total_seconds()
        unsure = (ended - begun).total_seconds() / 2
        return Said(text=f"{there.isoformat()}\noffset {apart:+.3f} s (within {unsure:.3f} s)")


class KernelLog(Operation):
    """What the kernel said about this node's pods and disks: processes ended for lack of memory, disk errors."""

    op: Literal["kernel-log"] = "kernel-log"
    keeps: ClassVar[Literal["head", "tail"]] = "tail"

    async def run(self, node: Node) -> Said:
        done = await node.run("dmesg", "--ctime")
        if done.code != 0:
            return Said(text="the kernel's log cannot be read on this node", ok=False)
        lines = done.stdout.splitlines()
        if not node.shell.own_kernel:
            pods = (await node.run("ls", "-1", "--", "/var/lib/kubelet/pods")).stdout.split()
            disks = (await node.run("findmnt", "--noheadings", "--list", "--output", "SOURCE")).stdout.split()
            lines = about_node(lines, pods, disks)
        return Said(text=without_machine("\n".join(lines)) or "-- nothing about this node --")


def about_node(lines: Iterable[str], pods: Iterable[str], disks: Iterable[str]) -> list[str]:
    """The lines that speak of pods (by uid) or of disks of a node; all else is the machine's own.

    A disk counts where it is mounted under a device of its own (`/dev/mapper/...`, `/dev/loop...`, `/dev/dm-...`): the
    disk that everything on the machine shares tells about everybody.
    """
    uids = {form for uid in pods for form in (uid, uid.replace("-", "_"))}
    own = {disk.rsplit("/", 1)[-1] for disk in disks if disk.startswith(("/dev/mapper/", "/dev/loop", "/dev/dm-"))}
    kept, pids = [], set()
    for line in lines:
        if (oom := _OOM.search(line)) and any(uid in line for uid in uids):
            pids.add(oom[1])
            kept.append(line)
        elif ((killed := _KILLED.search(line)) and killed[1] in pids) or (
            _DISK.search(line) and any(re.search(rf"\b{re.escape(name)}\b", line) for name in own)
        ):
            kept.append(line)
    return kept
