"""Writers whose power is cut: a program that forks one writer after the other on a mounted file system.

Started once with the place where the file system is mounted. Every line of its input is an order, as JSON:

    {"round": 7, "mode": "SYNC", "site": "roll", "nth": 2, "after": true, "end": "cut", "seed": 1, …}
    {"round": 8, "mode": "ASYNC", "site": "", "delay_ms": 30, "end": "kill", "seed": 2, …}

A writer meets its end at its n-th visit of one site, before or after what is done there, or, where no site is named,
after a time. `cut` shuts the file system down in the writer's own thread (nothing of its journal is written from then
on, every later sync fails), and the writer goes on until all its calls have failed; `kill` is a SIGKILL.

The answer is a line for every message that has to be there afterwards: under sync flush once its put has returned,
under async flush once a later `flush()` has. Then `{"came": false}` if the writer had done all its puts before its end
came, and at last `{"end": …}`. A line is one write to a pipe, so the
kernel keeps it whole whatever happens to its writer.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flightlog
from flightlog.store.disk import RealDisk, RealFile
from flightlog.store.errors import DiskError, StorePoisonedError
from flightlog.store.segment import AppendSegment

SHUT_DOWN = 0x8004587D
"""ext4's ioctl of this name (linux/fs.h: EXT4_IOC_SHUTDOWN)."""
WITHOUT_THE_JOURNAL = (2).to_bytes(4, "little")
THREADS = 3
PUTS_A_THREAD = 500


def cut_power(mounted: int) -> None:
    """Nothing that is not on the disk by now will ever be."""
    fcntl.ioctl(mounted, SHUT_DOWN, WITHOUT_THE_JOURNAL)


def site_of(path: Path) -> str:
    """What a change at this path is part of."""
    folder, name = path.parent.name, path.name
    if "commitlog" in (folder, name):
        return "log"
    if "consumequeue" in path.parts:
        return "queue"
    if "index" in (folder, name):
        return "index"
    if folder == "flightlog" and name == "progress":
        return "progress"
    if "flightlog" in (folder, name):
        return "seal"
    return name if name in ("checkpoint", "abort") else "other"


class Fate:
    """Ends the writer at the n-th visit of one site."""

    def __init__(self, order: dict[str, Any], mounted: int) -> None:
        self._site, self._left, self._after = order["site"], order.get("nth", 0), order.get("after", False)
        self._kills, self._mounted = order["end"] == "kill", mounted
        self._lock = threading.Lock()
        self.phase = "boot"
        """Also a site: every change while the store is opened, or closed."""
        self.is_coming = self.has_come = False

    @contextmanager
    def visit(self, site: str) -> Iterator[None]:
        comes = self._comes(site)
        if comes and not self._after:
            self.come()
        yield
        if comes and self._after:
            self.come()

    def _comes(self, site: str) -> bool:
        if not self._site or self._site not in (site, self.phase):
            return False
        with self._lock:
            self._left -= 1
            return bool(self._left == 0)

    def come(self) -> None:
        self.is_coming = True
        if self._kills:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal has been sent; nothing may happen behind it
        cut_power(self._mounted)
        self.has_come = True


class FatedFile(RealFile):
    def __init__(self, fate: Fate, file: RealFile, writable: bool) -> None:
        super().__init__(file.path, os.dup(file._descriptor), writable)
        file.close()
        self._fate, self._site = fate, site_of(file.path)

    def write(self, position: int, data: bytes | memoryview) -> None:
        with self._fate.visit(self._site):
            super().write(position, data)

    def resize(self, size: int) -> None:
        with self._fate.visit("roll" if self._site == "log" else self._site):
            super().resize(size)

    def allocate(self, position: int, size: int) -> None:
        with self._fate.visit("allocate"):
            super().allocate(position, size)

    def sync(self) -> None:
        with self._fate.visit("sync" if self._site == "log" else self._site):
            super().sync()


class FatedDisk(RealDisk):
    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if not writable:
            return super().open(path)
        if not create or path.exists():
            return FatedFile(self._fate, super().open(path, writable=True, create=create), writable)
        site = site_of(path)
        with self._fate.visit("roll" if site == "log" else site):
            return FatedFile(self._fate, super().open(path, writable=True, create=True), writable)

    def sync_folder(self, path: Path) -> None:
        site = site_of(path)
        with self._fate.visit("roll" if site == "log" else site):
            super().sync_folder(path)

    def rename(self, old: Path, new: Path) -> None:
        with self._fate.visit("rename"):
            super().rename(old, new)

    def remove(self, path: Path) -> None:
        with self._fate.visit("remove"):
            super().remove(path)


def say(line: dict[str, Any]) -> None:
    raw = json.dumps(line).encode() + b"\n"
    assert os.write(1, raw) == len(raw) <= 4096


class Writer:
    """One thread of puts. Every message names its round, thread and number, and ends with a digest of itself."""

    def __init__(self, store: flightlog.MessageStore, order: dict[str, Any], thread: int, fate: Fate) -> None:
        self._store, self._order, self._thread, self._fate = store, order, thread, fate
        self._dice = random.Random(order["seed"] * 10 + thread)
        self._is_sync = order["mode"] == "SYNC"
        self._unsaid: list[dict[str, Any]] = []
        self._futures: list[tuple[flightlog.Message, Future[flightlog.PutResult]]] = []
        self._number = 0
        self._began_after = False

    def run(self) -> None:
        try:
            while self._number < PUTS_A_THREAD:
                self._put_some()
        except (DiskError, StorePoisonedError) as e:
            if not self._fate.is_coming and self._order["site"]:
                say({"wrong": f"before the power was cut: {e!r}"})
        except BaseException as e:
            say({"wrong": repr(e)[:2000]})

    def _message(self) -> flightlog.Message:
        dice = self._dice
        topic, queue_id = ("shared", dice.randrange(3)) if dice.random() < 0.5 else (f"own-{self._thread}", 0)
        body = f"{self._order['round']} {self._thread} {self._number} ".encode() + dice.randbytes(dice.randrange(700))
        self._number += 1
        body += hashlib.sha1(body).digest()
        return flightlog.Message(
            topic, body, queue_id=queue_id, keys=f"k{self._number}", tags="t", wait_store_ok=dice.random() < 0.9
        )

    def _put_some(self) -> None:
        """One put, one put of many, or some futures."""
        self._began_after = self._fate.has_come
        choice = self._dice.random()
        if choice < 0.6:
            message = self._message()
            self._note([message], [self._store.put(message)])
        elif choice < 0.85:
            messages = [self._message() for _ in range(self._dice.choice((2, 8, 40)))]
            self._note(messages, self._store.put_many(messages))
        else:
            futures = [(message, self._store.put_async(message)) for message in (self._message(), self._message())]
            for message, future in futures:
                self._note([message], [future.result()])
        if self._dice.random() < 0.05:
            self._flush()
        if self._dice.random() < 0.01:
            self._store.clean_up(retention_hours=0)

    def _note(self, messages: list[flightlog.Message], results: list[flightlog.PutResult]) -> None:
        must_be_there = self._is_sync and any(message.wait_store_ok for message in messages)
        if self._comes_too_late():
            return
        for message, result in zip(messages, results, strict=True):
            where = [result.topic, result.queue_id, result.queue_offset, result.physical_offset]
            line = {"where": where, "sha1": hashlib.sha1(message.body).hexdigest()}
            if result.status is not flightlog.PutStatus.PUT_OK:
                say({"wrong": f"{result}"})
            elif must_be_there:
                say(line)
            else:
                self._unsaid.append(line)

    def _comes_too_late(self) -> bool:
        """An acknowledgement while the file system goes down says nothing: for 0.1 s, ext4 lets a sync that is under
        way end well although what it wrote stays an unwritten extent. One that began later must keep its word."""
        return self._fate.is_coming and not self._began_after

    def _flush(self) -> None:
        self._began_after = self._fate.has_come
        self._store.flush()
        if self._comes_too_late():
            return
        for line in self._unsaid:
            say(line)
        self._unsaid.clear()


def write(place: Path, order: dict[str, Any], fate: Fate) -> None:
    if order["lies"]:
        setattr(AppendSegment, "sync", lambda segment: None)  # noqa: B010 - mypy refuses the plain assignment
    settings = flightlog.StoreSettings(
        **order["geometry"],
        flush_mode=flightlog.FlushMode[order["mode"]],
        flush_interval_ms=5,
        queue_flush_interval_ms=10,
        index_flush_interval_ms=15,
        allocate_step_size=16 << 10,
        accept_future_store_time=True,
    )
    if not order["site"]:
        _later(order["delay_ms"] / 1000, fate.come)
    try:
        store = flightlog.open(place / "store", settings, disk=FatedDisk(fate))
    except DiskError as e:
        if not fate.is_coming:
            say({"wrong": f"opening: {e!r}"})
        return
    say({"opened": len(store.recovery_report.log_lines())})
    fate.phase = ""
    writers = [Writer(store, order, i, fate) for i in range(THREADS)]
    if order["site"] == "close":
        for writer in writers:
            for _ in range(20):
                writer._put_some()
        fate.phase = "close"
    else:
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    try:
        store.close()
    except (DiskError, StorePoisonedError) as e:
        if not fate.is_coming:
            say({"wrong": f"closing: {e!r}"})


def _later(delay_s: float, do: Callable[[], None]) -> None:
    def run() -> None:
        time.sleep(delay_s)
        do()

    threading.Thread(target=run, daemon=True).start()


def main() -> None:
    place = Path(sys.argv[1])
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                fate = Fate(order, os.open(place, os.O_RDONLY))
                write(place, order, fate)
                say({"came": fate.is_coming})
                os._exit(0)
            except BaseException as e:
                say({"wrong": repr(e)[:2000]})
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        say({"end": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
