"""The kubelet's configuration file: read, and set key by key.

Only keys that tune the kubelet can be set. Those that decide who may talk to it, what it runs by itself, or which
files of the node it hands to pods cannot: they would be a way to rights that an agent does not have.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from sregym.cluster.node_undo import FileContent, write_file
from sregym.errors import RecoveryError
from sregym.gateway.node.contract import Node, Operation, Refused, Said

PATH = "/var/lib/kubelet/config.yaml"
HIDDEN = ("authentication", "authorization")

Count = Annotated[int, Field(ge=0, le=1_000_000)]
Percent = Annotated[int, Field(ge=0, le=100)]
Duration = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$")]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[kKMGTPE]i?)?$")]
Threshold = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(%|m|[kKMGTPE]i?)?$")]
Signal = Literal[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
]
Reserved = dict[Literal["cpu", "memory", "ephemeral-storage", "pid"], str]

KEYS: dict[str, Any] = {
    "maxPods": Annotated[int, Field(ge=1, le=1000)],
    "podPidsLimit": Annotated[int, Field(ge=-1, le=4_194_304)],
    "podsPerCore": Count,
    "evictionHard": dict[Signal, Threshold],
    "evictionSoft": dict[Signal, Threshold],
    "evictionSoftGracePeriod": dict[Signal, Duration],
    "evictionMinimumReclaim": dict[Signal, Threshold],
    "evictionMaxPodGracePeriod": Count,
    "evictionPressureTransitionPeriod": Duration,
    "imageGCHighThresholdPercent": Percent,
    "imageGCLowThresholdPercent": Percent,
    "imageMinimumGCAge": Duration,
    "containerLogMaxSize": Quantity,
    "containerLogMaxFiles": Annotated[int, Field(ge=2, le=100)],
    "systemReserved": Reserved,
    "kubeReserved": Reserved,
    "serializeImagePulls": bool,
    "maxParallelImagePulls": Annotated[int, Field(ge=1, le=100)],
    "registryPullQPS": Count,
    "registryBurst": Count,
    "kubeAPIQPS": Count,
    "kubeAPIBurst": Count,
    "eventRecordQPS": Count,
    "eventBurst": Count,
    "nodeStatusUpdateFrequency": Duration,
    "nodeStatusReportFrequency": Duration,
    "nodeLeaseDurationSeconds": Annotated[int, Field(ge=1, le=3600)],
    "syncFrequency": Duration,
    "fileCheckFrequency": Duration,
    "httpCheckFrequency": Duration,
    "runtimeRequestTimeout": Duration,
    "volumeStatsAggPeriod": Duration,
    "streamingConnectionIdleTimeout": Duration,
    "cpuManagerPolicy": Literal["none", "static"],
    "memoryManagerPolicy": Literal["None", "Static"],
    "topologyManagerPolicy": Literal["none", "best-effort", "restricted", "single-numa-node"],
    "cpuCFSQuota": bool,
    "cpuCFSQuotaPeriod": Duration,
    "clusterDomain": Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253)],
    "clusterDNS": Annotated[list[Annotated[str, Field(pattern=r"^[0-9a-fA-F.:]+$")]], Field(max_length=3)],
    "failSwapOn": bool,
    "rotateCertificates": bool,
    "shutdownGracePeriod": Duration,
    "shutdownGracePeriodCriticalPods": Duration,
    "containerLogMaxWorkers": Annotated[int, Field(ge=1, le=100)],
    "logging": dict[Literal["verbosity"], Annotated[int, Field(ge=0, le=6)]],
}
"""Top-level keys of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that can be set, and their types."""


class KubeletConfig(Operation):
    """Read the kubelet's configuration file."""

    op: Literal["kubelet-config"] = "kubelet-config"

    async def run(self, node: Node) -> Said:
        shown = {key: value for key, value in (await _read(node))[1].items() if key not in HIDDEN}
        return Said(text=yaml.safe_dump(shown, sort_keys=True))


class KubeletSet(Operation):
    """Set one top-level key of the kubelet's configuration (null removes it). Restart kubelet for it to count."""

    op: Literal["kubelet-set"] = "kubelet-set"
    key: str
    value: Any
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        if self.key not in KEYS:
            raise Refused(f"{self.key} cannot be set here; these keys can: {', '.join(KEYS)}")
        value = self._checked()
        text, config = await _read(node)
        before = config.get(self.key)
        if value is None:
            config.pop(self.key, None)
        else:
            config[self.key] = value
        await node.will_change(FileContent(node=node.name, path=PATH, text=text, unit="kubelet"))
        try:
            await write_file(node.shell, node.name, PATH, yaml.safe_dump(config, sort_keys=False))
        except RecoveryError as error:
            return Said(text=str(error), ok=False)
        told = f"{self.key}: {_shown(before)} -> {_shown(value)}"
        return Said(text=f"{told}\nrestart kubelet for it to count (service restart kubelet)")

    def _checked(self) -> Any:
        if self.value is None:
            return None
        try:
            return TypeAdapter(KEYS[self.key]).validate_python(self.value, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise Refused(f"{self.key}: {first['msg']} (got {self.value!r})") from None


async def _read(node: Node) -> tuple[str, dict[str, Any]]:
    """The file as text and as mapping."""
    done = await node.run("cat", "--", PATH)
    try:
        config = yaml.safe_load(done.stdout) if done.code == 0 else None
    except yaml.YAMLError as error:
        raise Refused(f"{PATH} is not YAML: {error}") from error
    if not isinstance(config, dict):
        raise Refused(f"{PATH} cannot be read: {done.stderr.strip() or 'it holds no mapping'}")
    return done.stdout, config


def _shown(value: Any) -> str:
    return (
        "(not set)" if value is None else yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
    )
