"""The key index files of a store: listing them, and searching all of them for a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...store.disk.disk import Disk
from .index_file import INDEX_FOLDER, Entries, IndexGeometry, IndexHeader, parse_name
from .index_reader import IndexFile

MOST_MAPPED = 64
"""Files that stay mapped once they were searched, the newest ones: each takes a descriptor. Of RocketMQ's usual size
they hold 1.28 billion keys."""


class UnreadableFile(NamedTuple):
    """An index file that cannot be used."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class IndexFolder:
    """The folder `ROOT/index/`, for readers. Writes nothing. Any number of threads may search while one reloads.

    A file that was removed since the last load is skipped: its writer expired it.
    """

    def __init__(self, disk: Disk, root: Path, geometry: IndexGeometry) -> None:
        self.disk, self.folder, self.geometry = disk, root / INDEX_FOLDER, geometry
        self.files: tuple[IndexFile, ...] = ()
        """The usable files, oldest first. The list is replaced, never changed."""
        self.headers: dict[int, IndexHeader] = {}
        """Header of each of these files by its number, as read when it was loaded."""
        self.unreadable: list[UnreadableFile] = []
        """Files that RocketMQ would take for index files, and that are left out here."""
        self.begun: list[Path] = []
        """Empty files: their writer is creating them right now, or died while it did."""
        self.strays: list[Path] = []
        """Other files in the folder; RocketMQ ignores them, too."""
        self.last_name = 0
        """The highest number of an index file, usable or not; 0 for none."""
        self.gone_up_to = -1
        """Physical offset of the last record of the files that a search since then has found gone; -1 for none."""

    def load(self) -> None:
        """List the folder and read every header, and the last entry of each file. No slot is read."""
        files: list[IndexFile] = []
        headers: dict[int, IndexHeader] = {}
        unreadable: list[UnreadableFile] = []
        begun: list[Path] = []
        strays: list[Path] = []
        last_name = 0
        problem: str | None
        for entry in self.disk.list(self.folder):
            path = self.folder / entry.name
            if entry.is_folder or not (entry.name.isascii() and entry.name.isdigit()):
                strays.append(path)
                continue
            number = parse_name(entry.name)
            if number is None:
                unreadable.append(UnreadableFile(path, "its name is no time of 17 digits"))
                continue
            last_name = max(last_name, number)
            if entry.size == 0:
                begun.append(path)
                continue
            if entry.size != self.geometry.file_size:
                problem = f"it is {entry.size} bytes long, expected {self.geometry.file_size}"
                unreadable.append(UnreadableFile(path, problem))
                continue
            file = IndexFile(self.disk, path, self.geometry)
            try:
                header, problem = file.inspect()
            except FileNotFoundError:
                continue
            if problem:
                unreadable.append(UnreadableFile(path, problem))
                continue
            files.append(file)
            headers[number] = header
        self.headers, self.last_name = headers, last_name
        self.unreadable, self.begun, self.strays = unreadable, begun, strays
        self.files = tuple(files)

    @property
    def last_physical_offset(self) -> int | None:
        """Physical offset of the last record that the headers speak of; None without any entry."""
        for file in reversed(self.files):
            header = self.headers[file.number]
            if header.has_entries:
                return header.end_physical_offset
        return None

    def candidates(
        self, key_hash: int, begin_ms: int = 0, end_ms: int | None = None, *, below: int | None = None
    ) -> Iterator[int]:
        """Physical offsets of records that may have a key of this hash and a store time within [begin, end], newest
        first, each once.

        Some have another key, for a hash is all that an entry keeps, or lie out of the range by a few seconds, or are
        no records, where a file is damaged: the caller looks. None that the files know is left out. With `below`, only
        records that start below this physical offset: those from there on are known from elsewhere.
        """
        last = -1
        for place, file in enumerate(reversed(self.files)):
            try:
                for physical_offset in file.candidates(key_hash, begin_ms, end_ms):
                    # RocketMQ indexes the record at the border of two lives twice; a key may stand twice in a record.
                    if last != physical_offset >= 0 and (below is None or physical_offset < below):
                        yield physical_offset
                    last = physical_offset
            except FileNotFoundError:
                self._meet_gone(file)
            finally:
                if place >= MOST_MAPPED:
                    file.release()

    def release_removed(self) -> None:
        """Unmap files that were removed since their first search, to free their disk space."""
        for file in self.files:
            if not self.disk.exists(file.path):
                file.release()

    def release(self) -> None:
        """Unmap all files; running searches finish on their mappings."""
        for file in self.files:
            file.release()

    def entries(self, physical_offset: int = 0) -> Iterator[Entries]:
        """All entries of records from `physical_offset` on, in the order of the log, a bounded number at a time."""
        for file in self.files:
            try:
                header = file.header()
                if physical_offset <= header.end_physical_offset:
                    first = file.first_at_or_after(physical_offset, header.next_entry)
                    yield from file.pieces(first, header.next_entry)
            except FileNotFoundError:
                self._meet_gone(file)

    def _meet_gone(self, file: IndexFile) -> None:
        """A file cannot be opened any more."""
        header = self.headers.get(file.number)
        if header is not None:
            self.gone_up_to = max(self.gone_up_to, header.end_physical_offset)
