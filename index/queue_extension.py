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
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..store.disk import Disk
from ..store.errors import DiskError
from ..store.segment import segment_base, segment_name
from .queue_unit import HIGHEST_EXTENSION_ADDRESS, Units

EXTENSION_FOLDER = "consumequeue_ext"
DEFAULT_EXTENSION_FILE_SIZE = 48 << 20
ADDRESS_BASE = -(1 << 63)

HEAD = struct.Struct(">hqqh")
HEAD_SIZE = HEAD.size
assert HEAD_SIZE == 20
MAX_UNIT_SIZE = (1 << 15) - 1
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

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk, self.folder = disk, folder
        self.file_size = 0
        """Bytes of a file; 0 without one."""

    def load(self) -> None:
        """Look at the files; their lengths agree in what RocketMQ wrote, so the first one's counts."""
        if self.file_size:
            return
        for entry in self._disk.list(self.folder):
            if segment_base(entry.name) is not None and not entry.is_folder and entry.size:
                self.file_size = entry.size
                return

    def resolved(self, units: Units) -> Units:
        """The entries with tags codes in place of addresses. An address without a unit stays."""
        at = np.flatnonzero(units["tags_code"] <= HIGHEST_EXTENSION_ADDRESS)
        if not len(at):
            return units
        self.load()
        if not self.file_size:
            return units
        copy = units.copy()
        for number in np.unique((units["tags_code"][at].astype(np.int64) - ADDRESS_BASE) // self.file_size).tolist():
            self._resolve_in_file(copy, at, number)
        return copy

    def _resolve_in_file(self, units: Units, at: NDArray[np.int64], number: int) -> None:
        places = units["tags_code"][at].astype(np.int64) - ADDRESS_BASE - number * self.file_size
        here = (places >= 0) & (places < self.file_size)
        first, last = int(places[here].min()), int(places[here].max())
        raw = self._read(number, first, min(last + HEAD_SIZE, self.file_size) - first)
        for index, place in zip(at[here].tolist(), places[here].tolist(), strict=True):
            unit = _decode(raw, place - first)
            if unit is not None:
                units["tags_code"][index] = unit.tags_code

    def unit(self, address: int) -> ExtensionUnit | None:
        """The unit at an address; None if there is none."""
        self.load()
        if not self.file_size or address > HIGHEST_EXTENSION_ADDRESS:
            return None
        number, place = divmod(address - ADDRESS_BASE, self.file_size)
        return _decode(self._read(number, place, min(HEAD_SIZE, self.file_size - place)), 0)

    def _read(self, number: int, position: int, size: int) -> bytes:
        try:
            file = self._disk.open(self._path(number))
        except FileNotFoundError:
            return b""
        try:
            return file.read(position, size)
        except DiskError:
            return b""  # as good as gone: whoever asks looks at the record instead
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
