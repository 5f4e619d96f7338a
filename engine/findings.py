"""What a verify says: findings, each with its place and what would mend it, and how much was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .evidence import LastWriter


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be."""

    path: Path
    offset: int
    """Physical offset for the log, queue offset for a queue, position in the file for the others."""
    meaning: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path}: {self.offset}: {self.meaning}. To mend: {self.mend}"


@dataclass
class VerifyReport:
    """What a verify looked at and found."""

    path: Path
    last_writer: LastWriter
    findings: list[Finding] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)
    """What looks wrong and is not: RocketMQ's own ways, in words."""
    records: int = 0
    segments: int = 0
    sealed_segments: int = 0
    queue_entries: int = 0
    index_entries: int = 0
    """Keys in index files."""
    bytes_checked: int = 0

    @property
    def is_clean(self) -> bool:
        return not self.findings
