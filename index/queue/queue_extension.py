"""A queue's extension (RocketMQ's `ConsumeQueueExt`): more about each entry than fits into its 20 bytes.

    consumequeue_ext/TOPIC/QUEUE_ID/00000000000000000000, ...      files of one length, 48 MiB by default

    0    size           i16   of this unit: 20 and the bit map's bytes; -1: the rest of the file is filler
    2    tags code      i64   what the entry would hold without an extension
    10   store time     i64   ms
    18   bit map size   i16
    20   bit map              which consumers' filters the message passes; flightlog writes none

The entry of such a message holds an address in place of its tags code: the unit's offset over all files less 2^63. The
last four bytes of a file are never part of a unit.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import Disk
from ...store.errors import DiskError
from ...store.segments.segment import segment_base, segment_name
from .queue_sync import Unsynced, open_writable
from .queue_unit import HIGHEST_EXTENSION_ADDRESS, Units

EXTENSION_FOLDER = "consumequeue_ext"
DEFAULT_EXTENSION_FILE_SIZE = 48 << 20
ADDRESS_BASE = -(1 << 63)

HEAD = struct.Struct(">hqqh")
HEAD_SIZE = HEAD.size
assert HEAD_SIZE == 20
HEAD_DTYPE = np.dtype([("size", ">i2"), ("tags_code", ">i8"), ("store_timestamp_ms", ">i8"), ("map_size", ">i2")])
REST_IS_FILLER = struct.pack(">h", -1)
READ_SIZE = 1 << 20
"""Bytes read at once: garbage among the addresses must not ask for all of a file."""
FILE_TAIL_SIZE = 4
"""Bytes at the end of a file that no unit touches."""


class ExtensionUnit(NamedTuple):
    """A unit, without its bit map."""

    size: int
    tags_code: int
    store_timestamp_ms: int


class QueueExtension:
    """The extension of one queue. Written by the dispatcher alone, under its lock; read by anybody.

    No descriptor stays open between calls.
    """

    def __init__(self, disk: Disk, folder: Path, file_size: int, unsynced: Unsynced | None = None) -> None:
        self._disk, self.folder = disk, folder
        self.file_size = file_size
        """Bytes of a file."""
        self._unsynced = Unsynced() if unsynced is None else unsynced
        self.end: int | None = None
        """Offset of the next unit, over all files; None until `begin_behind` is asked, and after a truncation of the
        queue."""

    def resolved(self, units: Units) -> Units:
        """The entries with tags codes in place of addresses. An address without a unit stays."""
        at = np.flatnonzero(units["tags_code"] <= HIGHEST_EXTENSION_ADDRESS)
        if not len(at):
            return units
        copy = units.copy()
        for number in np.unique((units["tags_code"][at].astype(np.int64) - ADDRESS_BASE) // self.file_size).tolist():
            self._resolve_in_file(copy, at, number)
        return copy

    def _resolve_in_file(self, units: Units, at: NDArray[np.int64], number: int) -> None:
        places = units["tags_code"][at].astype(np.int64) - ADDRESS_BASE - number * self.file_size
        here = np.flatnonzero((places >= 0) & (places < self.file_size))
        here = here[np.argsort(places[here], kind="stable")]
        last, first, raw = int(places[here[-1]]), 0, b""
        for index, place in zip(at[here].tolist(), places[here].tolist(), strict=True):
            if place + HEAD_SIZE > first + len(raw):
                first = place
                raw = self._read(number, first, min(last + HEAD_SIZE - first, self.file_size - first, READ_SIZE))
            unit = _decode(raw, place - first)
            if unit is not None:
                units["tags_code"][index] = unit.tags_code

    def unit(self, address: int) -> ExtensionUnit | None:
        """The unit at an address; None if there is none."""
        if address > HIGHEST_EXTENSION_ADDRESS:
            return None
        number, place = divmod(address - ADDRESS_BASE, self.file_size)
        return _decode(self._read(number, place, min(HEAD_SIZE, self.file_size - place)), 0)

    def begin_behind(self, address: int | None) -> None:
        """The next unit comes behind the one at `address`, the last that the queue speaks of; None: behind none."""
        if address is None:
            self.end = min(self._bases(), default=0)
        else:
            unit = self.unit(address)
            self.end = address - ADDRESS_BASE + (HEAD_SIZE if unit is None else unit.size)

    def put(self, units: Units, store_timestamps_ms: NDArray[np.int64]) -> Units:
        """Write a unit for each entry; returns the entries with their addresses in place of tags codes.

        Raises DiskFullError and DiskError, and the next call goes on from the same place.
        """
        assert self.end is not None
        heads = np.zeros(len(units), HEAD_DTYPE)
        heads["size"] = HEAD_SIZE
        heads["tags_code"], heads["store_timestamp_ms"] = units["tags_code"], store_timestamps_ms
        addressed, done, end = units.copy(), 0, self.end
        while done < len(units):
            number, at = divmod(end, self.file_size)
            count = min((self.file_size - FILE_TAIL_SIZE - at) // HEAD_SIZE, len(units) - done)
            if count <= 0:
                self._write(number, at, REST_IS_FILLER)
                end = (number + 1) * self.file_size
                continue
            self._write(number, at, heads[done : done + count].tobytes())
            addressed["tags_code"][done : done + count] = ADDRESS_BASE + end + HEAD_SIZE * np.arange(count)
            done, end = done + count, end + HEAD_SIZE * count
        self.end = end
        return addressed

    def write_again(self, units: Units) -> None:
        """Write the units of these entries as they are; see ConsumeQueue.write_again."""
        offsets = units["tags_code"][units["tags_code"] <= HIGHEST_EXTENSION_ADDRESS].astype(np.int64) - ADDRESS_BASE
        for number in np.unique(offsets // self.file_size).tolist():
            places = offsets[offsets // self.file_size == number] - number * self.file_size
            first, last = int(places.min()), int(places.max())
            unit = self.unit(ADDRESS_BASE + number * self.file_size + last)
            raw = self._read(number, first, last - first + (unit.size if unit is not None else 0))
            if raw:
                self._write(number, first, raw)
                self._unsynced.note(self._path(number), is_new=True)  # its maker died before it had synced the name

    def expire(self, min_address: int) -> list[Path]:
        """Remove the files whose units all lie before an address, but never the last one; returns what was removed."""
        bases = self._bases()
        gone = [base for base in bases[:-1] if base + self.file_size <= min_address - ADDRESS_BASE]
        for base in gone:
            path = self._path(base // self.file_size)
            with suppress(FileNotFoundError):
                self._disk.remove(path)
            self._unsynced.files.discard(path)
        return [self._path(base // self.file_size) for base in gone]

    def remove_all(self) -> None:
        """Remove the extension from the disk, and the folder of its topic if that holds no other. Raises DiskError.

        Not synced: what comes back belongs to no queue, and is written over.
        """
        self.end = None
        if not self._disk.exists(self.folder):
            return
        self._unsynced.forget(self.folder)
        for entry in self._disk.list(self.folder):
            if not entry.is_folder:
                self._disk.remove(self.folder / entry.name)
        self._disk.remove_folder(self.folder)
        topic_folder = self.folder.parent
        if not self._disk.list(topic_folder):
            self._unsynced.forget(topic_folder)
            self._disk.remove_folder(topic_folder)

    def _bases(self) -> list[int]:
        names = (entry.name for entry in self._disk.list(self.folder) if not entry.is_folder)
        return sorted(base for base in map(segment_base, names) if base is not None)

    def _write(self, number: int, position: int, raw: bytes) -> None:
        path = self._path(number)
        is_new = not self._disk.exists(path)
        if is_new:
            self._disk.make_folder(self.folder, syncs=False)
        file = open_writable(self._disk, path, create=is_new)
        try:
            if file.size() != self.file_size:
                file.resize(self.file_size)
            file.write(position, raw)
        finally:
            file.close()
        self._unsynced.note(path, is_new=is_new)

    def _read(self, number: int, position: int, size: int) -> bytes:
        try:
            file = self._disk.open(self._path(number))
        except FileNotFoundError:
            return b""
        try:
            return file.read(position, size)
        except DiskError:
            return b""  # as if the file were gone: the caller reads the record instead
        finally:
            file.close()

    def _path(self, number: int) -> Path:
        return self.folder / segment_name(number * self.file_size)


def _decode(raw: bytes, at: int) -> ExtensionUnit | None:
    if at + HEAD_SIZE > len(raw):
        return None
    size, tags_code, store_timestamp_ms, map_size = HEAD.unpack_from(raw, at)
    if size != HEAD_SIZE + map_size or map_size < 0 or tags_code <= HIGHEST_EXTENSION_ADDRESS:
        return None
    return ExtensionUnit(size, tags_code, store_timestamp_ms)
