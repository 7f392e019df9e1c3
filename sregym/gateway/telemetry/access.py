"""Where the observability stack is found in a cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

LogStoreKind = Literal["victorialogs", "loki"]


class TelemetryAccess(BaseModel):
    """Services of the stack, each `name:port` in one namespace."""

    model_config = ConfigDict(frozen=True)
    namespace: str = "observe"
    metrics: str = "prometheus:9090"
    traces: str = "jaeger:16686"
    logs: str = "logs:9428"
    log_store: LogStoreKind = "victorialogs"

    @staticmethod
    def of(profile: str) -> TelemetryAccess:
        """The stack of a profile: Loki where images can be pulled, VictoriaLogs where all is built from source."""
        return TelemetryAccess(logs="logs:3100", log_store="loki") if profile == "full" else TelemetryAccess()
