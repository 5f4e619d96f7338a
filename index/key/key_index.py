"""The key index of a store that is open for writing: index files, the newest of which takes new keys.

Threads: one thread at a time, the holder of the dispatch lock or recovery, puts, prepares flushes, expires, rewinds,
and reads the progress. Any number of threads search meanwhile, without a lock: a search that starts after a put has
returned finds its keys. Any thread may write a prepared flush, without the lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from .index_file import FIRST_ENTRY, IndexGeometry, IndexHeader, IndexState, file_name, next_name
from .index_folder import IndexFolder
from .index_reader import IndexFile
from .index_rewind import rewind_file
from .index_writer import ActiveIndexFile, FlushRound, index_file_gone
from .key_entries import KeyEntries, LastPut


class KeyIndex(IndexFolder):
    """See above. `load` it first; then, after a crash, `rewind` and `truncate`."""

    def __init__(self, disk: Disk, root: Path, geometry: IndexGeometry, clock: Clock) -> None:
        super().__init__(disk, root, geometry)
        self._clock = clock
        self._last_put: LastPut | None = None
        """None where the files have to be asked: at first, and while a put is under way, which an interrupt may end
        anywhere."""
        self._new_name = 0
        """Name of the file that is being created; an interrupted attempt is resumed."""
        self.clear_count = 0
        """How often all files were removed: a search during which it changes may have missed some."""

    def load(self) -> None:
        """List the folder and read every header, and the last entry of each file. No slot is read, nothing written."""
        super().load()
        self._new_name = 0
        self._activate_newest()

    def _activate_newest(self) -> None:
        self._last_put = None
        if self.files:
            newest = self.files[-1]
            header = self.headers[newest.number]
            active = ActiveIndexFile(self.disk, newest.path, self.geometry, header, is_new=False)
            self.files = (*self.files[:-1], active)

    @property
    def _active(self) -> ActiveIndexFile | None:
        """The last of `files`; its header on disk, and in `headers`, is that of the last flush."""
        if not self.files:
            return None
        newest = self.files[-1]
        assert isinstance(newest, ActiveIndexFile)
        newest.settle()
        return newest

    def _header(self, file: IndexFile) -> IndexHeader:
        """As of the last put."""
        if isinstance(file, ActiveIndexFile):
            file.settle()
            return file.live
        return self.headers[file.number]

    @property
    def state(self) -> IndexState:
        """As of the last put. What a flush has made durable stands in its round."""
        active = self._active
        return IndexState(active.number, active.live.next_entry) if active is not None else IndexState()

    @property
    def last_physical_offset(self) -> int | None:
        """Physical offset of the last record put; None without any entry."""
        headers = (self._header(file) for file in reversed(self.files))
        return next((header.end_physical_offset for header in headers if header.has_entries), None)

    @property
    def full_timestamp_ms(self) -> int:
        """The checkpoint's indexMsgTimestamp: store time in ms of the last record in the newest file that is full and
        durable as such; 0 without one."""
        for file in reversed(self.files):
            header = self._header(file)
            if header.next_entry >= self.geometry.entries and (
                not isinstance(file, ActiveIndexFile) or file.flushed_next == header.next_entry
            ):
                return header.end_timestamp_ms
        return 0

    # -- putting

    def put(self, keys: KeyEntries) -> None:
        """Append keys in the order of the log; a search that begins afterwards finds them. Durable after a flush.

        Keys that are there already are passed over: those of records before the last one put, and as many of the last
        one's as there are. So a range of the log can be put again, whether its first put came to its end or not; the
        keys of one record always come in the same order.

        A full file is flushed before the next one begins. Raises DiskFullError and DiskError: some keys may have been
        put then, and the caller puts the same keys again. Raises SyncFailedError.
        """
        if not len(keys):
            return
        last_put = self._find_last_put() if self._last_put is None else self._last_put
        keys = last_put.unknown(keys)
        self._last_put = None
        while len(keys):
            active = self.files[-1] if self.files else None
            # Settled: after an interrupt the last put was looked for, and that settles.
            if not isinstance(active, ActiveIndexFile) or not active.room:
                active = self._roll()
            room = active.room
            part = keys if len(keys) <= room else keys.part(0, room)
            active.put(part)
            last_put = last_put.then(part)
            if part is keys:
                break
            keys = keys.part(room, len(keys))
        self._last_put = last_put

    def _find_last_put(self) -> LastPut:
        last = self.last_physical_offset
        if last is None:
            return LastPut()
        count = 0
        for file in reversed(self.files):
            next_entry = self._header(file).next_entry
            try:
                here = next_entry - file.first_at_or_after(last, next_entry)
            except FileNotFoundError as e:
                raise index_file_gone(file.path) from e
            count += here
            if here < next_entry - FIRST_ENTRY:
                break
        return LastPut(last, count)

    def _roll(self) -> ActiveIndexFile:
        """Flush the full file, if there is one, and begin the next."""
        full, header = self._active, IndexHeader()
        if full is None:
            self.disk.make_folder(self.folder)
        else:
            full.prepare_flush().write()
            header = full.live.following()
        number = self._new_name = self._new_name or next_name(self._clock.now_ms(), self.last_name)
        path = self.folder / file_name(number)
        file = self.disk.open(path, writable=True, create=True)
        try:
            file.resize(self.geometry.file_size)
            file.sync()
        finally:
            file.close()
        self.disk.sync_folder(self.folder)
        active = ActiveIndexFile(self.disk, path, self.geometry, header, is_new=True)
        files = self.files
        if full is not None:
            self.headers[full.number] = full.live
            files = (*files[:-1], IndexFile(self.disk, full.path, self.geometry))  # its slots leave the memory
        self.headers[number] = header
        self.files = (*files, active)
        self.last_name, self._new_name = number, 0
        if full is not None:
            full.close()
        return active

    # -- flushing

    def prepare_flush(self) -> FlushRound:
        """What is to be made durable now, copied: `write` it without the lock, and its `state` is durable."""
        return self._active.prepare_flush() if self._active is not None else FlushRound(None, IndexState())

    def flush(self) -> IndexState:
        """Make everything put so far durable, and return that state. Raises SyncFailedError, DiskFullError,
        DiskError."""
        flush_round = self.prepare_flush()
        flush_round.write()
        return flush_round.state

    def check_files(self) -> None:
        """Raise IndexFileGoneError if another program deleted a file: an open file can still be written."""
        for file in self.files:
            if not self.disk.exists(file.path):
                raise index_file_gone(file.path)

    def close(self) -> None:
        """Close all files. Does not flush; no put and no flush round may follow."""
        self.release()
        if self._active is not None:
            self._active.close()

    # -- rewind, release

    def rewind(self, state: IndexState, end_timestamp_ms: int | None = None) -> bool:
        """After a crash: make the index what it was when a flush made `state` durable. Durable when this returns.

        `end_timestamp_ms` is the store time of the last record that was indexed then, if it is known: a file that was
        flushed again since knows it to the second only. False if the files cannot have been in that state: the
        caller then clears and rebuilds the index. Raises DiskError and its kin.
        """
        if state.file == 0:
            self.clear()
            return True
        numbers = [file.number for file in self.files]
        damaged = [file.path for file in self.unreadable]
        if state.file not in numbers or any(path.name < file_name(state.file) for path in damaged):
            return False
        self._remove([*self.begun, *damaged])
        self._remove_files_from(numbers.index(state.file) + 1)
        return self._rewind_newest(state.next_entry, end_timestamp_ms)

    def truncate(self, physical_offset: int) -> bool:
        """Drop the keys of records at or beyond `physical_offset`, which the log has lost. Durable when this returns.

        Everything put is flushed, or the index was just loaded or rewound. False, and raises, as `rewind`.
        """
        keep = len(self.files)
        while keep:
            header = self._header(self.files[keep - 1])
            if header.has_entries and header.begin_physical_offset < physical_offset:
                break
            keep -= 1
        self._remove(self.begun)
        self._remove_files_from(keep)
        if self._active is None:
            return True
        next_entry = self._active.live.next_entry
        first = self._active.first_at_or_after(physical_offset, next_entry)
        return first == next_entry or self._rewind_newest(first, None)

    def _rewind_newest(self, next_entry: int, end_timestamp_ms: int | None) -> bool:
        assert self._active is not None
        self._last_put = None
        if next_entry <= FIRST_ENTRY:  # a file is only there for its entries
            self._remove_files_from(len(self.files) - 1)
            return True
        self._active.close()
        file = self.disk.open(self._active.path, writable=True)
        found = rewind_file(file, self.geometry, next_entry, end_timestamp_ms)
        if found is None:
            file.close()
            return False
        header, slots = found
        self._active.take_over(file, slots, header)
        self.headers[self._active.number] = header
        return True

    def count_expired(self, min_physical_offset: int) -> int:
        """How many files `expire` would remove."""
        count = 0
        for file in self.files[:-1]:
            if self.headers[file.number].end_physical_offset >= min_physical_offset:
                break
            count += 1
        return count

    def expire(self, min_physical_offset: int) -> list[Path]:
        """Remove the oldest files while the log holds none of their records, but never the newest file; returns what
        was removed."""
        count = self.count_expired(min_physical_offset)
        expired, self.files = self.files[:count], self.files[count:]
        self._remove(file.path for file in expired)
        for file in expired:
            del self.headers[file.number]
        return [file.path for file in expired]

    def clear(self) -> None:
        """Remove every file that RocketMQ would take for an index file, damaged ones included."""
        self.clear_count += 1
        self._remove_files_from(0)
        self._remove([*self.begun, *(file.path for file in self.unreadable)])
        self.begun, self.unreadable = [], []

    def _remove_files_from(self, keep: int) -> None:
        """Keep the `keep` oldest files."""
        if keep == len(self.files):
            return
        self.close()
        removed, self.files = self.files[keep:], self.files[:keep]
        self._remove(file.path for file in reversed(removed))
        for file in removed:
            del self.headers[file.number]
        self._activate_newest()

    def _remove(self, paths: Iterable[Path]) -> None:
        count = 0
        for path in paths:
            try:
                self.disk.remove(path)
            except FileNotFoundError:
                continue  # another process has removed it already
            count += 1
        if count:
            self.disk.sync_folder(self.folder)

    def _meet_gone(self, file: IndexFile) -> None:
        if any(known.number == file.number for known in self.files):
            raise index_file_gone(file.path)
