"""Opens a store whose writer was killed: this store's own, and RocketMQ's.

Each opens a store that its own writer left when it was killed right after the last put, at default settings: the usual
part of it is synced, dispatched and covered by the checkpoint. The opened store is a copy that was synced to disk, so
neither waits for bytes that the writer left only in the page cache.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....engine.message_store import MessageStore, open_store
from ....store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ..case import Case, Work
from ..messages import SEGMENT_SIZE, make_rows, parts, record_size

RECOVER = "recover"
PUT = b"put\n"


def settings_of(body_size: int, count: int) -> StoreSettings:
    """The defaults, with smaller segments for a store that does not fill one: its hole would be measured."""
    is_large = count * record_size(body_size) >= DEFAULT_SEGMENT_SIZE
    segment_size = DEFAULT_SEGMENT_SIZE if is_large else SEGMENT_SIZE
    return StoreSettings(segment_size=segment_size, queue_file_entries=DEFAULT_QUEUE_FILE_ENTRIES)


@contextmanager
def recovering(case: Case, folder: Path) -> Iterator[Work]:
    """Open the store for writing: recovery checks what may be damaged, dispatches everything and makes it durable."""
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
    """A sparse copy beside a store, synced to disk, removed afterwards."""
    path = store.with_name("copy")
    try:
        subprocess.run(["cp", "-r", "--sparse=always", "--reflink=never", str(store), str(path)], check=True)
        os.sync()  # else opening it would wait for the copy to reach the disk
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def killed_store(path: Path, case: Case) -> Path:
    """The store that a killed writer of the case's messages left, written at the first call."""
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
