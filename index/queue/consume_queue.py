"""A consume queue on disk: entries of 20 bytes in files of fixed length, named by their first byte in the logical
queue.

    consumequeue/TOPIC/QUEUE_ID/00000000000000000000, 00000000000006000000, ...

Invariants:
- Entry i is at byte 20 * i; all entries in [min_index, end) point at records; everything from `end` on is zero.
- Derived from the log: written by write calls, so a full disk is an error and not a signal; rebuilt where it disagrees.
- A store may have very many queues: those of its files that are in use are kept open (queue_files.py), and no others.

Indexes are queue offsets: entries, not bytes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import Disk, DiskFile
from ...store.errors import FileGoneError, SegmentLengthError
from ...store.segments.segment import segment_base, segment_name
from ...store.settings import PAGE_SIZE
from .queue_extension import QueueExtension
from .queue_files import QueueFiles, look_again_where_files_go
from .queue_layout import NO_LOOK, PAGE_ENTRIES, QueueFileLook, QueueLayout, look_into, no_entry_mask
from .queue_sync import Unsynced, queue_file_gone
from .queue_unit import (
    FILLER,
    HIGHEST_EXTENSION_ADDRESS,
    UNIT_SIZE,
    QueueUnit,
    Units,
    decode_units,
    filler_mask,
    search,
    search_offset,
    valid_mask,
)

CHUNK_ENTRIES = 16_384


class ConsumeQueue:
    """One queue of one topic. Only the dispatcher writes, under its lock; any thread may read."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        file_entries: int,
        extension: QueueExtension | None = None,
        unsynced: Unsynced | None = None,
        files: QueueFiles | None = None,
    ) -> None:
        self.extension = extension
        self._disk, self.folder, self._file_entries = disk, folder, file_entries
        self._unsynced = Unsynced() if unsynced is None else unsynced
        self._files = QueueFiles(disk) if files is None else files
        self.seen_last: tuple[int, bytes] | None = None
        """What `load` saw as the last entry, with its index, until the queue changes."""
        self._known_path = (-1, folder)
        """The file that was asked for last, by its first entry: to put a path together takes as long as to open it."""
        self._first_file_index = 0
        """First entry of the oldest file."""
        self._file_count = 0
        self.min_index = 0
        """Index of the first message that still exists."""
        self.end = 0
        """Index one past the last message. Readers may use it at any time: it moves after the entries are written."""

    def load(self, *, thorough: bool) -> None:
        """Find files and end. `thorough` looks at every entry of the last three files, else it is a binary search.

        If retention in another process removes a file meanwhile, its start must not be taken for the queue's end: the
        files are listed again. Raises SegmentLengthError for a file that is not `file_entries` long.
        """
        look_again_where_files_go(lambda: self._load_listed(thorough))

    def _load_listed(self, thorough: bool) -> None:
        self._first_file_index = self._file_count = self.min_index = self.end = 0
        self.seen_last = None
        file_size = self._file_entries * UNIT_SIZE
        bases: list[int] = []
        for entry in self._disk.list(self.folder):
            base = segment_base(entry.name)
            if base is None or entry.is_folder:
                continue
            if entry.size != file_size:
                if entry.size == 0:
                    continue  # died between creating the file and giving it its length
                raise SegmentLengthError(self.folder / entry.name, entry.size, file_size)
            bases.append(base // UNIT_SIZE)
        if not bases:
            return
        # What lies behind a missing file cannot be reached by position: it is rebuilt from the log.
        count = 1
        while count < len(bases) and bases[count] == bases[0] + count * self._file_entries:
            count += 1
        self._first_file_index, self._file_count = bases[0], count
        files_end = bases[0] + count * self._file_entries
        self.min_index = bases[0]
        look = NO_LOOK if thorough and count > 1 else self._look_into(count - 1)
        if thorough and not look.is_whole:
            self.end = self._find_end_thoroughly(files_end)
            look = NO_LOOK
        else:
            while look.entries == 0 and count > 1:
                count -= 1
                look = self._look_into(count - 1)
            self.end = bases[0] + (count - 1) * self._file_entries + look.entries
        if self.end > self.min_index:
            first = look.first if count == 1 and len(look.first) else self.units(self.min_index, 1)
            if not len(first) or not QueueUnit(*first[0].item()).is_valid:
                self.min_index = search(self.units, valid_mask, self.min_index, self.end)

    def _look_into(self, number: int) -> QueueFileLook:
        look = look_into(self._disk, self._path(number), self._file_entries)
        if look.last is not None:
            index = self._first_file_index + number * self._file_entries + look.entries - 1
            self.seen_last = (index, look.last)
        return look

    def _find_end_thoroughly(self, files_end: int) -> int:
        start = files_end - 3 * self._file_entries
        while start > self._first_file_index and no_entry_mask(self.units(start - 1, 1)).any():
            start -= self._file_entries  # the end lies further back
        start = max(self._first_file_index, start)
        while start < files_end:
            count = min(self._entries_before_hole(start), CHUNK_ENTRIES, files_end - start)
            if not count:
                return start
            units = self.units(start, count)
            if not len(units):
                raise FileGoneError(f"{self.folder}: the file of entry {start} was removed meanwhile; look again")
            bad = no_entry_mask(units)
            if bad.any():
                count = int(np.argmax(bad))
                if count:
                    self.seen_last = (start + count - 1, units[count - 1].tobytes())
                return start + count
            start += len(units)
        return files_end

    def _entries_before_hole(self, index: int) -> int:
        """How many entries from `index` on have something written where they stand, in the file of that one."""
        number, at = divmod(index - self._first_file_index, self._file_entries)
        hole = self._files.get(self._path(number)).next_hole(at * UNIT_SIZE)
        return max(min(-(-hole // UNIT_SIZE), self._file_entries) - at, 0)

    def set_min_offset(self, min_physical_offset: int) -> None:
        """Skip entries of messages that the log no longer holds; a queue may end up empty with its offsets kept."""
        if min_physical_offset <= 0:
            return
        self.min_index = search_offset(self.units, min_physical_offset, self.min_index, self.end)

    def first_at_or_after(self, physical_offset: int) -> int:
        """Index of the first entry whose record starts at or after `physical_offset`; `end` if none does."""
        return search_offset(self.units, physical_offset, self.min_index, self.end)

    def next_file_index(self, index: int) -> int:
        """Index of the first entry of the file behind the one that `index` belongs to."""
        return index + self._file_entries - index % self._file_entries

    def expire(self) -> list[Path]:
        """Remove the oldest files that end before `min_index`, but never the last file; returns what was removed.

        Not synced: a file that comes back is removed again.
        """
        removed: list[Path] = []
        while self._file_count > 1 and self._first_file_index + self._file_entries <= self.min_index:
            path = self._path(0)
            with suppress(FileNotFoundError):
                self._disk.remove(path)
            self._release_path(path)
            removed.append(path)
            self._first_file_index += self._file_entries  # this before the count, see units
            self._file_count -= 1
        if self.extension is not None and self.min_index < self.end:
            code = int(self.units(self.min_index, 1)["tags_code"][0])
            if code <= HIGHEST_EXTENSION_ADDRESS:
                removed += self.extension.expire(code)
        return removed

    def skip_removed(self) -> None:
        """Does nothing: a queue that is open for writing moves its start before its files are removed."""

    def forget_removed(self) -> None:
        """Begin behind the oldest files that another process has removed, if there are later ones. For views alone."""
        first, count = self._first_file_index, self._file_count
        while count and not self._disk.exists(path := self.folder / segment_name(first * UNIT_SIZE)):
            self._files.forget(path)
            first += self._file_entries
            count -= 1
        if not count:
            bases = (segment_base(entry.name) for entry in self._disk.list(self.folder))
            if not any(base is not None and base >= first * UNIT_SIZE for base in bases):
                return  # nothing is left: that is damage
        self._first_file_index, self._file_count = first, count
        self.min_index = max(self.min_index, min(first, self.end))

    def units(self, index: int, count: int) -> Units:
        """Entries [index, index + count) as they are on disk, cut at the end of the files or at a missing one."""
        parts: list[bytes] = []
        first, file_count = -1, 0
        while first != self._first_file_index:  # the oldest file may go in between
            first, file_count = self._first_file_index, self._file_count
        while count > 0:
            number, at = divmod(index - first, self._file_entries)
            if not 0 <= number < file_count:
                break
            here = min(count, self._file_entries - at)
            try:
                file = self._files.get(self._path_of(index - at))
            except FileNotFoundError:
                break
            parts.append(file.read(at * UNIT_SIZE, here * UNIT_SIZE))
            index += here
            count -= here
        return decode_units(parts[0] if len(parts) == 1 else b"".join(parts))

    def resolved(self, units: Units) -> Units:
        """Entries of this queue with tags codes in place of addresses in its extension."""
        return units if self.extension is None else self.extension.resolved(units)

    def put(self, index: int, units: Units, store_timestamps_ms: NDArray[np.int64] | None = None) -> None:
        """Write entries from `index` on, over what is there. The end moves with them. Where the queue has an extension,
        it takes their tags codes and store times.

        It moves back only where `index` lies before the first file: the queue then restarts there, and the caller puts
        the entries behind it again.
        """
        if not len(units):
            return
        if index < self._first_file_index:
            self._keep_files(0)
        if self._file_count == 0:
            self._first_file_index = index - index % self._file_entries
            self.min_index = self.end = index
            self._fill(self._first_file_index, index)
        elif index > self.end:
            self._fill(self.end, index)
        if self.extension is not None and store_timestamps_ms is not None:
            if self.extension.end is None:
                self.extension.begin_behind(self._last_address())
            units = self.extension.put(units, store_timestamps_ms)
        self._write(index, units.tobytes())
        self.min_index = min(self.min_index, index)
        self.end = max(self.end, index + len(units))

    def _fill(self, index: int, stop: int) -> None:
        for at in range(index, stop, CHUNK_ENTRIES):
            self._write(at, FILLER * min(CHUNK_ENTRIES, stop - at))

    def restart(self) -> None:
        """Drop every entry: the log has none of their messages any more. The next put starts the queue."""
        self._keep_files(0)
        self._first_file_index = self.min_index = self.end = 0
        self.seen_last = None
        if self.extension is not None:
            self.extension.end = None

    def _write(self, index: int, raw: bytes) -> None:
        self.seen_last = None
        view = memoryview(raw)
        while view:
            number, at = divmod(index - self._first_file_index, self._file_entries)
            here = min(len(view), (self._file_entries - at) * UNIT_SIZE)
            path = self._path(number)
            is_new = number >= self._file_count
            if is_new and self._file_count == 0:
                self._disk.make_folder(self.folder, syncs=False)
            file = self._writable(path, create=is_new)
            if is_new:
                file.resize(self._file_entries * UNIT_SIZE)
            file.write(at * UNIT_SIZE, view[:here])
            if is_new:
                self._file_count = number + 1
            self._unsynced.note(path, is_new=is_new)
            index += here // UNIT_SIZE
            view = view[here:]

    def _last_address(self) -> int | None:
        """The last address in the extension that an entry holds; None if none does."""
        stop = self.end
        while stop > self.min_index:
            start = max(stop - PAGE_ENTRIES, self.min_index)
            codes = self.units(start, stop - start)["tags_code"]
            addresses = codes[codes <= HIGHEST_EXTENSION_ADDRESS]
            if len(addresses):
                return int(addresses.max())
            stop = start
        return None

    def truncate(self, end: int) -> None:
        """Forget everything from index `end` on: later files are removed, newest first, and the tail is zeroed.

        RocketMQ only forgets in memory, so its stale entries come back after another restart; ours are gone. The first
        file of a queue that does not start at 0 is kept though it be empty: its name is all that tells the offset.
        """
        end = min(end, self.end)
        if end < self.end:
            self.seen_last = None
            if self.extension is not None:
                self.extension.end = None
        keep = -(-(end - self._first_file_index) // self._file_entries)
        self._keep_files(max(keep, 1 if self._first_file_index else 0))
        self.end = max(end, self._first_file_index)
        self.min_index = min(self.min_index, self.end)
        for number in range((self.end - self._first_file_index) // self._file_entries, self._file_count):
            self._zero_from(number, max(self.end - self._first_file_index - number * self._file_entries, 0) * UNIT_SIZE)

    def remove_all(self) -> None:
        """Remove the queue from the disk, its folder too, and forget everything; a reader that is at it finds its end.

        Raises DiskError.
        """
        self.min_index = self.end = 0
        self._first_file_index = self._file_count = 0
        self.seen_last = None
        self._unsynced.forget(self.folder)
        for entry in self._disk.list(self.folder):
            if not entry.is_folder:
                self._disk.remove(self.folder / entry.name)
                self._files.forget(self.folder / entry.name)
        self._disk.remove_folder(self.folder)
        if self.extension is not None:
            self.extension.remove_all()

    def _keep_files(self, count: int) -> None:
        if count >= self._file_count:
            return
        for number in range(self._file_count - 1, count - 1, -1):
            path = self._path(number)
            self._disk.remove(path)
            self._release_path(path)
        self._disk.sync_folder(self.folder)
        self._file_count = count

    def _zero_from(self, number: int, position: int) -> None:
        """Zero a file from `position` on where it is not. It is a hole there as a rule, and queues may be many."""
        file = self._writable(self._path(number))
        at: int | None = position
        size = PAGE_SIZE - position % PAGE_SIZE  # the rest of the last page: behind it there is a hole as a rule
        while at is not None and (at := file.next_data(at)) is not None:
            raw = file.read(at, size)
            size = CHUNK_ENTRIES * UNIT_SIZE
            if np.frombuffer(raw, np.uint8).any():
                file.write(at, bytes(len(raw)))
                self._unsynced.note(self._path(number))
            at += len(raw)

    def _writable(self, path: Path, *, create: bool = False) -> DiskFile:
        try:
            return self._files.get(path, writable=True, create=create)
        except FileNotFoundError as e:
            raise queue_file_gone(path) from e

    def _release_path(self, path: Path) -> None:
        self._unsynced.files.discard(path)
        self._files.forget(path)

    def filler_count(self) -> int:
        """Entries between the start of the files and the first message that are filler."""
        return int(
            np.count_nonzero(filler_mask(self.units(self._first_file_index, self.min_index - self._first_file_index)))
        )

    def write_again(self, index: int) -> None:
        """Write the entries from `index` on as they are: a writer that died may have left them in the page cache alone.

        To sync them is not enough. After a failed sync Linux takes the pages for clean, and the next sync succeeds
        without having written them.
        """
        index = max(index, self._first_file_index)
        for number in range((index - self._first_file_index) // self._file_entries, self._file_count):
            self._unsynced.note(self._path(number), is_new=True)
        while index < self.end and len(units := self.units(index, min(CHUNK_ENTRIES, self.end - index))):
            if self.extension is not None:
                self.extension.write_again(units)
            self._write(index, units.tobytes())
            index += len(units)

    @property
    def layout(self) -> QueueLayout:
        return QueueLayout(str(self.folder), self._file_entries, self._first_file_index)

    def _path(self, number: int) -> Path:
        return self._path_of(self._first_file_index + number * self._file_entries)

    def _path_of(self, first_index: int) -> Path:
        known = self._known_path  # one load: readers are here, too
        if known[0] != first_index:
            known = self._known_path = (first_index, self.folder / segment_name(first_index * UNIT_SIZE))
        return known[1]
