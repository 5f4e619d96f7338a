"""Verify a whole store: the log, its seals, queues and key index against the log, checkpoint, and progress page.

All files are read with read calls instead of mmap, so a bad sector is a finding and not a SIGBUS. Nothing is written.
While a writer is alive, only records that it has made visible and dispatched are checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...index.dispatch.build_entries import build_entries
from ...index.dispatch.dispatch import DispatchedEntries, queue_entries
from ...index.dispatch.dispatch_rules import DispatchRules
from ...index.queue.consume_queue import ConsumeQueue
from ...index.queue.queue_extension import EXTENSION_FOLDER
from ...index.queue.queue_table import (
    BATCH_QUEUE_FOLDER,
    CONSUME_QUEUE_FOLDER,
    QueueTable,
    extension_maker,
    list_queue_folders,
    same_entries,
)
from ...index.queue.queue_unit import UNIT_DTYPE, Units, valid_mask
from ...store.disk.bad_sectors import BadSectors
from ...store.disk.disk import Disk
from ...store.errors import SegmentLengthError
from ...store.format.frame import Rows
from ...store.format.record import INT32_MAX, INT64_MAX
from ...store.log.log_reader import BAD_CRC, BAD_CRC_PROPERTY, LogReader
from ...store.queue_offsets import QueueKey
from ...store.seal.open_seal import broken_blocks, read_slots
from ...store.seal.seal import BLOCK_SIZE, BlockCrcs, read_seal, seal_fits, seal_path
from ...store.segments.log_files import COMMIT_LOG_FOLDER
from ...store.segments.segment import Segment, segment_base
from ...store.state.checkpoint import CHECKPOINT_FILE
from ...store.state.log_start import log_start_path
from ...store.state.progress import progress_path
from ...store.state.rocksdb import rocksdb_config_text
from ..open.missing_ranges import missing_start, start_text
from ..open.shutdown_state import LastWriter, ShutdownState
from ..open.tail_scan import LOG_IS_SHORT, TailScan, scan_tail
from .findings import IN_ROCKSDB, Finding, Remedy, VerifyReport
from .verifying_batches import BatchCheck
from .verifying_keys import KeyCheck
from .verifying_state import check_state_files

NOTHING: tuple[Path, ...] = ()
QUEUE_FOLDERS = (CONSUME_QUEUE_FOLDER, BATCH_QUEUE_FOLDER, EXTENSION_FOLDER)
REBUILD = "open the store for writing once: queues are rebuilt from the log"
REMAKE = (
    f"remove the folder {CONSUME_QUEUE_FOLDER} and open the store for writing once: queues are rebuilt from the log"
)
"""For damage that opening the store does not detect: it checks only both ends of a queue."""
RESTORE_SEGMENTS = "restore the missing segments from a copy, or name the folders that hold them (commit_log_folders)"


def verify_store(
    disk: Disk,
    root: Path,
    reader: LogReader,
    table: QueueTable,
    shutdown_state: ShutdownState,
    rules: DispatchRules,
    known: TailScan,
) -> VerifyReport:
    """Verify everything up to the end of the view (`known.end`)."""
    report = VerifyReport(root, shutdown_state.last_writer)
    add = report.findings.append
    restore = "restore the file from a copy"
    for note in shutdown_state.files.notes + table.unreadable:
        path, _, text = note.partition(": ")
        meaning, _, mend = text.partition(". ")  # the format of these errors: what was found, then what to do
        add(Finding(Path(path), 0, meaning, mend or restore, _remedy_of_file(root, Path(path))))
    if (lost := missing_start(disk, root, reader)) is not None:
        if shutdown_state.is_ours:
            accept = f"{RESTORE_SEGMENTS}; to accept the loss, delete {log_start_path(root)}"
            noted = (log_start_path(root),)
            add(Finding(lost.path, lost.physical_offset, lost.found, accept, Remedy.SET_ASIDE, noted))
        else:
            report.oddities.append(start_text(lost, shutdown_state))
    # Before any seal is read, because a live writer seals segments meanwhile.
    were_sealed = {segment.base for segment in reader.segments if disk.exists(seal_path(root, segment.base))}
    seals = {segment.base: read_seal(disk, root, segment) for segment in reader.segments}
    blocks: defaultdict[int, BlockCrcs] = defaultdict(BlockCrcs)

    def begin(start: int, end: int) -> _QueueCheck:
        batches = BatchCheck(disk, root, reader, table, rules, report, shutdown_state.dispatched_below(end))
        keys = KeyCheck(disk, reader, shutdown_state, report, TailScan(start, end))
        return _QueueCheck(disk, root, reader, shutdown_state, rules, report, batches, keys, end)

    def look(segment: Segment, piece: bytes | memoryview, rows: Rows) -> None:
        if seals[segment.base] is not None:
            first = rows[0]
            blocks[segment.base].feed(int(first["physical_offset"] - first["position"]) - segment.base, piece)
        check.compare(piece, rows)

    # An intact log without a writer takes one pass: every byte is read once for all checks.
    check, extent = begin(reader.min_offset, known.end), (reader.min_offset, known.end)
    is_one_pass = not known.is_bounded and check.dispatched == known.end and extent[0] < extent[1]
    check.keys.begin_extent(extent[0])
    whole = scan_tail(
        reader, shutdown_state, extent[0], known.end, for_writing=False, look=look if is_one_pass else None
    )
    if is_one_pass and (whole.extents, whole.end, whole.damage, whole.torn) == ([extent], known.end, [], None):
        check.keys.end_extent(known.end)
    else:
        report.queue_entries = 0
        check = begin(whole.start, whole.end)
        check.walk(whole)
    report.records, report.segments = whole.records, len(reader.segments)
    report.bytes_checked = whole.end - whole.start
    durable, page = shutdown_state.durable_below, (progress_path(root), root / CHECKPOINT_FILE)
    for damage in whole.damage:
        remedy, aside = Remedy.SALVAGE, NOTHING
        if damage.found in (BAD_CRC, BAD_CRC_PROPERTY):
            remedy = Remedy.REPLACE
        elif damage.found == LOG_IS_SHORT:
            remedy, aside = Remedy.SET_ASIDE, page
        text = f"{restore}; readers go past it"
        add(Finding(damage.path, damage.physical_offset, damage.found, text, remedy, aside))
    for torn in {known.torn, whole.torn} - {None}:
        assert torn is not None
        keeps = "open the store for writing: the tail is kept in flightlog/cut-OFFSET and cut"
        # Below the durable mark no writer is taken for the cause: recovery refuses until the mark is gone.
        remedy, aside = (Remedy.REOPEN, NOTHING) if torn.physical_offset >= durable else (Remedy.SET_ASIDE, page)
        add(Finding(torn.path, torn.physical_offset, f"torn tail: {torn.found}", keeps, remedy, aside))
    for segment in reader.segments:
        seal = seals[segment.base]
        if seal is None:
            _check_open_segment(disk, root, segment, shutdown_state, report)
            if segment.base in were_sealed:
                mend = "delete it: a missing seal is only a missed shortcut"
                text = "a seal that is damaged or another segment's"
                add(Finding(seal_path(root, segment.base), 0, text, mend, Remedy.SET_ASIDE))
        elif shutdown_state.is_ours or seal_fits(reader, segment, seal):
            report.sealed_segments += 1
            for position in blocks[segment.base].broken_blocks(segment, seal):
                add(Finding(segment.path, segment.base + position, "a block that differs from its seal", restore))
        # Else another program has truncated and refilled this segment; opening for writing removes the seal.
    # is_new: a writer that has not put anything yet.
    is_new = shutdown_state.last_writer is LastWriter.NOBODY and not shutdown_state.is_clean
    is_live = known.is_bounded or is_new or shutdown_state.is_stale(disk)
    if table.is_in_rocksdb:
        report.oddities.append(f"{root / CONSUME_QUEUE_FOLDER}: {IN_ROCKSDB}; its queues were not checked")
        check.skip_queues()
    if (in_rocksdb := rocksdb_config_text(disk, root)) is not None:
        report.oddities.append(in_rocksdb)
    check.tell(whole, is_live=is_live)
    _check_small_files(root, shutdown_state, known, report, has_queues=not table.is_in_rocksdb)
    check_state_files(disk, root, report)
    if isinstance(disk, BadSectors):
        _tell_bad_sectors(disk, reader, report)
    return report


def _remedy_of_file(root: Path, path: Path) -> Remedy:
    """What mends a file whose name or length is wrong. Records of a segment that is left out are not lost."""
    if any(path.is_relative_to(root / name) for name in QUEUE_FOLDERS):
        return Remedy.SET_ASIDE
    if segment_base(path.name) is not None:
        return Remedy.SALVAGE
    return Remedy.SET_ASIDE if path.parent == root / COMMIT_LOG_FOLDER else Remedy.RESTORE


def _tell_bad_sectors(disk: BadSectors, reader: LogReader, report: VerifyReport) -> None:
    """Report unreadable ranges. They were read as zeros, so other findings may be about the same bytes."""
    bases = {segment.path: segment.base for segment in reader.segments}
    for path, start, stop in disk.found():
        text = f"bytes {start} to {stop - 1} of the file cannot be read: {stop - start} bytes, a bad sector of the disk"
        mend = "copy what can be read to another disk, and restore the file from a copy"
        report.findings.append(Finding(path, bases.get(path, 0) + start, text, mend))


def _check_open_segment(
    disk: Disk, root: Path, segment: Segment, shutdown_state: ShutdownState, report: VerifyReport
) -> None:
    """Check the sealed blocks of a segment that is not full. A live writer only appends, so these seals stay valid."""
    slots = read_slots(disk, root, segment) if shutdown_state.is_ours else {}
    broken = list(broken_blocks(segment, slots))
    if broken and not shutdown_state.is_stale(disk):
        for position, found in broken:
            covered, expected = slots[position // BLOCK_SIZE]
            text = (
                f"the {covered} bytes from here on differ from what was put: CRC {found:08X}, expected {expected:08X}"
            )
            report.findings.append(Finding(segment.path, segment.base + position, text, "restore the file from a copy"))


class _QueueCheck:
    """Compares queues and key index on disk with the log: pass it the records of the log, then call `tell`."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        reader: LogReader,
        shutdown_state: ShutdownState,
        rules: DispatchRules,
        report: VerifyReport,
        batches: BatchCheck,
        keys: KeyCheck,
        end: int,
    ) -> None:
        self._reader, self._rules, self._report, self._batches, self.keys = reader, rules, report, batches, keys
        self._apart_topic, self._folder = rules.schedule_topic.encode(), root / CONSUME_QUEUE_FOLDER
        self.dispatched = end
        """Physical offset up to which the queues should have entries."""
        progress = shutdown_state.progress
        if shutdown_state.is_served and progress is not None:
            self.dispatched = min(end, progress.dispatched)  # dispatch of a live writer may lag behind its log
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._ends: dict[QueueKey, int] = {}
        self._compared: Counter[QueueKey] = Counter()
        """Entries that records of the log stand for."""
        self._may_lag_from = shutdown_state.dispatched_below(end)
        """Physical offset from which on the last writer may not have dispatched records."""
        self._wrong: dict[QueueKey, tuple[int, int, int]] = {}
        """First wrong queue offset, number of wrong entries, and the lowest physical offset of their messages."""
        extension = extension_maker(disk, root)
        for key, folder in list_queue_folders(disk, root):
            sizes = {entry.size for entry in disk.list(folder) if entry.size}
            queue = ConsumeQueue(disk, folder, max(sizes, default=20) // 20, extension(key))
            try:
                queue.load(thorough=True)
            except SegmentLengthError:
                continue  # already reported: the table could not read it either
            self._queues[key] = queue

    def walk(self, whole: TailScan) -> None:
        """Compare with the undamaged parts of the log, in a second pass."""
        for start, stop in whole.extents:
            self.keys.begin_extent(start)
            listed_stop = max(start, min(stop, self.dispatched))
            for piece, rows in self._pieces(start, listed_stop):
                self.compare(piece, rows)
            for piece, rows in self._pieces(listed_stop, stop):
                self.keys.compare(build_entries(piece, rows, self._apart_topic).keys)
            self.keys.end_extent(stop)

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[bytes | memoryview, Rows]]:
        for segment, first, last in self._reader.segments_between(start, stop):
            yield from self._reader.scan(segment, first, last, check_crc=False, mapped=False)

    def compare(self, piece: bytes | memoryview, rows: Rows) -> None:
        """Compare the next records of the log with the queues, and their keys with the index."""
        built = build_entries(piece, rows, self._apart_topic)
        for key, entries in queue_entries(piece, rows, self._rules, built).items():
            if self._batches.is_batch_queue(key) or self._has_run(key, entries):
                continue
            self._compare(key, entries.indexes, entries.units)
        self.keys.compare(built.keys)

    def tell(self, whole: TailScan, *, is_live: bool) -> None:
        """Add the findings to the report."""
        self._batches.run(whole, self.dispatched, is_live=is_live)
        if self.dispatched < whole.end:
            size = whole.end - self.dispatched
            meaning = f"{size} bytes of the log, from physical offset {self.dispatched} on, are in no queue yet"
            self._report.lag.append(Finding(self._folder, self.dispatched, meaning, REBUILD, Remedy.REOPEN))
        for key, (first, wrong, physical_offset) in sorted(self._wrong.items()):
            queue = self._queues.get(key)
            is_missing = queue is None or first >= queue.end
            who = "1 message has" if wrong == 1 else f"{wrong} messages have"
            meaning = f"{who} {'no entry yet' if is_missing else 'a wrong entry or none'}"
            lags = is_missing and physical_offset >= self._may_lag_from
            self._add(key, first, meaning, REBUILD if is_missing else REMAKE, lags=lags)
        for key, queue in self._queues.items():
            if is_live:  # entries added since the view was opened are not checked
                queue.end = queue.first_at_or_after(whole.end)
            self._check_end(key, queue, whole)
        self.keys.tell(is_live=is_live)

    def skip_queues(self) -> None:
        """Report nothing about queues: they are in RocksDB, which is not read."""
        self._wrong.clear()
        self._report.queue_entries = 0

    def _has_run(self, key: QueueKey, entries: DispatchedEntries) -> bool:
        """Whether these entries are consecutive and equal those in the queue: the quick check that most pass."""
        queue, first, units = self._queues.get(key), entries.run_start, entries.units
        if queue is None or first is None or first < 0 or (first == 0 and key in self._ends):
            return False
        there = queue.units(first, len(units))
        if len(there) < len(units) or not self._same(key, queue, there, units).all():
            return False
        self._ends[key] = first + len(units)
        self._compared[key] += len(units)
        self._report.queue_entries += len(units)
        return True

    def _same(self, key: QueueKey, queue: ConsumeQueue, there: Units, units: Units) -> NDArray[np.bool_]:
        same = same_entries(queue, there, units)
        if key[0] == self._rules.schedule_topic and not same.all():
            # Delivery times may differ: the message was parked under other delay levels than those of these settings.
            there = queue.resolved(there)
            is_place = (there["physical_offset"] == units["physical_offset"]) & (there["size"] == units["size"])
            same |= is_place & (there["tags_code"] > INT32_MAX) & (units["tags_code"] > INT32_MAX)
        return same

    def _compare(self, key: QueueKey, indexes: NDArray[np.int64], units: Units) -> None:
        first_again = int(np.flatnonzero(indexes == 0)[-1]) if (indexes == 0).any() else 0
        if first_again or (indexes[0] == 0 and key in self._ends):
            # RocketMQ deleted the topic and created it again, without a note: earlier messages are in no queue.
            indexes, units = indexes[first_again:], units[first_again:]
            self._wrong.pop(key, None)
            self._compared.pop(key, None)
        self._ends[key] = int(indexes[-1]) + 1
        self._report.queue_entries += len(indexes)
        queue = self._queues.get(key)
        first, last = int(indexes.min()), int(indexes.max()) + 1
        there = queue.units(first, last - first) if queue is not None and first >= 0 else np.empty(0, UNIT_DTYPE)
        at = indexes - first
        known = at < len(there)
        same = np.zeros(len(indexes), dtype=bool)
        if queue is not None:
            same[known] = self._same(key, queue, there[at[known]], units[known])
        self._compared[key] += int(np.count_nonzero(same))
        if not same.all():
            wrong = indexes[~same]
            first_wrong, count, lowest = self._wrong.get(key, (int(wrong[0]), 0, INT64_MAX))
            lowest = min(lowest, int(units["physical_offset"][~same].min()))
            self._wrong[key] = first_wrong, count + len(wrong), lowest

    def _check_end(self, key: QueueKey, queue: ConsumeQueue, whole: TailScan) -> None:
        end = self._ends.get(key)
        if filler := queue.filler_count():
            self._report.oddities.append(
                f"{self._folder / key[0] / str(key[1])}: {filler} entries of filler before the first message at "
                f"{queue.min_index}, as RocketMQ writes where a queue does not start at 0"
            )
        if queue.end > queue.min_index:
            units = queue.units(queue.min_index, queue.end - queue.min_index)
            is_real = valid_mask(units)
            # A power cut may have lost entries of messages that retention then removed. That is not damage.
            listed = np.flatnonzero(is_real & (units["physical_offset"] >= self._reader.min_offset))
            holes = listed[0] + np.flatnonzero(~is_real[listed[0] :]) if len(listed) else listed
            if len(holes):
                first = queue.min_index + int(holes[0])
                self._add(key, first, f"{len(holes)} entries without a record among real ones", REMAKE)
            is_real[max((end or 0) - queue.min_index, 0) :] = False  # phantoms, below
            offsets = units["physical_offset"]
            claimed = np.flatnonzero(is_real & (offsets >= self._reader.min_offset) & (offsets < whole.end))
            # Of damaged records nothing is known, and entries of a deleted topic stay until retention takes them.
            is_known = not whole.damage and self.dispatched >= whole.end and not self._rules.deleted.below(key[0])
            is_right = key not in self._wrong or self._wrong[key][0] >= queue.end
            if is_known and is_right and len(claimed) > self._compared[key]:
                first = queue.min_index + int(claimed[0])
                meaning = f"{len(claimed) - self._compared[key]} entries of records that name another place"
                self._add(key, first, meaning, REMAKE)
        if self.dispatched < whole.end:
            return
        if end is None:
            end = queue.first_at_or_after(self._reader.min_offset)
        if queue.end > end:
            meaning = f"{queue.end - end} phantom entries behind the last message: stale, or of a tail that was cut"
            self._add(key, end, meaning, REBUILD)

    def _add(self, key: QueueKey, offset: int, meaning: str, mend: str, *, lags: bool = False) -> None:
        remedy = Remedy.SET_ASIDE if mend == REMAKE else Remedy.REOPEN
        found = Finding(self._folder / key[0] / str(key[1]), offset, meaning, mend, remedy)
        (self._report.lag if lags else self._report.findings).append(found)


def _check_small_files(
    root: Path, shutdown_state: ShutdownState, known: TailScan, report: VerifyReport, *, has_queues: bool
) -> None:
    add = report.findings.append
    checkpoint, progress = shutdown_state.checkpoint, shutdown_state.progress
    mend = "open the store for writing and close it: it is written again; until then recovery scans more than it must"
    if shutdown_state.last_writer is not LastWriter.NOBODY and shutdown_state.is_clean:
        if checkpoint is None:
            text = "missing or truncated, expected 4096 bytes"
            add(Finding(root / CHECKPOINT_FILE, 0, text, mend, Remedy.SET_ASIDE))
        elif not any(checkpoint.words) and known.end > 0 and has_queues:  # with RocksDB the checkpoint may be empty
            add(Finding(root / CHECKPOINT_FILE, 0, "all zero after a clean close", mend, Remedy.SET_ASIDE))
    if progress is not None and shutdown_state.is_ours and progress.flushed > known.end and not known.damage:
        meaning = f"says that {progress.flushed} bytes were durable, the log ends at {known.end}"
        aside = (progress_path(root), root / CHECKPOINT_FILE)
        add(Finding(progress_path(root), 0, meaning, "restore the commit log from a copy", Remedy.SET_ASIDE, aside))
