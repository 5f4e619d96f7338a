"""What a repair in place will do about each finding of a verify."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...index.queue.queue_extension import EXTENSION_FOLDER
from ...index.queue.queue_table import BATCH_QUEUE_FOLDER, CONSUME_QUEUE_FOLDER
from ...store.disk.disk import Disk
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import LogReader
from ...store.seal.open_seal import open_seal_path
from ...store.seal.seal import BLOCK_SIZE, seal_path
from ...store.segments.segment import Segment
from ..verify.findings import Finding, Remedy, VerifyReport
from .placeholder import without_body

QUEUE_FOLDERS = (CONSUME_QUEUE_FOLDER, BATCH_QUEUE_FOLDER, EXTENSION_FOLDER)


@dataclass(frozen=True)
class Replacement:
    """A record whose body is damaged, and what is written over it."""

    segment: Segment
    position: int
    before: bytes
    after: bytes
    topic: str
    queue_id: int
    queue_offset: int

    @property
    def text(self) -> str:
        return (
            f"write over {self.segment.path}, bytes {self.position} to {self.position + len(self.before) - 1}: the "
            f"body of {self.topic} {self.queue_id} {self.queue_offset} is lost; a placeholder takes its place"
        )


@dataclass
class Plan:
    """The steps of a repair in place."""

    replacements: list[Replacement] = field(default_factory=list)
    aside: list[Path] = field(default_factory=list)
    """Files and folders to move into the backup."""
    reopens: bool = False
    """Whether to open the store for writing, which rebuilds and cuts."""
    rebuilds: bool = False
    """Whether recovery must read the whole log, because a queue is moved aside."""
    left: list[Finding] = field(default_factory=list)
    """Findings that no repair in place mends."""

    @property
    def is_empty(self) -> bool:
        return not (self.replacements or self.aside or self.reopens)

    def texts(self) -> list[str]:
        """The steps, as text."""
        found = [each.text for each in self.replacements]
        found += [f"move aside {path}" for path in self.aside]
        if self.rebuilds:
            found.append("open the store for writing and close it: recovery reads the whole log and rebuilds from it")
        elif self.reopens:
            found.append(
                "open the store for writing and close it: recovery adds what is missing, and cuts a torn tail, whose "
                "bytes it keeps in flightlog/cut-OFFSET"
            )
        return found


def make_plan(disk: Disk, root: Path, reader: LogReader, report: VerifyReport) -> Plan:
    """Plan the repair of these findings. Reads, and changes nothing.

    Where intact records stand behind bytes that are none, there is no repair in place: then everything is left, because
    recovery would refuse the store.
    """
    plan, aside = Plan(), set[Path]()
    for finding in report.findings:
        if finding.remedy is Remedy.REPLACE:
            found = _replacements(reader, finding.offset)
            if found is None:
                plan.left.append(finding)
                continue
            plan.replacements += found
            for each in found:
                aside |= {seal_path(root, each.segment.base), open_seal_path(root)}
        elif finding.remedy is Remedy.SET_ASIDE:
            aside |= set(finding.aside or _whole_queue(root, finding.path))
        elif finding.remedy is Remedy.REOPEN:
            plan.reopens = True
        else:
            plan.left.append(finding)
    plan.left = [finding for finding in plan.left if not _is_replaced(plan, finding)]
    if any(finding.remedy in (Remedy.SALVAGE, Remedy.REPLACE) for finding in plan.left):
        return Plan(left=report.findings)
    plan.reopens |= bool(report.lag)
    plan.aside = sorted(path for path in aside if disk.exists(path))
    plan.rebuilds = any(path.relative_to(root).parts[0] in QUEUE_FOLDERS for path in plan.aside)
    plan.reopens |= bool(plan.replacements or plan.aside or aside)
    return plan


def _whole_queue(root: Path, path: Path) -> list[Path]:
    """The path itself; of a queue, all its folders: entries and their extensions belong together."""
    parts = path.relative_to(root).parts
    if parts[0] not in QUEUE_FOLDERS or len(parts) < 3:
        return [path]
    return [root / kind / parts[1] / parts[2] for kind in QUEUE_FOLDERS]


def _replacements(reader: LogReader, physical_offset: int) -> list[Replacement] | None:
    """The damaged record at this offset and those that follow it at once; None if one is an inner batch, which no
    placeholder stands for."""
    segment = reader.segment_at(physical_offset)
    assert segment is not None, "verify found a record there"
    found = []
    for record, row in _bad_records(reader, segment, physical_offset - segment.base):
        if int(row["sys_flag"]) & INNER_BATCH:
            return None
        start = int(row["topic_position"] - row["position"])
        topic = record[start : start + int(row["topic_size"])].decode("utf-8", "replace")
        position = int(row["physical_offset"]) - segment.base
        after = without_body(record)
        assert len(after) == len(record)
        found.append(
            Replacement(segment, position, record, after, topic, int(row["queue_id"]), int(row["queue_offset"]))
        )
    return found


def _bad_records(reader: LogReader, segment: Segment, position: int) -> Iterator[tuple[bytes, np.void]]:
    for piece, rows in reader.scan(segment, position, segment.size, check_crc=True, mapped=False):
        for row in rows:
            if row["crc_ok"]:
                return
            start = int(row["position"])
            yield bytes(piece[start : start + int(row["size"])]), row


def _is_replaced(plan: Plan, finding: Finding) -> bool:
    """Whether the finding is about a block that differs from its seal because of a record that is replaced."""
    return finding.remedy is Remedy.RESTORE and any(
        each.segment.path == finding.path
        and each.segment.base + each.position < finding.offset + BLOCK_SIZE
        and finding.offset < each.segment.base + each.position + len(each.before)
        for each in plan.replacements
    )
