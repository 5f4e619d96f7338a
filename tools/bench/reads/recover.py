"""Opening a store whose writer was killed: of this store's and of RocketMQ's own.

Each opens what a writer of its own left, which was killed as soon as the last message was put: as much of it is synced,
dispatched and noted in the checkpoint as its settings, the defaults, had brought about by then. What is opened is a
copy that the disk has taken already, so neither waits for bytes that its writer left in the page cache alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ....engine.message_store import MessageStore, open_store
from ....store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ..case import Case, Work
from ..messages import SEGMENT_SIZE, make_rows, parts, record_size

RECOVER = "recover"
COPIED_SIZE = 4 << 20
PUT = b"put\n"


def settings_of(body_size: int, count: int) -> StoreSettings:
    """The defaults; but a store that does not fill one segment of that size would be measured for its hole."""
    is_large = count * record_size(body_size) >= DEFAULT_SEGMENT_SIZE
    segment_size = DEFAULT_SEGMENT_SIZE if is_large else SEGMENT_SIZE
    return StoreSettings(segment_size=segment_size, queue_file_entries=DEFAULT_QUEUE_FILE_ENTRIES)


@contextmanager
def recovering(case: Case, folder: Path) -> Iterator[Work]:
    """Open it for writing: everything is found, checked as far as it may be damaged, dispatched, and durable."""
    opened_stores: list[MessageStore] = []
    settings = settings_of(case.body_size, case.count)
    killed = killed_store(folder / f"killed-{case.body_size}-{case.count}", case)
    with copied(killed) as path:
        try:
            yield lambda stamps: opened_stores.append(open_store(path, settings))
            for store in opened_stores:
                found = sum(end for _, end in store.queues().values())
                if found != case.count:
                    raise RuntimeError(f"recovered {found} messages, expected {case.count}")
        finally:
            for store in opened_stores:
                store.close()


@contextmanager
def copied(store: Path) -> Iterator[Path]:
    """A copy beside a store, holes and all, which is on the disk already and gone afterwards."""
    path = store.with_name("copy")
    copy: Callable[[str, str], None] = _copy
    shutil.copytree(store, path, copy_function=copy)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _copy(source: str, to: str) -> None:
    with open(source, "rb") as old, open(to, "wb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        at = 0
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # the rest is a hole
            stop = os.lseek(old.fileno(), at, os.SEEK_HOLE)
            while at < stop:
                piece = os.pread(old.fileno(), min(COPIED_SIZE, stop - at), at)
                at += os.pwrite(new.fileno(), piece, at)
        os.fsync(new.fileno())  # else whatever opens it would wait for the disk to take the copy


def killed_store(path: Path, case: Case) -> Path:
    """What a killed writer of the case's messages left, made at the first call."""
    if not path.exists():
        command = [sys.executable, "-P", "-m", __name__, str(path), str(case.body_size), str(case.count)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            answer = writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
        if answer != PUT:
            raise RuntimeError(f"the writer that was to be killed said {answer!r}")
    return path


def _put_and_wait_for_the_kill(path: Path, body_size: int, count: int) -> None:
    rows = make_rows(body_size, count)
    with open_store(path, settings_of(body_size, count)) as store:
        for numbers in parts(range(count)):
            store.put_many([rows[i % len(rows)].message() for i in numbers])
        sys.stdout.buffer.write(PUT)
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    _put_and_wait_for_the_kill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
