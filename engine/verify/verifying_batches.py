"""Verify batch queues against the inner batches in the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...index.dispatch.batch_dispatch import batch_entries
from ...index.dispatch.dispatch_rules import DispatchRules
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.batch_unit import BATCH_UNIT_DTYPE, BATCH_UNIT_SIZE, BatchUnits, same_batches
from ...index.queue.queue_sync import Unsynced
from ...index.queue.queue_table import BATCH_QUEUE_FOLDER, QueueTable, list_queue_folders
from ...store.disk.disk import Disk
from ...store.errors import SegmentLengthError
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ..open.tail_scan import TailScan
from .findings import Finding, Remedy, VerifyReport

REBUILD = "open the store for writing once: queues are rebuilt from the log"
REMAKE = f"remove the folder {BATCH_QUEUE_FOLDER} and open the store for writing once: queues are rebuilt from the log"


class BatchCheck:
    """Compares batch queues on disk with the log."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        reader: LogReader,
        table: QueueTable,
        rules: DispatchRules,
        report: VerifyReport,
        may_lag_from: int,
    ) -> None:
        self._reader, self._rules, self._report = reader, rules, report
        self._folder = root / BATCH_QUEUE_FOLDER
        self._may_lag_from = may_lag_from
        """Physical offset from which on the last writer may not have dispatched records."""
        self._queues: dict[QueueKey, BatchQueue] = {}
        self._is_batch_queue = {key: isinstance(queue, BatchQueue) for key, queue in table.items()}
        for key, folder in list_queue_folders(disk, root, BATCH_QUEUE_FOLDER):
            sizes = {entry.size for entry in disk.list(folder) if entry.size}
            entries = max(sizes, default=BATCH_UNIT_SIZE) // BATCH_UNIT_SIZE
            queue = BatchQueue(disk, folder, max(entries, 1), Unsynced(), in_memory=True)
            try:
                queue.load()
            except SegmentLengthError:
                continue  # already reported: the table could not read it either
            self._queues[key] = queue

    def is_batch_queue(self, key: QueueKey) -> bool:
        """Whether this is a batch queue, which has no entries for records that are not inner batches."""
        return self._is_batch_queue.get(key, False)

    def run(self, whole: TailScan, dispatched: int, *, is_live: bool) -> None:
        expected: dict[QueueKey, list[BatchUnits]] = {}
        for start, stop in whole.extents if any(self._is_batch_queue.values()) else ():
            for segment, first, last in self._reader.segments_between(start, min(stop, dispatched)):
                for piece, rows in self._reader.scan(segment, first, last, check_crc=False, mapped=False):
                    for key, units in batch_entries(piece, rows, self._rules).items():
                        if self.is_batch_queue(key):
                            expected.setdefault(key, []).append(units)
        for key in sorted(expected.keys() | self._queues.keys()):
            parts = expected.get(key, [])
            units = np.concatenate(parts) if parts else np.empty(0, BATCH_UNIT_DTYPE)
            self._compare(key, units, whole.end if is_live else None)

    def _compare(self, key: QueueKey, units: BatchUnits, end: int | None) -> None:
        queue = self._queues.get(key)
        there = queue.batches if queue is not None else np.empty(0, BATCH_UNIT_DTYPE)
        there = there[there["physical_offset"] >= self._reader.min_offset]
        if end is not None:  # entries added since the view was opened are not checked
            there = there[there["physical_offset"] < end]
        self._report.queue_entries += len(units)
        common = min(len(there), len(units))
        same = same_batches(there[:common], units[:common])
        if not same.all():
            wrong = int(same.argmin())
            text = f"{int(np.count_nonzero(~same))} entries of batches that differ from the log"
            self._add(key, int(units["base"][wrong]), text, REMAKE)
        elif len(units) > common:
            text = f"{len(units) - common} batches have no entry yet"
            lags = int(units["physical_offset"][common:].min()) >= self._may_lag_from
            self._add(key, int(units["base"][common]), text, REBUILD, lags=lags)
        elif len(there) > common and end is None:
            text = f"{len(there) - common} phantom entries behind the last batch: stale, or of a tail that was cut"
            self._add(key, int(there["base"][common]), text, REBUILD)

    def _add(self, key: QueueKey, offset: int, meaning: str, mend: str, *, lags: bool = False) -> None:
        remedy = Remedy.SET_ASIDE if mend == REMAKE else Remedy.REOPEN
        found = Finding(self._folder / key[0] / str(key[1]), offset, meaning, mend, remedy)
        (self._report.lag if lags else self._report.findings).append(found)
