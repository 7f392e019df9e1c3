"""The outcome of one audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sregym.audit.evidence import Finding


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What was found in one problem's incident, and how much was looked at. `error` says why it ended early."""

    problem_id: str
    findings: Sequence[Finding] = ()
    objects: int = 0
    texts: int = 0
    characters: int = 0
    seconds: float = 0.0
    parts_s: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""
    error: str = ""

    @property
    def clean(self) -> bool:
        """Everything was looked at and nothing was found."""
        return not self.findings and not self.error

    def as_json(self) -> dict[str, Any]:
        return {
            "problem": self.problem_id,
            "clean": self.clean and not self.skipped,
            "findings": [asdict(one) for one in self.findings],
            "objects": self.objects,
            "texts": self.texts,
            "characters": self.characters,
            "seconds": round(self.seconds, 1),
            "parts_s": {name: round(value, 2) for name, value in self.parts_s.items()},
            "skipped": self.skipped,
            "error": self.error,
        }
