"""Writing a DataFrame into a store: `df.write.format("flightlog").mode("append").save(path)`, and streams.

    driver      checks options, columns and the store's lock, before any task runs
    tasks       check the rows and stage them, each in a file of its own (staging.py)
    driver      checks those files, opens the store, appends all rows, durably and as one, and closes it again

All of a job's rows are in the store, or none (see store/log/atomic_append.py). Rows of one task keep their order in
each of their queues, and tasks come in the order of the DataFrame's partitions.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...engine.message_store import open_store
from ...engine.open.boot import check_folder
from ...engine.read_only import open_read_only
from ...store.disk.config_file import ConfigFile
from ...store.disk.disk import RealDisk
from ...store.disk.lock import StoreLock
from ...store.errors import (
    ConfigFileError,
    DamagedStoreError,
    FlightlogError,
    InvalidMessageError,
    InvalidSettingsError,
    StoreLockedError,
)
from ...store.log.atomic_append import AtomicRange
from ...store.segments.log_files import LogFolders, list_log_files
from ...store.settings import DEFAULT_SEGMENT_SIZE, StoreSettings
from ...store.state.geometry import Geometry
from ...store.state.progress import FLIGHTLOG_FOLDER
from ..entry import entry
from ..options.store_settings import SETTINGS
from ..options.write_options import WriteOptions
from .staging import StagedFile, StagedParts, Stager, check_staged
from .staging_folder import JOB_PREFIX, make_job_folder, remove_if_empty, remove_job, remove_stale
from .write_columns import WriteColumns

log = logging.getLogger("flightlog.spark")

LEDGER_FILE = "spark-queries.json"
QUERY_ID = "sql.streaming.queryId"
"""The local property with the id of a stream, which its checkpoint keeps."""


@dataclass
class StagedTask(WriterCommitMessage):
    """The result of a task, for the driver."""

    job: Path
    file: StagedFile | None
    """None: it had no rows."""
    query: str | None


def refuse_overwrite(overwrite: bool, *, is_stream: bool) -> None:
    """Raises InvalidSettingsError: a log only grows."""
    if overwrite and is_stream:
        raise InvalidSettingsError("outputMode complete: a store only grows; expected outputMode append or update")
    if overwrite:
        raise InvalidSettingsError(
            'mode overwrite: a store only grows; expected mode("append"), perhaps to another path. A topic is deleted '
            "with flightlog.open(path).delete_topic(name)"
        )


def is_store(root: Path, settings: StoreSettings) -> bool:
    return LogFolders.of(root, settings).one_exists(RealDisk())


def refuse_locked(root: Path, settings: StoreSettings) -> None:
    """Raises StoreLockedError if a process has the store open for writing."""
    if is_store(root, settings):
        StoreLock.acquire(root).release()


def find_segment_size(root: Path, settings: StoreSettings = SETTINGS) -> int:
    """The segment size, which bounds rows. Raises StoreNotFoundError for a folder that is not a store."""
    disk = RealDisk()
    if root.exists():
        check_folder(root, settings, disk)
    found = list_log_files(disk, LogFolders.of(root, settings), tolerant=True).segment_size
    if found is None:  # a store that is new or empty: perhaps it was made with another size
        found = Geometry(disk, root, is_empty=True).noted.get("segment_size")
    return found or settings.segment_size or DEFAULT_SEGMENT_SIZE


class JobStaging:
    """The part of a job that runs in tasks. Pickled."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self._columns = WriteColumns.of(schema, options.topic)
        self._segment_size = find_segment_size(options.root, options.settings)
        self._was_there = options.root.exists()
        remove_stale(options.staging)
        self._job = options.staging / f"{JOB_PREFIX}{uuid.uuid4().hex}"
        make_job_folder(self._job)

    def write(self, batches: Iterator[Any]) -> StagedTask:
        context = TaskContext.get()
        assert context is not None, "this runs in tasks alone"
        stager = Stager(self._columns, self._job, self.options.settings, self._segment_size)
        file = stager.stage(batches, context.partitionId())
        return StagedTask(self._job, file, context.getLocalProperty(QUERY_ID))

    def clean_up(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what was staged, also if the store was not created."""
        for job in {self._job, *(message.job for message in messages if isinstance(message, StagedTask))}:
            remove_job(job)
        root = self.options.root
        if not is_store(root, self.options.settings):
            folder = self.options.staging
            while folder != root and root in folder.parents:
                remove_if_empty(folder)
                folder = folder.parent
            if not self._was_there:
                remove_if_empty(root)


class LogBatchWriter(DataSourceArrowWriter):
    """One job. Created in the driver, which refuses bad options and columns; `write` runs in tasks with a copy."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        refuse_locked(options.root, options.settings)
        self._staging = JobStaging(options, schema)

    @entry
    def write(self, iterator: Iterator[Any]) -> StagedTask:
        """Stage the rows of a task. Raises InvalidMessageError for rows that no store takes."""
        return self._staging.write(iterator)

    @entry
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append all rows. If it raises, none is appended and the staged files are removed."""
        try:
            options = self._staging.options
            append_files(options.root, staged_files(messages), None, 0, options.settings)
        finally:
            self._staging.clean_up(messages)

    @entry
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        self._staging.clean_up(messages)


def staged_files(messages: Sequence[WriterCommitMessage | None]) -> list[StagedFile]:
    """The files of all tasks, in the order of their partitions."""
    if not all(isinstance(message, StagedTask) for message in messages):
        raise DamagedStoreError("a task returned no result, expected one from each. Nothing was appended")
    return [message.file for message in messages if isinstance(message, StagedTask) and message.file is not None]


def append_files(
    root: Path, files: Sequence[StagedFile], query: str | None, batch: int, settings: StoreSettings = SETTINGS
) -> None:
    """Append the rows of all files atomically, unless this batch of this query was appended before. Without any row,
    creates a missing store, so that a reader finds it. Raises DamagedStoreError, StoreLockedError, and what opening and
    appending raise: then none of the rows is in the store."""
    if not files:
        if not is_store(root, settings):
            open_store(root, settings).close()
        return
    check_staged(files)
    ledger = None if query is None else WriteLedger(root, query, settings)
    parts = StagedParts(files)
    told: list[AtomicRange] = []

    def note(appended: AtomicRange) -> None:
        told.append(appended)
        if ledger is not None:
            ledger.note(batch, appended, done=False)

    try:
        with open_store(root, settings) as store:
            if ledger is not None and ledger.has(batch):
                text, extra = "%s: batch %d of query %s is there already", {"path": str(root), "batch": batch}
                log.info(text, root, batch, query, extra=extra)
                return
            appended = store.append_atomically(parts, note)
            if ledger is not None:
                ledger.note(batch, appended, done=True)
    except StoreLockedError:
        raise
    except BaseException as e:
        _settle(root, settings)
        if isinstance(e, InvalidMessageError):
            parts.locate(e)
        if not told:
            raise
        first = told[0].first_record
        if not is_in_log(root, settings, told[0].start, len(first), digest_of(first)):
            raise
        # The error came after the commit point: if the job failed now, Spark would run it again.
        extra = {"path": str(root), "cause": repr(e)}
        log.warning("%s: all rows were appended; error after the commit: %s", root, e, extra=extra)


def _settle(root: Path, settings: StoreSettings) -> None:
    """Open and close the store, so that recovery removes what a failed append left."""
    try:
        open_store(root, settings).close()
    except FlightlogError as e:
        extra = {"path": str(root), "cause": repr(e)}
        log.warning("%s: not recovered yet, the next writer will do it: %s", root, e, extra=extra)


def is_in_log(root: Path, settings: StoreSettings, start: int, size: int, digest: str) -> bool | None:
    """Whether the record of `size` bytes at physical offset `start` is the one of this digest; None if retention has
    removed what was there."""
    with open_read_only(root, settings) as view:
        if start < view.min_physical_offset:
            return None
        segment = view.log_reader.segment_at(start)
        if segment is None or start + size > view.end_physical_offset:
            return False
        return digest_of(segment.read(start - segment.base, size)) == digest


def digest_of(record: bytes) -> str:
    return hashlib.sha256(record).hexdigest()


class WriteLedger:
    """Which batch of one streaming query was appended last: `flightlog/spark-queries.json` in the store, by query id.

    The entry of a batch is written when its rows are written but not yet visible. It holds the place and the digest of
    the first record. After a kill, the next writer looks for that record in the log: it is there if and only if the
    batch was committed. `done` is set after the commit, and saves this look. Used under the store's lock only.
    """

    def __init__(self, root: Path, query: str, settings: StoreSettings = SETTINGS) -> None:
        self._root, self._query, self._settings = root, query, settings
        self._file = ConfigFile(RealDisk(), root / FLIGHTLOG_FOLDER / LEDGER_FILE)

    def has(self, batch: int) -> bool:
        """Whether this batch was appended. Raises DamagedStoreError where that is unknown, and ConfigFileError."""
        entry = (self._file.read() or {}).get(self._query)
        if entry is None:
            return False
        try:
            known, done, place = int(entry["batch"]), bool(entry["done"]), (int(entry["start"]), int(entry["size"]))
            digest = str(entry["digest"])
        except (TypeError, KeyError, ValueError) as e:
            raise ConfigFileError(self._file.path, f"{entry!r} for query {self._query}", "what a write notes") from e
        if batch != known or done:
            return batch <= known  # a batch begins when the one before it is there
        found = is_in_log(self._root, self._settings, *place, digest)
        if found is None:
            raise DamagedStoreError(
                f"{self._file.path}: batch {batch} of query {self._query} began at physical offset {place[0]}, which "
                "retention has removed since; it is unknown whether it was committed. Set done to true if its "
                "messages were there, or take the entry out if they were not, and start the query again"
            )
        return found

    def note(self, batch: int, appended: AtomicRange, *, done: bool) -> None:
        """Durable when it returns."""
        entry = {
            "batch": batch,
            "done": done,
            "start": appended.start,
            "size": len(appended.first_record),
            "digest": digest_of(appended.first_record),
        }
        self._file.write((self._file.read() or {}) | {self._query: entry})
