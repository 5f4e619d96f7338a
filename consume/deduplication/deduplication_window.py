"""The ids that were seen lately, kept across restarts and crashes.

with seen.once(order_id) as is_first:
    if is_first:
        charge(...)
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from ...store.arguments import check_seconds, check_type, check_whole, checked_folder
from ...store.disk.clock import Clock, SystemClock
from ...store.disk.disk import Disk, RealDisk
from ...store.disk.lock import StoreLock, watch_fork
from ...store.errors import (
    FlightlogError,
    ForkedStoreError,
    InvalidArgumentError,
    StoreClosedError,
    StorePoisonedError,
    WrongTypeError,
)
from ...store.settings import FlushMode
from .seen_file import FORGOTTEN, SEEN, Note, SeenFile, digest_of

log = logging.getLogger("flightlog.consume")

MAX_COUNT: Final = 100_000
MAX_AGE_S: Final = 3 * 86_400
"""As long as RocketMQ keeps messages: after that, none of them can be redelivered."""
SLACK: Final = 4_096
"""Records of ids out of the window that are never worth a rewrite of the file."""


class EffectInProgressError(FlightlogError):
    """Another thread, or an outer block, is processing this id. Do not acknowledge the message: it is redelivered."""


class DeduplicationWindow:
    """Recently noted ids: at most `max_count`, each for at most `max_age_s` seconds, whichever limit comes first.

    - A note is durable when the call returns (`FlushMode.SYNC`), or when `flush` or `close` does (`ASYNC`: the end of
      the process loses no note, a power cut those since).
    - An id that has left the window is new. One that comes again does not stay longer.
    - No two threads are at work on one id: the second has an EffectInProgressError.
    - `folder/seen` has at most 64 * max_count + 131,104 bytes; it is rewritten beside itself. An id in the window takes
      some 200 bytes of memory.

    An id is text or bytes, of any length; a text and its UTF-8 bytes are one id. Ages follow the clock's time of day,
    and stand still after it is set back. Thread-safe; a folder is open in one process at a time.

    Every call raises StoreClosedError after `close`, ForkedStoreError in a child made by fork, StorePoisonedError after
    a failed sync (open it again: it goes on with what reached the disk), WrongTypeError and InvalidArgumentError for
    what is no id. Notes also raise DiskFullError (nothing was noted), SyncFailedError, DiskError.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_count: int = MAX_COUNT,
        max_age_s: float = MAX_AGE_S,
        flush_mode: FlushMode = FlushMode.SYNC,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Opens the window in `folder`, which is made if it is not there, and is no store's. Raises StoreLockedError if
        it is open elsewhere, DamagedStoreError if `seen` is another kind of file, DiskError, InvalidArgumentError."""
        self._folder = checked_folder("folder", folder).absolute()
        self._max_count = check_whole("max_count", max_count, 1)
        check_seconds("max_age_s", max_age_s)
        check_type("flush_mode", flush_mode, FlushMode, "a FlushMode")
        if (self._folder / "commitlog").exists():
            raise InvalidArgumentError("folder", self._folder, "a folder of its own: a store is there")
        self._max_age_ms, self._flush_mode = max_age_s * 1000, flush_mode
        disk, self._clock = disk or RealDisk(), clock or SystemClock()
        self._lock, self._sync_lock = threading.Lock(), threading.Lock()
        """The second one is taken first, where both are."""
        self._seen: OrderedDict[bytes, int] = OrderedDict()
        """Digest -> when it was noted, the oldest first."""
        self._in_progress: set[bytes] = set()
        self._last_ms = self._appended = self._synced = 0
        """The latest time; notes ever appended, and how many of them are durable."""
        self._has_warned = self._closed = self._forked = False
        disk.make_folder(self._folder)
        self._writer_lock = StoreLock.acquire(self._folder)
        try:
            self._file = SeenFile(disk, self._folder)
            for note in self._file.read():
                self._take(note)
            self._rewrite()
        except BaseException:
            self._writer_lock.release()
            raise
        watch_fork(self)

    @contextmanager
    def once(self, id: str | bytes) -> Iterator[bool]:
        """Yields whether the effect of `id` is to be done; notes the id when the block ends without an exception.

        At least once: a process that dies between the effect and the note does the effect again.
        """
        digest = _digest(id)
        is_first = self._begin(digest)
        try:
            yield is_first
            if is_first:
                self._note(SEEN, digest)
        finally:
            if is_first:
                self._in_progress.discard(digest)

    def first_time(self, id: str | bytes) -> bool:
        """Notes `id`, and returns whether it was new: the effect comes after the note.

        At most once: a process that dies between the note and the effect never does it. `forget` an id whose effect
        failed.
        """
        with self.once(id) as is_first:
            return is_first

    def forget(self, id: str | bytes) -> bool:
        """Takes a note back, as durably as it was made: the id is new. Returns whether there was one."""
        digest = _digest(id)
        is_new = self._begin(digest)
        if is_new:
            self._in_progress.discard(digest)
        else:
            self._note(FORGOTTEN, digest)
        return not is_new

    def __contains__(self, id: str | bytes) -> bool:
        """Whether `id` was noted and has not left the window."""
        digest = _digest(id)
        with self._lock:
            self._refresh()
            return digest in self._seen and digest not in self._in_progress

    def __len__(self) -> int:
        """How many ids are in the window."""
        with self._lock:
            self._refresh()
            return len(self._seen)

    def flush(self) -> None:
        """Returns once every note so far is durable."""
        with self._lock:
            self._refresh()
            appended = self._appended
        self._sync(appended)

    def close(self) -> None:
        """Makes every note durable, and lets others open the folder. Calling it twice is fine. Raises SyncFailedError:
        the window is closed then, too."""
        with self._sync_lock, self._lock:
            if self._closed or self._forked:
                return
            self._closed = True
            try:
                if self._file.failure is None:
                    self._file.sync()
            finally:
                self._file.close()
                self._writer_lock.release()

    def mark_forked(self) -> None:
        """Called in a forked child: the parent keeps its window."""
        self._forked = True
        self._lock, self._sync_lock = threading.Lock(), threading.Lock()  # another thread may have held them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DeduplicationWindow({str(self._folder)!r})"

    def _refresh(self) -> None:
        """Raise if the window is of no use; let go of ids that have left it."""
        if self._forked:
            raise ForkedStoreError(f"{self._folder}: this window was opened before a fork: only the parent may use it")
        if self._closed:
            raise StoreClosedError(f"{self._folder}: the window was closed; open it again")
        if self._file.failure is not None:
            raise StorePoisonedError(self._file.path, self._file.failure)
        self._last_ms = max(self._last_ms, self._clock.now_ms())
        while self._seen and not self._is_young(next(iter(self._seen.values()))):
            self._seen.popitem(last=False)

    def _begin(self, digest: bytes) -> bool:
        """Whether the id is new; from then on it is in progress."""
        with self._lock:
            self._refresh()
            if digest in self._in_progress:
                raise EffectInProgressError(
                    f"{self._folder}: this id is in progress; do not acknowledge the message: it comes again"
                )
            is_new = digest not in self._seen
            if is_new:
                self._in_progress.add(digest)
            return is_new

    def _note(self, kind: int, digest: bytes) -> None:
        if self._is_full():
            with self._sync_lock, self._lock:
                if self._is_full():
                    self._rewrite()
        with self._lock:
            self._refresh()
            note = Note(kind, self._last_ms, digest)
            self._file.append(note)
            self._take(note)
            self._appended += 1
            appended = self._appended
        if self._flush_mode is FlushMode.SYNC:
            self._sync(appended)

    def _take(self, note: Note) -> None:
        self._last_ms = max(self._last_ms, note.time_ms)
        self._seen.pop(note.digest, None)
        if note.kind == SEEN:
            self._seen[note.digest] = note.time_ms
        if len(self._seen) > self._max_count:
            _, time_ms = self._seen.popitem(last=False)
            if self._is_young(time_ms) and not self._has_warned:
                self._has_warned = True
                path = str(self._folder)
                log.warning(
                    "%s: ids leave by max_count=%d before max_age_s", path, self._max_count, extra={"path": path}
                )

    def _is_young(self, time_ms: int) -> bool:
        return self._last_ms - time_ms < self._max_age_ms

    def _is_full(self) -> bool:
        return self._file.count >= 2 * self._max_count + SLACK

    def _rewrite(self) -> None:
        self._refresh()
        self._file.rewrite(Note(SEEN, time_ms, digest) for digest, time_ms in self._seen.items())
        self._synced = self._appended

    def _sync(self, appended: int) -> None:
        """One sync serves all that wait for it."""
        with self._sync_lock:
            if self._synced < appended:
                with self._lock:
                    self._refresh()
                    appended = self._appended
                self._file.sync()
                self._synced = appended


def _digest(id: str | bytes) -> bytes:
    if not isinstance(id, (str, bytes)):
        raise WrongTypeError("id", id, "an id as text or bytes")
    if not id:
        raise InvalidArgumentError("id", id, "an id as text or bytes, not empty")
    return digest_of(id.encode(errors="surrogatepass") if isinstance(id, str) else id)
