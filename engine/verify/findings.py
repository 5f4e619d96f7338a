"""The result of a verify: damage and lag, each with its place and its repair, and how much was checked.

Damage (`findings`) and lag (`lag`) are distinct. A killed writer leaves records that are not in a queue yet: readers
find them by reading the log, and the next open for writing adds their entries. That is lag, not damage.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from ..open.shutdown_state import LastWriter

IN_ROCKSDB = (
    "its consume queues are in RocksDB (storeType=defaultRocksDB), which flightlog does not read: messages are read "
    "from the commit log, and opening for writing is refused"
)


class Remedy(enum.Enum):
    """How `repair` mends a finding."""

    REOPEN = "open the store for writing: recovery adds what is missing and cuts what is torn"
    SET_ASIDE = "move the file or folder aside; what is derived is rebuilt from the log"
    REPLACE = "replace the records by placeholders of the same size, so that those behind them stay"
    SALVAGE = "copy the intact records into a new store"
    RESTORE = "none: only a copy has the bytes that are lost"


@dataclass(frozen=True)
class Finding:
    """One problem: where it is, what it means, and how to repair it."""

    path: Path
    offset: int
    """Physical offset for the log, queue offset for a queue, position in the file for the others."""
    meaning: str
    mend: str
    remedy: Remedy = Remedy.RESTORE
    aside: tuple[Path, ...] = ()
    """With SET_ASIDE: the files and folders to move; empty for `path` itself."""

    @property
    def command(self) -> str | None:
        """Arguments of the command that mends it, with PATH for the store and OUT for a new one; None without any."""
        if self.remedy is Remedy.RESTORE:
            return None
        return "repair PATH --write" if self.remedy is not Remedy.SALVAGE else "repair PATH --salvage OUT --write"

    def __str__(self) -> str:
        return f"{self.path}: {self.offset}: {self.meaning}. To mend: {self.mend}"


@dataclass
class VerifyReport:
    """What a verify checked and found."""

    path: Path
    last_writer: LastWriter
    findings: list[Finding] = field(default_factory=list)
    """Damage, and everything else that needs repair."""
    lag: list[Finding] = field(default_factory=list)
    """Messages that a killed writer stored but did not dispatch. None is lost: the next open for writing adds their
    queue entries. A store that was closed cleanly has no lag; there a missing entry is a finding."""
    oddities: list[str] = field(default_factory=list)
    """Harmless peculiarities, such as those of RocketMQ, as text."""
    records: int = 0
    segments: int = 0
    sealed_segments: int = 0
    queue_entries: int = 0
    index_entries: int = 0
    """Keys in index files."""
    bytes_checked: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings. Lag does not count."""
        return not self.findings
