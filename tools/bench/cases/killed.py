"""Opening a store whose writer was killed: the case `recover`, of this store and of RocketMQ's own.

Each opens what a writer of its own left, which was killed as soon as the last message was put: as much of it is synced,
dispatched and noted in the checkpoint as its settings, the defaults, had brought about by then. What is opened is a
copy that the disk has taken already, so neither waits for bytes that its writer left in the page cache alone.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....engine.message_store import MessageStore, open_store
from ....store.message import Message
from ....store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ..rocketmq import RocketmqProcess
from .case import Work
from .workloads import BATCH, QUEUES, SEED, SEGMENT_SIZE, TOPIC, record_size

COPIED_SIZE = 4 << 20
READ_COUNT = 32
"""Messages a call: RocketMQ's own limit."""


def settings_of(body_size: int, count: int) -> StoreSettings:
    """The defaults; but a store that does not fill one segment of that size would be measured for its hole."""
    is_large = count * record_size(body_size) >= DEFAULT_SEGMENT_SIZE
    segment_size = DEFAULT_SEGMENT_SIZE if is_large else SEGMENT_SIZE
    return StoreSettings(segment_size=segment_size, queue_file_entries=DEFAULT_QUEUE_FILE_ENTRIES)


@contextmanager
def recover(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    """Open it for writing: everything is found, checked as far as it may be damaged, dispatched, and durable."""
    opened_stores: list[MessageStore] = []
    settings = settings_of(body_size, count)
    with copied(killed_store(folder, body_size, count)) as path:
        try:
            yield lambda: opened_stores.append(open_store(path, settings))
            for store in opened_stores:
                found = sum(end for _, end in store.queues().values())
                if found != count:
                    raise RuntimeError(f"recovered {found} messages, expected {count}")
        finally:
            for store in opened_stores:
                store.close()


@contextmanager
def recover_rocketmq(process: RocketmqProcess, folder: Path, body_size: int, count: int) -> Iterator[Work]:
    """load() and start() until everything is dispatched."""
    settings = settings_of(body_size, count)
    with copied(_killed_rocketmq(process, folder, body_size, count)) as store:
        yield lambda: process.open(store, settings)
        found = process.read(READ_COUNT)
        if found != count:
            raise RuntimeError(f"RocketMQ recovered {found} messages, expected {count}")
        process.close()


@contextmanager
def copied(store: Path) -> Iterator[Path]:
    """A copy beside a store, holes and all, which is on the disk already and gone afterwards."""
    path = store.with_name("copy")
    shutil.copytree(store, path, copy_function=_copy)
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
        os.fsync(new.fileno())  # else whoever opens it would wait for the disk to take the copy


def killed_store(folder: Path, body_size: int, count: int) -> Path:
    """What a killed writer of `count` messages left, made at the first call."""
    path = folder / f"killed-{body_size}-{count}"
    if path.exists():
        return path
    command = [sys.executable, "-P", "-m", __name__, str(path), str(body_size), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        told = writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    if told != b"put\n":
        raise RuntimeError(f"the writer that was to be killed said {told!r}")
    return path


def _killed_rocketmq(process: RocketmqProcess, folder: Path, body_size: int, count: int) -> Path:
    path = folder / f"killed-rocketmq-{body_size}-{count}"
    if not path.exists():
        home = folder / "killed-writer"
        home.mkdir()
        with RocketmqProcess(process.jars, home, 0) as writer:
            writer.fill(path, settings_of(body_size, count), body_size, count)
            writer.kill()
        shutil.rmtree(home)
    return path


def _put_and_wait_for_the_kill(path: Path, body_size: int, count: int) -> None:
    body = random.Random(SEED).randbytes(body_size)
    store = open_store(path, settings_of(body_size, count))
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        store.put_many([Message(TOPIC, body, tags="tag", keys=f"key-{i:08d}", queue_id=i % QUEUES) for i in numbers])
    print("put", flush=True)
    sys.stdin.read()
    store.close()


if __name__ == "__main__":
    _put_and_wait_for_the_kill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
