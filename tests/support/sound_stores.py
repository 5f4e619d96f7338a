"""Small stores of ours to be damaged: every kind of file is in them, several of each, and every kind of record.

As a program, `sound_stores.py ARCHIVE` writes tests/fuzz/stores.tar.xz anew: `closed` after a clean close, `killed` as
a SIGKILL left it. Cases of tests/fuzz/test_stores.py follow from its bytes, and store times are in them, so a new
archive means other cases.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.store.format.compression import CompressionType
from flightlog.tests.support import inside

KEYS = ("Aa", "BB", "k1", "k2", "k3")
TOPICS = ("orders", "payments", "täg")
BATCHES = "batches"
LIGHT = "%LMQ%a"
SETTINGS = StoreSettings(
    rocketmq_strict=False,
    segment_size=4096,
    queue_file_entries=10,
    index_slots=10,
    index_entries=40,
    queue_extension=True,
    queue_extension_file_size=256,
    multi_dispatch=True,
    flush_interval_ms=3_600_000,
    allocate_step_size=4096,
)


def message(number: int) -> Message:
    """Message `number`: every seventeenth is prepared, every ninth compressed, every fifth stands in a light queue."""
    return Message(
        TOPICS[number % 3],
        b"%05d " % number + bytes([number % 251]) * (number * 37 % 150),
        tags=("A", "B", None)[number % 3],
        keys=(KEYS[number % 5], f"n{number}"),
        uniq_key=f"U{number:05d}",
        properties={"INNER_MULTI_DISPATCH": LIGHT} if number % 5 == 0 else None,
        queue_id=number % 2,
        sys_flag=4 if number % 17 == 16 else 0,
        born_host=("2001:db8::1", 4711) if number % 7 == 0 else None,
        compress=CompressionType.ZLIB if number % 9 == 8 else None,
    )


def fill(store: Store, count: int) -> None:
    for number in range(count):
        store.put(message(number))
        if number % 20 == 19:
            store.put_batch([Message(BATCHES, b"%d in %d" % (i, number), keys=f"b{number}") for i in range(3)])
        if number == count // 2:
            store.create_topic("to-go")
            store.put(Message("to-go", b"its topic is deleted", keys="Aa"))
            store.delete_topic("to-go")


def make(folder: Path) -> None:
    """`closed` and `killed` in this folder."""
    with flightlog.open(folder / "closed", SETTINGS) as store:
        fill(store, 90)
    with flightlog.open(folder / "live", SETTINGS) as store:
        fill(store, 60)
        inside.maintenance(store).flush_queues()
        store.put_many([message(number) for number in range(60, 75)])
        store.flush()
        store.queues()
        store.put_many([message(number) for number in range(75, 90)])
        shutil.copytree(folder / "live", folder / "killed", ignore=shutil.ignore_patterns("lock"))
        (folder / "killed" / "lock").write_bytes(b"lock")
    shutil.rmtree(folder / "live")


def main() -> None:
    with tempfile.TemporaryDirectory() as made, tarfile.open(sys.argv[1], "w:xz") as archive:
        make(Path(made))
        for name in ("closed", "killed"):
            archive.add(Path(made) / name, name)


if __name__ == "__main__":
    main()
