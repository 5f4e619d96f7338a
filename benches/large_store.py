"""A store of many GiB: verify beside the read bandwidth of the same bytes, and a backup of one more sealed segment.

    python -P benches/large_store.py FOLDER [--gib 10] [--body 1000]

It makes FOLDER/store and FOLDER/backup, two and a half times GIB of disk together, and removes both. Each speed is
measured cold (the pages of the store's files are given back to the system first) and warm (right after), in turns in
one run, with the CPU time of this process and the load of the machine, because other programs share both.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import flightlog
from flightlog import Message, StoreSettings

PIECE_SIZE = 4 << 20
BATCH = 2_000
QUEUES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=int, default=10, help="size of the log")
    parser.add_argument("--body", type=int, default=1_000, help="bytes of each body")
    arguments = parser.parse_args()
    store, copy = arguments.folder / "store", arguments.folder / "backup"
    try:
        measure(store, copy, arguments.gib << 30, arguments.body)
    finally:
        for path in (store, copy):
            shutil.rmtree(path, ignore_errors=True)


def measure(store: Path, copy: Path, size: int, body_size: int, settings: StoreSettings | None = None) -> None:
    """Print a line for each step. Raises AssertionError if a backup copied more than it had to."""
    timed("filled", size, lambda: fill(store, size, body_size, settings))
    with flightlog.open_read_only(store) as view:
        log_size = view.end_physical_offset
    for heat in ("cold", "warm"):
        if heat == "cold":
            give_back(store)
        read = timed(f"read, {heat}", log_size, lambda: read_log(store / "commitlog", log_size))
        if heat == "cold":
            give_back(store)
        verified = timed(f"verify, {heat}", log_size, lambda: verify(store))
        print(f"verify, {heat}: {read / verified:.2f} of the read bandwidth", flush=True)
    timed("first backup", log_size, lambda: flightlog.backup(store, copy))
    segment = sorted((store / "commitlog").iterdir())[0].stat().st_size
    fill(store, segment, body_size, settings)
    begun_s = time.monotonic()
    again = flightlog.backup(store, copy)
    written = f"{again.copied_size / 2**20:,.0f} MiB in {again.segment_count} segments"
    print(f"backup of {segment >> 20:,} MiB more: {written}, {time.monotonic() - begun_s:.1f} s", flush=True)
    assert again.segment_count <= 2, "the segment that was filled, and the one that was begun"


def fill(store: Path, size: int, body_size: int, settings: StoreSettings | None) -> None:
    """Put messages until the log is `size` bytes longer."""
    messages = [
        Message("orders", os.urandom(body_size // 2).hex().encode(), tags="paid", keys=f"k{n}", queue_id=n % QUEUES)
        for n in range(BATCH)
    ]
    with flightlog.open(store, settings) as opened:
        first = opened.put_many(messages)[0].physical_offset
        while opened.put_many(messages)[-1].physical_offset < first + size:
            pass


def timed(name: str, size: int, step: Callable[[], object]) -> float:
    """Run a step, print its bandwidth, and return the seconds that it took."""
    begun_s, cpu_s = time.monotonic(), time.process_time()
    step()
    passed_s, cpu_s = time.monotonic() - begun_s, time.process_time() - cpu_s
    speed = f"{size / passed_s / 2**20:,.0f} MiB/s, {passed_s:.1f} s, of CPU {cpu_s:.1f} s"
    print(f"{name}: {size / 2**30:.2f} GiB at {speed}, load {os.getloadavg()[0]:.1f}", flush=True)
    return passed_s


def read_log(folder: Path, size: int) -> None:
    """Read these bytes of the log once, as a program that only reads would."""
    buffer, left = memoryview(bytearray(PIECE_SIZE)), size
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while left and (count := file.readinto(buffer[:left])):
                left -= count


def give_back(store: Path) -> None:
    """Have the system forget the pages of the store's files."""
    for path in store.rglob("*"):
        if path.is_file() and path.name != "lock":  # closing a descriptor of `lock` would drop a lock
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def verify(store: Path) -> None:
    with flightlog.open_read_only(store) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


if __name__ == "__main__":
    main()
