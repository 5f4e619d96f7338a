"""Where the entries of a queue stand on disk: what a reader in another process needs to come to them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ...store.disk.disk import Disk
from ...store.segments.segment import segment_name
from .queue_unit import UNIT_SIZE, Units, decode_units


class QueueLayout(NamedTuple):
    """The files of one queue."""

    folder: str
    file_entries: int
    first_index: int
    """First entry of one of the files."""

    def units(self, disk: Disk, index: int, count: int) -> Units:
        """Entries [index, index + count) as they stand there now, at most up to the end of a file. Raises
        FileGoneError."""
        at = (index - self.first_index) % self.file_entries
        file = disk.open(self.path(index))
        try:
            return decode_units(file.read(at * UNIT_SIZE, min(count, self.file_entries - at) * UNIT_SIZE))
        finally:
            file.close()

    def path(self, index: int) -> Path:
        """The file of an entry."""
        at = (index - self.first_index) % self.file_entries
        return Path(self.folder, segment_name((index - at) * UNIT_SIZE))

    def next_file_index(self, index: int) -> int:
        """First entry of the file behind the one of this entry."""
        return index + self.file_entries - (index - self.first_index) % self.file_entries
