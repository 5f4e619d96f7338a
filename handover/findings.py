"""What stands in the way of a broker, by name, and the way out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HandoverFinding:
    """One thing that a broker, or what stands around it, does not take as it is."""

    name: str
    """A word for programs: `file-sizes`, `retention`, `empty-bodies`, …"""
    found: str
    """What was found, with counts and the first place."""
    consequence: str
    """What a broker, its slaves, its proxy or its clients do with it."""
    mend: str
    """The way out."""

    def __str__(self) -> str:
        return f"{self.name}: {self.found}. {self.consequence}. Way out: {self.mend}"


@dataclass(slots=True)
class HandoverReport:
    """The result of `flightlog.handover.check`."""

    path: Path
    conf: Path | None
    """The `broker.conf` that was checked with the store; None: RocketMQ's defaults were."""
    findings: list[HandoverFinding] = field(default_factory=list)
    """What any broker meets: mend these first."""
    notes: list[HandoverFinding] = field(default_factory=list)
    """What some setups meet (a slave of 5.3.3, the gRPC proxy): read them before you choose yours."""
    records: int = 0
    """Records of the log that were looked at."""

    @property
    def is_fit(self) -> bool:
        """Whether there is no finding; notes do not count."""
        return not self.findings
