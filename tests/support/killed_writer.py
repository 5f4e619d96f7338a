"""Writers that die: a program that forks one writer after the other and has each killed by SIGKILL at a chosen place.

Started once with the folder of a store and a flush mode. Every line of its input is an order, as JSON:

    {"round": 7, "site": "roll", "nth": 2, "after": true, "seed": 1}     the writer kills itself at its second `roll`
    {"round": 8, "site": "", "delay_ms": 30, "seed": 2}                  it is killed from outside after 30 ms

The answer is a line for every acknowledged message (`put` had returned), then a line `{"end": …}`. A line is one write
to a pipe, so the kernel keeps it whole whatever happens to its writer. Sites:

    batch        between two records of one put_many
    roll         making the next segment: its creation, its length, its name, the sync of its name
    allocate     before or after blocks are allocated
    sync         before or after a segment is synced
    derived      any write to a consume queue, the checkpoint or a seal (half of its bytes are written)
    boot         the n-th operation on the disk while the store is being opened
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flightlog
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import DiskFile, MappedPart, RealDisk, RealFile

THREADS = 4
SEGMENT_SIZE = 64 << 10
SHARED_TOPIC = "shared"
PUTS_A_THREAD = 4000
"""A writer that nobody kills ends by itself, and the test fails."""

SITES = ("", "batch", "roll", "allocate", "sync", "derived", "boot", "put", "wait")
where = mmap.mmap(-1, THREADS + 2)
"""One byte a thread, seen from outside: at which site it is. The last one is for threads of the store itself."""
local = threading.local()


@contextmanager
def at(site: str) -> Iterator[None]:
    """Say where this thread is."""
    slot = getattr(local, "slot", THREADS)
    before = where[slot]
    where[slot] = SITES.index(site)
    try:
        yield
    finally:
        where[slot] = before


class Fate:
    """Kills the process at the n-th visit of one site."""

    def __init__(self, site: str, nth: int, after: bool) -> None:
        self._site, self._left, self.after = site, nth, after
        self._lock = threading.Lock()
        self.is_booting = True

    def strikes(self, site: str, *, after: bool) -> bool:
        if self.is_booting:
            site = "boot"
        if site != self._site or after != self.after:
            return False
        with self._lock:
            self._left -= 1
            return self._left == 0

    def meet(self, site: str, *, after: bool = False) -> None:
        if self.strikes(site, after=after):
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal has been sent; nothing may happen behind it


class DoomedClock(SystemClock):
    """Asked for the time once a record, in the middle of an append."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def now_ms(self) -> int:
        if getattr(local, "in_batch", False):
            local.in_batch_records += 1
            if local.in_batch_records > 1:
                self._fate.meet("batch", after=self._fate.after)
        return super().now_ms()


class DoomedFile(RealFile):
    def __init__(self, fate: Fate, path: Path, descriptor: int, writable: bool) -> None:
        super().__init__(path, descriptor, writable)
        self._fate = fate
        self._is_log = path.parent.name == "commitlog"

    @contextmanager
    def _visit(self, site: str) -> Iterator[None]:
        with at(site):
            self._fate.meet(site)
            yield
            self._fate.meet(site, after=True)

    def write(self, position: int, data: bytes | memoryview) -> None:
        with at("derived"):
            if self._fate.strikes("derived", after=self._fate.after):
                os.pwrite(self.descriptor, data[: len(data) // 2], position)
                die()
            super().write(position, data)

    def resize(self, size: int) -> None:
        with self._visit("roll" if self._is_log else "derived"):
            super().resize(size)

    def allocate(self, position: int, size: int) -> None:
        with self._visit("allocate"):
            super().allocate(position, size)

    def sync(self, part: MappedPart | None = None) -> None:
        with self._visit("sync" if self._is_log else "derived"):
            super().sync(part)


class DoomedDisk(RealDisk):
    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> DoomedFile:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR if writable else os.O_RDONLY, 0o644)
        if create:
            site = "roll" if path.parent.name == "commitlog" else "derived"
            with at(site):
                self._fate.meet(site, after=self._fate.after)
        return DoomedFile(self._fate, path, descriptor, writable)

    def open_unnamed(self, path: Path) -> DoomedFile | None:
        with at("roll"):
            file = super().open_unnamed(path)
            self._fate.meet("roll", after=self._fate.after)
        return None if file is None else DoomedFile(self._fate, path, os.dup(file.descriptor), True)

    def link(self, file: DiskFile) -> None:
        with at("roll"):
            self._fate.meet("roll")
            super().link(file)
            self._fate.meet("roll", after=True)

    def sync_folder(self, path: Path) -> None:
        site = "roll" if path.name == "commitlog" else "derived"
        with at(site):
            self._fate.meet(site)
            super().sync_folder(path)
            self._fate.meet(site, after=True)

    def rename(self, old: Path, new: Path) -> None:
        self._fate.meet("derived")
        super().rename(old, new)
        self._fate.meet("derived", after=True)

    def remove(self, path: Path) -> None:
        self._fate.meet("derived")
        super().remove(path)
        self._fate.meet("derived", after=True)


def say(line: dict[str, Any]) -> None:
    raw = json.dumps(line).encode() + b"\n"
    assert os.write(1, raw) == len(raw) <= 4096


def put_for_ever(store: flightlog.Store, order: dict[str, Any], thread: int) -> None:
    """Every message names its round, thread and number; a thread's numbers rise within every queue."""
    local.slot = thread
    dice = random.Random(order["seed"] * 10 + thread)
    sequence = 0
    while sequence < PUTS_A_THREAD:
        count = dice.choice((1, 1, 1, 8, 40))
        messages = []
        for _ in range(count):
            topic, queue_id = (SHARED_TOPIC, dice.randrange(3)) if dice.random() < 0.5 else (f"own-{thread}", 0)
            body = f"{order['round']} {thread} {sequence} ".encode() + dice.randbytes(dice.randrange(0, 700))
            messages.append(flightlog.Message(topic, body, queue_id=queue_id, keys=f"k{sequence}", tags="t"))
            sequence += 1
        if count == 1:
            with at("put"):
                results = [store.put(messages[0])]
        else:
            local.in_batch, local.in_batch_records = True, 0
            with at("batch"):
                results = store.put_many(messages)
            local.in_batch = False
        for message, result in zip(messages, results, strict=True):
            assert result.status is flightlog.PutStatus.PUT_OK, result
            digest = hashlib.sha1(message.body).hexdigest()
            where_to = [result.topic, result.queue_id, result.queue_offset, result.physical_offset]
            say({"thread": thread, "where": where_to, "sha1": digest})


def write(path: str, mode: str, order: dict[str, Any]) -> None:
    fate = Fate(order["site"], order.get("nth", 0), order.get("after", False))
    settings = flightlog.StoreSettings(
        segment_size=SEGMENT_SIZE,
        queue_file_entries=100,
        flush_mode=flightlog.FlushMode[mode],
        flush_interval_ms=5,
        queue_flush_interval_ms=10,
        sync_flush_timeout_ms=240_000,
        allocate_step_size=16 << 10,
        accept_future_store_time=True,
    )
    with at("boot"):
        store = flightlog.open(path, settings, disk=DoomedDisk(fate), clock=DoomedClock(fate))
    fate.is_booting = False
    say({"opened": store.recovery_report.log_lines()})
    threads = [threading.Thread(target=put_for_ever, args=(store, order, i), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say({"survived": order})


def main() -> None:
    path, mode = sys.argv[1:]
    for line in sys.stdin:
        order = json.loads(line)
        where[:] = bytes(len(where))
        child = os.fork()
        if child == 0:
            try:
                write(path, mode, order)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(1)
        if not order["site"]:
            time.sleep(order["delay_ms"] / 1000)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        inside = sorted({SITES[place] for place in where[:] if place})
        say({"end": os.waitstatus_to_exitcode(status), "inside": inside})


if __name__ == "__main__":
    main()
