"""One life of a store with very many queues, in a process of its own: `many_queues.py STEP FOLDER COUNT`.

    build   make the store, one message a queue, and a few more in some of them; close it
    open    open it for writing, look at its queues, put one message in each of the first thousand; close it
    kill    the same, but let go of it as a killed process does
    view    open it read-only and look at its queues

What it costs is printed as one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.support import inside
from flightlog.tools.counting_disk import CountingDisk

QUEUES_A_TOPIC = 8
BATCH = 1000
TOUCHED = 1000
NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=256 << 20,
    index_slots=1000,
    index_entries=400_000,
    allocate_step_size=1 << 20,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
)


class Costs:
    """The most that was seen at any look."""

    def __init__(self) -> None:
        self.descriptors = self.mappings = 0
        self.look()

    def look(self) -> None:
        self.descriptors = max(self.descriptors, len(os.listdir("/proc/self/fd")))
        with open("/proc/self/maps") as maps:
            self.mappings = max(self.mappings, sum(1 for _ in maps))

    @property
    def memory(self) -> int:
        """Bytes, at the highest."""
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


class OpenCountingDisk(CountingDisk):
    """Counts what is opened, too."""

    def __init__(self, *, may_write: bool) -> None:
        super().__init__(may_write=may_write)
        self.opened = 0

    def open(self, path: Path, *, writable: bool = False, create: bool = False):  # type: ignore[no-untyped-def]
        self.opened += 1
        return super().open(path, writable=writable, create=create)


def message(number: int) -> Message:
    return Message(f"topic-{number // QUEUES_A_TOPIC:05d}", b"%d" % number, queue_id=number % QUEUES_A_TOPIC)


def put(store: flightlog.Store, count: int, costs: Costs) -> None:
    for start in range(0, count, BATCH):
        store.put_many([message(number) for number in range(start, min(start + BATCH, count))])
        inside.maintenance(store).catch_up()
        costs.look()


def main() -> None:
    step, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    costs = Costs()
    disk = OpenCountingDisk(may_write=step != "view")
    started_s = time.perf_counter()
    store = flightlog.open_read_only(path, disk=disk) if step == "view" else flightlog.open(path, SETTINGS, disk=disk)
    open_s, opened, asked = time.perf_counter() - started_s, disk.opened, disk.read_size
    costs.look()
    if isinstance(store, flightlog.Store):
        if step == "build":
            put(store, count, costs)
        put(store, min(count, TOUCHED), costs)
    queues = store.queues()
    first = next(store.read("topic-00000", 0)).body
    costs.look()
    if step == "kill":
        assert isinstance(store, flightlog.Store)
        inside.maintenance(store).poison(InterruptedError("killed"))
    report = store.report if isinstance(store, flightlog.ReadOnlyStore) else store.recovery_report
    store.close()
    figures = {
        "queues": len(queues),
        "messages": sum(end for _, end in queues.values()),
        "first": first.decode(),
        "scanned": report.records_scanned,
        "open_s": open_s,
        "opened": opened,
        "asked": asked,
        "life_s": time.perf_counter() - started_s,
        "descriptors": costs.descriptors,
        "mappings": costs.mappings,
        "memory": costs.memory,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
