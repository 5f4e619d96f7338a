"""From files to a state that can be read or written.

A healthy store is not scanned: the progress page and each queue's last entry decide from where on something may be
damaged or not dispatched. The report names the scanned range.

    last writer          scanned from
    flightlog, closed    nothing, if every queue's last entry meets its record; else everything
    flightlog, killed    where queues were last synced
    RocketMQ, closed     the segment of the highest queue entry (as RocketMQ 5.3)
    RocketMQ, killed     the newest segment whose first record is older than the checkpoint by two minutes (RocketMQ
                         trusts the checkpoint, which is ahead of its queues)

If a queue then turns out to lack earlier entries, the scan starts again further back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...index.dispatch.build_entries import build_entries
from ...index.dispatch.dispatch import DispatchedEntries, put_entries, queue_entries
from ...index.dispatch.dispatch_rules import DispatchCount, DispatchRules
from ...index.key.key_entries import KeyEntries
from ...index.queue.queue_table import Queue, QueueTable, has_lost_unit, last_entry
from ...index.queue.queue_unit import QueueUnit
from ...store.disk.parallel import each
from ...store.errors import CorruptRecordError
from ...store.format.frame import Rows
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.segments.segment import Segment
from ...store.state.progress import FLIGHTLOG_FOLDER, Progress
from ..dispatch.dispatching import dispatch_range, forget_beyond, is_entry_of, lagging_from
from ..dispatch.key_scan import KeptKeys
from .shutdown_state import LastWriter, ShutdownState
from .tail_scan import TailScan, scan_tail

TOLD = ("scanned_from", "reason", "records_scanned", "entries_dispatched", "keys_scanned_from", "keys_put")
"""Fields of a report that its log line has."""

CLOSED_CLEANLY = "closed cleanly, every queue's last entry meets its record"
"""The reason of a report if nothing is scanned: then no queue needs another check."""


def rebuild_path(root: Path) -> Path:
    """The file that has the next opening read the whole log: `repair` makes it before it moves the first queue, and
    removes it once the queues are there again."""
    return root / FLIGHTLOG_FOLDER / "rebuild"


ROCKETMQ_QUEUES_LAG_MS = 120_000
"""RocketMQ syncs its queues every minute (`flushConsumeQueueThoroughInterval`), but its checkpoint says every second
how far they are in the page cache. After a power cut its queues lack later entries, and a quiet queue has no later
record that would show the gap. Twice the interval, because a round takes time."""


@dataclass
class RecoveryReport:
    """Result of opening a store: what was found and done."""

    last_writer: LastWriter
    scanned_from: int
    """Physical offset where the scan started; equal to `end` if nothing was scanned."""
    end: int
    """Physical offset where the log ends."""
    reason: str
    """Why the scan started where it did."""
    records_scanned: int = 0
    entries_dispatched: int = 0
    """Queue entries that were missing or wrong."""
    damage: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    """The part that was cut off the log, and where its bytes are kept."""
    last_store_timestamp_ms: int = 0
    first_missed: int | None = None
    """Physical offset of the first record whose queue entry was missing or wrong; None if none was."""
    keys_scanned_from: int | None = None
    """Physical offset from which on keys were put into the key index; None if the index was not checked."""
    keys_put: int = 0
    keys_reason: str = ""
    """Why the keys were put from there on."""

    def log_lines(self) -> list[str]:
        """The report as text."""
        scanned = self.end - self.scanned_from
        lines = [
            f"last writer: {self.last_writer.value}; scanned {scanned} bytes from {self.scanned_from} ({self.reason}): "
            f"{self.records_scanned} records, {self.entries_dispatched} queue entries missing or wrong"
        ]
        if self.keys_scanned_from is not None:
            lines.append(
                f"key index: {self.keys_put} keys put, from {self.end - self.keys_scanned_from} bytes at "
                f"{self.keys_scanned_from} ({self.keys_reason})"
            )
        return lines + self.damage + self.cut

    def tell(self, path: Path, log: logging.Logger) -> None:
        """Log one line on the recovery, and one for each damage. A cut was logged when it was made."""
        facts = {name: getattr(self, name) for name in TOLD}
        facts |= {"path": str(path), "physical_offset": self.end, "last_writer": self.last_writer.name}
        done = self.log_lines()[: 1 if self.keys_scanned_from is None else 2]
        log.info("%s: %s", path, "; ".join(done), extra=facts)
        for damage in self.damage:
            log.info("%s: %s", path, damage, extra={"path": str(path), "damage": damage})

    def tell_open(self, path: Path, log: logging.Logger) -> None:
        """Log that the store is now open for writing."""
        facts = {"path": str(path), "physical_offset": self.end, "last_writer": self.last_writer.name}
        log.info("%s: open for writing, the log continues at physical offset %d", path, self.end, extra=facts)


def recover_queues(
    reader: LogReader,
    table: QueueTable,
    shutdown_state: ShutdownState,
    rules: DispatchRules,
    limit: int | None,
    *,
    for_writing: bool,
    keys: KeptKeys | None = None,
    at_end: Callable[[int], None] | None = None,
) -> tuple[TailScan, RecoveryReport]:
    """Find the log's end and bring the queues up to it, on disk or in memory, depending on the table. `keys` gets the
    keys of the records that are read for that; `at_end` is called with the end as soon as it is known. Raises
    CorruptLogError, before anything is changed, if a writer meets a corrupt middle.
    """
    start, reason = scan_start(reader, table, shutdown_state)
    first_missed: int | None = None
    while True:
        noted = KeptEntries(table, rules, start)
        found = scan_tail(reader, shutdown_state, start, limit, for_writing=for_writing, look=noted.look)
        if at_end is not None:
            at_end(found.end)
            at_end = None  # the log ends there, even if the tail scan must start again further back
        count = DispatchCount(reader.min_offset)
        if keys is not None:
            keys.begin(start)
        put_keys = None if keys is None else keys.keep
        noted.dispatch(count, put_keys)
        for extent_start, extent_stop in found.extents:
            unread = max(extent_start, noted.stop)
            if unread < extent_stop:
                dispatch_range(reader, table, rules, unread, extent_stop, count, put_keys=put_keys)
        if reason is not CLOSED_CLEANLY or start < found.end:
            forget_beyond(table, start, count)
        if count.first_put is not None:
            first_missed = count.first_put if first_missed is None else min(first_missed, count.first_put)
        if not count.gaps or start <= reader.min_offset:
            break
        start = min(start - 1, lagging_from(table, reader, count))
        segment = reader.segment_at(start)
        start = reader.min_offset if segment is None else segment.base
        reason = f"{len(count.gaps)} queues missed entries from before"
    if for_writing:
        # Equal entries may be in the page cache only, and the new session declares all of them durable.
        for key, queue_on_disk in table.on_disk():
            if key in count.starts:
                queue_on_disk.write_again(count.starts[key])
    for _, queue in table.items():
        queue.set_min_offset(reader.min_offset)
    report = RecoveryReport(
        shutdown_state.last_writer,
        start,
        found.end,
        reason,
        found.records,
        count.entries,
        last_store_timestamp_ms=found.last_store_timestamp_ms or _last_store_timestamp_ms(shutdown_state),
        first_missed=first_missed,
    )
    for damage in found.damage:
        report.damage.append(f"{damage.path}: physical offset {damage.physical_offset}: {damage.found}; read past")
    for physical_offset, queue_offset in count.impossible:
        segment = reader.segment_at(physical_offset)
        path = reader.folder if segment is None else segment.path
        report.damage.append(
            f"{path}: physical offset {physical_offset}: a record that claims queue offset {queue_offset}, which no "
            "message there can have; it stands in no queue"
        )
    return found, report


def scan_start(reader: LogReader, table: QueueTable, shutdown_state: ShutdownState) -> tuple[int, str]:
    """The physical offset from which on the log must be scanned, and why."""
    progress = shutdown_state.progress
    if table.is_in_rocksdb:
        return reader.min_offset, "its consume queues are in RocksDB, which is not read"
    if reader.disk.exists(rebuild_path(shutdown_state.root)):
        return reader.min_offset, "a repair moved derived files aside"
    if shutdown_state.is_ours and progress is not None:
        wrong = _lost_queues(table, progress) or _disagreement(reader, table)
        if wrong is not None:
            return reader.min_offset, wrong
        start = max(progress.queues_flushed, reader.min_offset)
        if shutdown_state.last_writer is LastWriter.FLIGHTLOG_CLOSED:
            return start, CLOSED_CLEANLY
        return start, "everything before was in synced queues"
    if reader.min_offset == 0 and any(queue.min_index > 0 for _, queue in table.items()):
        return 0, "a queue begins above 0 over a log that still has everything"
    if shutdown_state.last_writer is LastWriter.ROCKETMQ_CLOSED:
        wrong = _disagreement(reader, table)
        if wrong is not None:
            return reader.min_offset, wrong
        return _segment_of_highest_entry(reader, table), "the segment of the highest queue entry"
    if shutdown_state.last_writer is LastWriter.ROCKETMQ_KILLED and table.items() and not table.unreadable:
        return _segment_before_checkpoint(
            reader, shutdown_state
        ), "the newest segment that begins well before the checkpoint"
    return reader.min_offset, "nothing says that less would do"


def _lost_queues(table: QueueTable, progress: Progress) -> str | None:
    """Why the queues on disk cannot be those of the progress page; None if they can."""
    queues = table.items()
    if len(queues) < progress.queue_count:
        return f"{progress.queue_count - len(queues)} of {progress.queue_count} queues are missing"
    if sum(queue.end for _, queue in queues) < progress.queue_ends:
        return "queue entries are missing"
    # Expired entries stay in their files until those are removed, and new queues begin at 0: so this never grows.
    if sum(queue.min_index for _, queue in queues) > progress.queue_starts:
        return "the first entries of a queue are missing"
    return None


def _disagreement(reader: LogReader, table: QueueTable) -> str | None:
    """Why the queues on disk do not match the log; None if the last entry of each points at its record."""
    if table.unreadable:
        return table.unreadable[0]
    with _scattered_reads(reader) as expect:

        def look(item: tuple[QueueKey, Queue]) -> str | None:
            key, queue = item
            if queue.end <= queue.min_index:
                return None
            unit = last_entry(queue)
            expect(unit)
            wrong = _entry_disagreement(reader, key, queue.end - 1, unit)
            if wrong is None and queue.extension is not None and has_lost_unit(queue, queue.end - 1):
                return f"queue {key[0]} {key[1]}: its last entry {queue.end - 1} names no unit of its extension"
            return wrong

        with closing(each(reader.disk, look, table.items())) as found:
            return next((wrong for wrong in found if wrong is not None), None)


@contextmanager
def _scattered_reads(reader: LogReader) -> Iterator[Callable[[QueueUnit | None], None]]:
    """Context of reads of single records all over the log; prefetches each."""
    segments: set[Segment] = set()

    def expect(unit: QueueUnit | None) -> None:
        segment = reader.segment_at(unit.physical_offset) if unit is not None else None
        if segment is not None and segment not in segments:
            with suppress(FileNotFoundError):  # the read itself will raise
                segment.expect_scattered_reads(True)
                segments.add(segment)

    try:
        yield expect
    finally:
        for segment in segments:
            with suppress(FileNotFoundError):
                segment.expect_scattered_reads(False)


def _entry_disagreement(reader: LogReader, key: QueueKey, queue_offset: int, unit: QueueUnit | None) -> str | None:
    if unit is None or not unit.is_valid:
        return f"queue {key[0]} {key[1]}: its last entry {queue_offset} is none"
    if unit.physical_offset < reader.min_offset:
        return None  # its message expired; the queue keeps its offsets
    try:
        message = reader.message(unit.physical_offset, unit.size)
    except CorruptRecordError as e:
        return str(e)
    if not is_entry_of(message, key, queue_offset):
        return (
            f"queue {key[0]} {key[1]}: its last entry {queue_offset} points at {unit.physical_offset}, which holds "
            f"{message.topic} {message.queue_id} {message.queue_offset}"
        )
    return None


def _segment_of_highest_entry(reader: LogReader, table: QueueTable) -> int:
    highest = reader.min_offset
    for _, queue in table.items():
        unit = last_entry(queue)
        if unit is not None and unit.physical_offset < reader.files_end:
            highest = max(highest, unit.physical_offset)
    segment = reader.segment_at(highest)
    return reader.min_offset if segment is None else segment.base


def _segment_before_checkpoint(reader: LogReader, shutdown_state: ShutdownState) -> int:
    checkpoint = shutdown_state.checkpoint
    if checkpoint is None or checkpoint.min_timestamp_ms <= 0:
        return reader.min_offset
    for segment in reversed(reader.segments):
        for _, rows in reader.scan(segment, 0, segment.size, check_crc=False, mapped=False):
            if 0 < int(rows["store_timestamp_ms"][0]) <= checkpoint.min_timestamp_ms - ROCKETMQ_QUEUES_LAG_MS:
                return segment.base
            break
    return reader.min_offset


def _last_store_timestamp_ms(shutdown_state: ShutdownState) -> int:
    """Store time (ms) of the newest record if nothing was scanned: from the last writer's notes."""
    if shutdown_state.is_ours and shutdown_state.progress is not None:
        return shutdown_state.progress.store_timestamp_ms
    return shutdown_state.checkpoint.logics_timestamp_ms if shutdown_state.checkpoint is not None else 0


MOST_KEPT = 4_000_000
"""Most records whose entries are kept, of some 50 bytes each."""


class KeptEntries:
    """Queue and key entries of the end of the log, collected while the tail scan checks its records, so that it is read
    once.

    A tail scan must finish before anything is changed, so the entries are kept until then. `look` gets the log from
    physical offset `start` on, piece by piece; `dispatch` puts the entries.
    """

    def __init__(self, table: QueueTable, rules: DispatchRules, start: int) -> None:
        self._table, self._rules = table, rules
        self._apart_topic = rules.schedule_topic.encode()
        self._parts: list[tuple[dict[QueueKey, DispatchedEntries], KeyEntries]] = []
        self._room = MOST_KEPT if not table.has_extensions else 0
        self.stop = start
        """Physical offset below which everything is collected."""

    def look(self, segment: Segment, piece: bytes | memoryview, rows: Rows) -> None:
        """Collect the entries of the next records. If they are too many, or unusual, it collects no more: the log
        behind `stop` is then read again."""
        if len(rows) > self._room:
            self._room = 0
            return
        built = build_entries(piece, rows, self._apart_topic)
        if built.batch_count:
            self._room = 0
            return
        self._room -= len(rows)
        found = queue_entries(piece, rows, self._rules, built)
        self._parts.append(({key: entries.detached() for key, entries in found.items()}, built.keys.copy()))
        last = rows[-1]
        self.stop = int(last["physical_offset"]) + int(last["size"])

    def dispatch(self, count: DispatchCount, put_keys: Callable[[KeyEntries], None] | None) -> None:
        """Put all collected entries, in the order of the log, and clear them."""
        for listed, keys in self._parts:
            put_entries(listed, self._table, count)
            if put_keys is not None:
                put_keys(keys)
        self._parts = []
