"""Staged rows, between the tasks that write them and the commit that appends them: files in a shared folder.

    STAGING/JOB/part-PARTITION-ATTEMPT.arrow    an Arrow stream; each of its batches has one topic and one flag, which
                                                its metadata names, with the row that has the highest queue id

The driver creates the folder of a job. A task writes one file there and returns its name, length and CRC32C to the
driver; the commit reads no other file. A task that fails removes its file, the end of a job its folder
(staging_folder.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...engine.write.append_atomically import TopicColumns, checked_rows
from ...store.errors import DamagedStoreError, DiskError, InvalidMessageError
from ...store.settings import StoreSettings
from .write_columns import Group, Integers, WriteColumns

STAGED_SIZE = 16 << 20
"""About how many bytes of rows a task collects by topic before it writes them."""
READ_SIZE = 4 << 20
TOPIC, SYS_FLAG, HIGHEST_ROW = b"topic", b"sysFlag", b"highestRow"
QUEUE_COLUMN = "partition"


class StagedFile:
    """The Spark partition of a task, and the name, rows, length and CRC32C of its file. Pickled."""

    def __init__(self, partition: int, path: Path, count: int, size: int, crc: int) -> None:
        self.partition, self.path, self.count, self.size, self.crc = partition, path, count, size, crc


class _Checked:
    """A file that is written sequentially, with its length and CRC32C."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = self.crc = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self.crc = crc32c.crc32c(data, self.crc)
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True


class Stager:
    """Writes the rows of one task."""

    def __init__(self, columns: WriteColumns, job: Path, settings: StoreSettings, segment_size: int) -> None:
        self._columns, self._job = columns, job
        self._settings, self._segment_size = settings, segment_size
        self._held: dict[Group, list[tuple[Any, Integers]]] = {}
        """Rows, with their numbers in the Spark partition."""
        self._held_size = 0
        self._writer: Any = None
        self._count = 0

    def stage(self, batches: Iterable[Any], partition: int) -> StagedFile | None:
        """Write all rows; None if there are none. If it raises, it leaves no file. Raises InvalidMessageError for rows
        that a store refuses, and DiskError if the folder of the job is missing."""
        path = self._job / f"part-{partition:05d}-{uuid.uuid4().hex}.arrow"
        try:
            with _new_file(path) as file:
                checked = _Checked(file)
                seen = 0
                for batch in batches:
                    try:
                        for group, rows, numbers in self._columns.groups(batch):
                            self._held.setdefault(group, []).append((rows, numbers + seen))
                    except InvalidMessageError as e:
                        raise self._located(e, partition, seen + (e.row or 0)) from None
                    seen += len(batch)
                    self._held_size += batch.nbytes
                    if self._held_size >= STAGED_SIZE:
                        self._write_held(checked, partition)
                self._write_held(checked, partition)
                if self._writer is not None:
                    self._writer.close()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        if not self._count:
            path.unlink(missing_ok=True)  # a job that is over has taken it along
            return None
        return StagedFile(partition, path, self._count, checked.size, checked.crc)

    def _write_held(self, file: _Checked, partition: int) -> None:
        for group, held in self._held.items():
            batches = [rows for rows, _ in held]
            numbers = np.concatenate([numbers for _, numbers in held])
            whole = batches if len(held) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()
            for rows in whole:
                try:
                    self._check(group, rows)
                except InvalidMessageError as e:
                    raise self._located(e, partition, int(numbers[e.row or 0]), group, rows) from None
                if self._writer is None:
                    self._writer = pa.ipc.new_stream(pa.PythonFile(file, mode="w"), rows.schema)
                about = {TOPIC: group[0].encode(), SYS_FLAG: str(group[1]).encode()}
                if (highest := _highest_queue(rows)) is not None:
                    about[HIGHEST_ROW] = str(numbers[highest]).encode()
                self._writer.write_batch(rows, custom_metadata=about)
                self._count += len(rows)
                numbers = numbers[len(rows) :]
        self._held.clear()
        self._held_size = 0

    def _check(self, group: Group, rows: Any) -> None:
        checked_rows(TopicColumns(group[0], rows, group[1]), self._settings, self._segment_size)

    def _located(
        self, error: InvalidMessageError, partition: int, row: int, group: Group | None = None, rows: Any = None
    ) -> InvalidMessageError:
        """The error with the place of its row in the DataFrame. An error without a row is about the topic of the
        group."""
        column = error.column
        if error.row is not None and column is None:
            column = self._column_at_fault(group, rows.slice(error.row, 1))
        elif error.row is None and "topic" in self._columns.places:
            column = "topic"
        name = None if column is None else self._columns.name_of(column)
        _tell_place(error, partition, row, None if group is None else group[0], name)
        error.row, error.column = row, column
        return error

    def _column_at_fault(self, group: Any, row: Any) -> str | None:
        """The column that is refused even alone with the body; None if only all of them together are."""
        for column in ("properties", "keys", "tags", "uniqKey"):
            if column in row.schema.names:
                try:
                    self._check(group, row.select(["value", column]))
                except InvalidMessageError:
                    return column
        return None


def _highest_queue(rows: Any) -> int | None:
    """The first row with the highest queue id. A store that refuses the queue id of any row refuses this one."""
    ids = rows.column(QUEUE_COLUMN)
    return None if ids.null_count == len(ids) else int(pc.fill_null(ids, -1).to_numpy().argmax())


def _tell_place(
    error: InvalidMessageError, partition: int, row: int | None, topic: str | None, column: str | None
) -> None:
    places = [f"Spark partition {partition}"]
    places += [] if row is None else [f"row {row} (the first is 0)"]
    places += [] if topic is None else [f"topic {topic!r}"]
    places += [] if column is None else [f"column {column!r}"]
    error.args = (f"{', '.join(places)}: {error.reason}",)


def _new_file(path: Path) -> BinaryIO:
    try:
        return open(path, "xb")
    except FileNotFoundError as e:
        raise DiskError(
            f"{path.parent}: not here. Either the job is over, and this task comes too late; or this machine does not "
            "see the driver's folders: name one that all of them share with option stagingPath"
        ) from e


def check_staged(files: Sequence[StagedFile]) -> None:
    """Raises DamagedStoreError unless every file is here and is what its task has written."""
    for staged in files:
        size = crc = 0
        try:
            with open(staged.path, "rb") as file:
                while data := file.read(READ_SIZE):
                    size, crc = size + len(data), crc32c.crc32c(data, crc)
        except FileNotFoundError as e:
            raise DamagedStoreError(
                f"{staged.path}: staged by a task, and not here. Driver and executors must share this folder: name one "
                "that they do with option stagingPath. Nothing was appended"
            ) from e
        if (size, crc) != (staged.size, staged.crc):
            raise DamagedStoreError(
                f"{staged.path}: {size} bytes with CRC32C {crc:08X}, expected {staged.size} with {staged.crc:08X}. "
                "Nothing was appended"
            )


class StagedParts:
    """The rows of all files, in order, for an append; which of them it is at when it raises."""

    def __init__(self, files: Sequence[StagedFile]) -> None:
        self._files = files
        self._at: tuple[int, str, int | None] | None = None
        """The Spark partition and topic of the rows that were given last, and which has the highest queue id."""

    def __iter__(self) -> Iterator[TopicColumns]:
        for staged in self._files:
            with pa.OSFile(str(staged.path)) as file, pa.ipc.open_stream(file) as reader:
                for rows, about in reader.iter_batches_with_custom_metadata():
                    topic, highest = about[TOPIC].decode(), about.get(HIGHEST_ROW)
                    self._at = staged.partition, topic, None if highest is None else int(highest)
                    yield TopicColumns(topic, rows, int(about[SYS_FLAG]))

    def locate(self, error: InvalidMessageError) -> None:
        """Give the error of an append the place of its row in the DataFrame, where it has a row: tasks regroup rows,
        and of these numbers they keep that of the highest queue id."""
        if self._at is None or error.row is None:
            return
        partition, topic, highest = self._at
        error.row = highest if error.column == QUEUE_COLUMN else None
        _tell_place(error, partition, error.row, topic, error.column)
