"""Reading the commit log: segments by physical offset, frames in order, single messages checked."""

from __future__ import annotations

import bisect
import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import native
from ..disk.disk import Disk
from ..errors import CorruptRecordError, DiskError, StoreClosedError
from ..format.crc_property import has_right_crc
from ..format.frame import FRAME_DTYPE, FRAME_ROW, MAGIC_V1, MAGIC_V2, WalkEnd
from ..format.record import (
    BORN_HOST_AT,
    FIXED_V1_V4_SIZE,
    HEAD,
    STORE_TIMESTAMP,
    STORE_TIMESTAMP_BELOW,
    FrameRow,
    born_host_size,
)
from ..scan.salvage import scans_past_damage
from ..scan.scan import ReadPiece, SegmentScan
from ..segments.log_files import LogFiles
from ..segments.segment import Segment
from ..settings import MAX_RECORD_SIZE
from ..stored_message import StoredMessage, message_of_record

READ_SIZE = 4 << 20
"""Size of one read call. The fixed work for each call takes 0.2 ms: a sixth of a `verify` at half that size."""
WALK_END_TEXT = {
    WalkEnd.END: "the end of what may be read",
    WalkEnd.ROWS_FULL: "another record",
    WalkEnd.BLANK: "the filler that ends a segment",
    WalkEnd.EMPTY: "bytes that were never written",
    WalkEnd.TRUNCATED: "a record that reaches past the end",
    WalkEnd.BAD_MAGIC: "bytes that are no record",
    WalkEnd.BAD_LENGTHS: "a record whose lengths do not add up",
    WalkEnd.BAD_OFFSET: "a record that belongs elsewhere",
}
BAD_CRC = "a body that differs from its CRC"
BAD_CRC_PROPERTY = "a record that differs from its CRC property, or has none"
BAD_BLOCK = "a record in a block that differs from its seal"
FILE_IS_GONE = "no file any more"
FirstBroken = Callable[[Segment, int, int], int | None]
"""(segment, position, size) -> position of the first block of these bytes that is not what was sealed, or None."""
UNIT = struct.Struct(">qiq")
OFFSET = struct.Struct("=q")
"""An entry of a queue, and its offset, as `native.messages` takes them."""
PLACE = struct.Struct(">i8xi4xq")
"""Part of a record's head: its size, queue id and queue offset."""


class LogReader:
    """The segments of one commit log.

    Invariants:
    - `segments` is ascending and replaced as a whole, never changed in place: a copy of a reader stays valid.
    - Bytes handed out are copies, or views that keep their mapping alive.
    """

    def __init__(
        self,
        disk: Disk,
        files: LogFiles,
        make: Callable[[Disk, Path, int, int], Segment] = Segment,
        *,
        check_crc_property: bool = False,
        first_broken: FirstBroken | None = None,
    ) -> None:
        self.disk, self.folder = disk, files.folders.main
        self.check_crc_property = check_crc_property
        """Whether a record without a right CRC property is damaged, wherever CRCs are checked."""
        self.first_broken = first_broken
        """Checks the bytes of each single record against seals; None: seals are not checked. See block_checks.py."""
        self.segment_size = files.segment_size or 0
        self.segments: list[Segment] = [make(disk, files.path(base), base, self.segment_size) for base in files.bases]
        self._closed = False

    @property
    def checks_more(self) -> bool:
        """Whether records need more checks than their body's CRC: then each is read by `message`."""
        return self.check_crc_property or self.first_broken is not None

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte that is kept."""
        segments = self.segments
        return segments[0].base if segments else 0

    @property
    def files_end(self) -> int:
        """Physical offset one past the last segment."""
        segments = self.segments
        return segments[-1].end if segments else 0

    def segment_at(self, physical_offset: int) -> Segment | None:
        """The segment that holds this byte."""
        segments = self.segments
        if not segments:
            return None
        i = (physical_offset - segments[0].base) // self.segment_size
        if 0 <= i < len(segments) and segments[i].base <= physical_offset < segments[i].end:
            return segments[i]
        # A gap in a foreign store makes the guess too high, never too low.
        for segment in reversed(segments[: i + 1] if i >= 0 else []):
            if segment.base <= physical_offset < segment.end:
                return segment
            if segment.end <= physical_offset:
                return None
        return None

    def scan(
        self,
        segment: Segment,
        position: int,
        stop: int,
        *,
        check_crc: bool,
        mapped: bool = True,
        first_piece_size: int | None = None,
    ) -> SegmentScan:
        """Walk the frames in [position, stop) of a segment: through a mapping, for recent appends, or by read calls, of
        which the first asks for `first_piece_size` bytes."""
        self._check_open()
        read: ReadPiece = segment.read
        if mapped:
            view = memoryview(segment.warm_mapping())

            def read(at: int, size: int) -> memoryview:
                return view[at : at + size]

        return SegmentScan(
            *(read, segment.base, segment.size, position, stop),
            check_crc=check_crc,
            check_crc_property=self.check_crc_property,
            piece_size=max(READ_SIZE, stop - position) if mapped else READ_SIZE,
            first_piece_size=first_piece_size,
        )

    def scans_past_damage(self, segment: Segment, position: int, stop: int) -> Iterator[SegmentScan]:
        """Scan [position, stop) by read calls and without CRC checks. See `scans_past_damage` of salvage.py."""
        return scans_past_damage(
            lambda begin: self.scan(segment, begin, stop, check_crc=False, mapped=False), segment, position, stop
        )

    def segments_between(self, start: int, stop: int) -> Iterator[tuple[Segment, int, int]]:
        """(segment, first position, last position) of every segment that overlaps physical [start, stop)."""
        segments = self.segments
        first = max(bisect.bisect_right(segments, start, key=lambda segment: segment.base) - 1, 0)
        for segment in segments[first:]:
            if segment.base >= stop:
                return
            if segment.end > start:
                yield segment, max(start - segment.base, 0), min(stop - segment.base, segment.size)

    def message(self, physical_offset: int, size: int) -> StoredMessage:
        """The message of `size` bytes at `physical_offset`, checked: lengths, own offset, body CRC.

        Raises CorruptRecordError for anything else that lies there.
        """
        segment, position = self._place(physical_offset, size)
        record = self._copy(segment, physical_offset, position, size)
        values = self._check(segment, record, physical_offset, size)
        return message_of_record(record, values[6], values[16])

    def record_bytes(self, physical_offset: int, size: int) -> bytes:
        """The bytes of a record of `size` bytes, unchecked. Raises CorruptRecordError where no segment holds them."""
        segment, position = self._place(physical_offset, size)
        return self._copy(segment, physical_offset, position, size)

    def body_view(self, message: StoredMessage) -> memoryview:
        """A view of the body of a message in the log. Raises CorruptRecordError if the message is no longer there."""
        offset, size = message.physical_offset, message.size
        segment, position = self._place(offset, size)
        record = memoryview(self._mapping(segment, offset))[position : position + size]
        values = self._check(segment, record, offset, size)
        if (values[2], values[12], values[11]) != (message.queue_offset, message.queue_id, message.body_crc):
            raise CorruptRecordError(segment.path, offset, "another record", f"that of {message.topic!r}")
        return record[values[6] : values[6] + values[16]]

    def _place(self, physical_offset: int, size: int) -> tuple[Segment, int]:
        """The segment of a record of `size` bytes, and where in it the record starts."""
        self._check_open()
        segment = self.segment_at(physical_offset)
        if segment is None or physical_offset + size > segment.end:
            raise CorruptRecordError(
                self.folder, physical_offset, "no segment that holds it whole", f"a record of {size} bytes"
            )
        if size > MAX_RECORD_SIZE:
            raise CorruptRecordError(
                segment.path, physical_offset, f"a record of {size} bytes", f"one of {MAX_RECORD_SIZE} at most"
            )
        return segment, physical_offset - segment.base

    def _check(self, segment: Segment, record: bytes | memoryview, physical_offset: int, size: int) -> FrameRow:
        """The row of a record, whose positions count from its first byte. Raises CorruptRecordError for anything else
        that lies there."""
        row: Any = np.empty(1, FRAME_DTYPE)
        count, _, end = native.walk(record, 0, len(record), physical_offset, True, row)
        if not count:
            raise CorruptRecordError(
                segment.path, physical_offset, WALK_END_TEXT[WalkEnd(end)], f"a record of {size} bytes"
            )
        values: FrameRow = row[0].item()
        if values[9] != size:
            raise CorruptRecordError(segment.path, physical_offset, f"a record of {values[9]} bytes", f"one of {size}")
        if not values[19]:
            raise CorruptRecordError(segment.path, physical_offset, BAD_CRC, f"CRC {values[11] & 0xFFFFFFFF:08X}")
        if self.check_crc_property and not has_right_crc(record, values[18]):
            raise CorruptRecordError(segment.path, physical_offset, BAD_CRC_PROPERTY, "a record that fits it")
        if self.first_broken is not None:
            start = self.first_broken(segment, physical_offset - segment.base, size)
            if start is not None:
                expected = f"the bytes that were sealed from physical offset {segment.base + start} on"
                raise CorruptRecordError(segment.path, physical_offset, BAD_BLOCK, expected)
        return values

    def messages(
        self,
        units: bytes,
        queue_offsets: NDArray[np.int64],
        queue_ids: int | NDArray[np.int32],
        topic_raw: bytes,
        max_size: int,
    ) -> list[StoredMessage]:
        """The messages of leading entries of queues of a topic, up to the first that is unusual in any way, or in
        another segment: `message` decides about that one. See `native.messages`.
        """
        self._check_open()
        segment = self.segment_at(int.from_bytes(units[:8], "big", signed=True))
        if segment is None or self.checks_more or not self.disk.maps_files:
            return []
        try:
            mapping = segment.mapping()
        except FileNotFoundError:
            return []
        return native.messages(
            *(mapping, units, queue_offsets, topic_raw, queue_ids, segment.base, max_size), StoredMessage
        )

    def plain_message(self, physical_offset: int, topic_raw: bytes, end: int) -> StoredMessage | None:
        """The message that starts at `physical_offset`, if it is an ordinary intact one of this topic, no inner batch,
        and ends by `end`. None otherwise: `message_at` finds out what is there, at more cost."""
        self._check_open()
        segment = self.segment_at(physical_offset)
        if segment is None or self.checks_more or not self.disk.maps_files:
            return None
        mapping, position = self._mapping(segment, physical_offset), physical_offset - segment.base
        if position + PLACE.size > len(mapping):
            return None
        room = end - physical_offset
        size, queue_id, queue_offset = PLACE.unpack_from(mapping, position)
        found = native.messages(
            *(mapping, UNIT.pack(physical_offset, size, 0), OFFSET.pack(queue_offset), topic_raw, queue_id),
            *(segment.base, room if room < MAX_RECORD_SIZE else MAX_RECORD_SIZE, StoredMessage),
        )
        return found[0] if found else None

    def will_read(self, start: int, stop: int) -> None:
        """Fetch physical [start, stop) from the disk ahead of a read, in segments that are mapped already: this opens
        no file. It ignores errors; the read raises them."""
        for segment, first, last in self.segments_between(start, stop):
            if not segment.is_mapped:
                continue
            with suppress(DiskError, OSError):
                segment.file.will_read(first, last - first)

    def message_at(self, physical_offset: int) -> StoredMessage:
        """The message that starts at `physical_offset`. Raises CorruptRecordError if none does."""
        self._check_open()
        segment = self.segment_at(physical_offset)
        if segment is None:
            raise CorruptRecordError(self.folder, physical_offset, "no segment", "a record")
        position = physical_offset - segment.base
        if self.disk.maps_files and not self.checks_more:
            mapping = self._mapping(segment, physical_offset)
            row, stop = bytearray(FRAME_ROW.size), min(segment.size, position + MAX_RECORD_SIZE)
            if native.walk(mapping, position, stop, segment.base, True, row)[0]:
                values = FRAME_ROW.unpack(row)
                if values[19]:
                    return message_of_record(mapping[position : position + values[9]], values[6] - position, values[16])
        # Anything else: check it by the size that it claims.
        raw = self._copy(segment, physical_offset, position, 4)
        return self.message(physical_offset, max(int.from_bytes(raw, "big", signed=True), 8))

    def store_timestamp_ms_at(self, physical_offset: int, size: int) -> int:
        """Store time in ms of the record of `size` bytes at `physical_offset`. Reads only its fixed fields.

        Raises CorruptRecordError for anything else there. Does not check the body.
        """
        self._check_open()
        segment = self.segment_at(physical_offset)
        expected = f"a record of {size} bytes"
        if segment is None or physical_offset + size > segment.end:
            raise CorruptRecordError(self.folder, physical_offset, "no segment that holds it whole", expected)
        try:
            raw = segment.read(physical_offset - segment.base, STORE_TIMESTAMP_BELOW)
        except FileNotFoundError as e:
            raise CorruptRecordError(segment.path, physical_offset, FILE_IS_GONE, expected) from e
        found = None
        if len(raw) < STORE_TIMESTAMP_BELOW or size < FIXED_V1_V4_SIZE:
            found = WALK_END_TEXT[WalkEnd.TRUNCATED]
        else:
            found_size, magic, _, _, _, _, found_offset, sys_flag, _ = HEAD.unpack_from(raw)
            if magic not in (MAGIC_V1, MAGIC_V2):
                found = WALK_END_TEXT[WalkEnd.BAD_MAGIC]
            elif found_size != size:
                found = f"a record of {found_size} bytes"
            elif found_offset != physical_offset:
                found = WALK_END_TEXT[WalkEnd.BAD_OFFSET]
        if found is not None:
            raise CorruptRecordError(segment.path, physical_offset, found, expected)
        timestamp_ms: int = STORE_TIMESTAMP.unpack_from(raw, BORN_HOST_AT + born_host_size(sys_flag))[0]
        return timestamp_ms

    def was_released(self, physical_offset: int) -> bool:
        """Whether the log begins after this byte: by its first segment, or because another process has removed segments
        from its start since they were listed."""
        if physical_offset < self.min_offset:
            return True
        upto = [segment for segment in self.segments if segment.base <= physical_offset]
        return bool(upto) and not any(self.disk.exists(segment.path) for segment in upto)

    def next_segment_offset(self, physical_offset: int) -> int:
        """Physical offset where the segment behind the one of this byte starts, or would start."""
        return physical_offset + self.segment_size - physical_offset % self.segment_size

    def _copy(self, segment: Segment, physical_offset: int, position: int, size: int) -> bytes:
        try:
            return segment.copy(position, size)
        except FileNotFoundError as e:
            raise CorruptRecordError(segment.path, physical_offset, FILE_IS_GONE, "a record") from e

    def _mapping(self, segment: Segment, physical_offset: int) -> mmap.mmap:
        try:
            return segment.mapping()
        except FileNotFoundError as e:
            raise CorruptRecordError(segment.path, physical_offset, FILE_IS_GONE, "a record") from e

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.folder.parent}: the store was closed; open it again")

    def close(self) -> None:
        """Close every file; views that were handed out keep theirs."""
        self._closed = True
        for segment in self.segments:
            segment.close()
