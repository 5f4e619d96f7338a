"""Writers of a soak: a program that forks one writer after the other, each of which ends as its order says.

Started with the place where the store lies; every line of its input is an order, as JSON (see episodes.py). What the
writer says comes back line by line, see mix.py. `{"ending": …}` is said before its end comes, with the time by the
monotonic clock, which all processes share; `{"end": …}` when it has ended, with its exit code.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import flightlog
from flightlog.store.errors import DiskError, StorePoisonedError
from flightlog.store.segments.segment import AppendSegment
from flightlog.tests.soak.mix import BATCHES, CLEAN_BATCH_COUNT, OF_BATCHES, Mix
from flightlog.tests.support.cut_fate import Fate, FatedDisk
from flightlog.tests.support.cut_work import say

THREADS = 4
GEOMETRY: dict[str, Any] = {
    "segment_size": 256 << 10,
    "queue_file_entries": 200,
    "index_slots": 200,
    "index_entries": 800,
}


class ToldFate(Fate):
    """Says that it comes before it does."""

    def come(self) -> None:
        say({"ending": time.monotonic()})
        super().come()

    def come_later(self, delay_s: float) -> None:
        def run() -> None:
            time.sleep(delay_s)
            self.come()

        threading.Thread(target=run, daemon=True).start()


def settings_of(order: dict[str, Any]) -> flightlog.StoreSettings:
    return flightlog.StoreSettings(
        **GEOMETRY,
        flush_mode=flightlog.FlushMode[order["mode"]],
        flush_interval_ms=order["flush_interval_ms"],
        queue_flush_interval_ms=2 * order["flush_interval_ms"],
        index_flush_interval_ms=3 * order["flush_interval_ms"],
        append_crc_property=order["crc_property"],
        allocate_step_size=64 << 10,
        prepare_ahead_size=order["prepare_ahead_size"],
        sync_flush_timeout_ms=120_000,
        clean_batch_count=CLEAN_BATCH_COUNT,
        accept_future_store_time=True,
    )


def write(place: Path, order: dict[str, Any], fate: ToldFate) -> None:
    if order["lies"]:
        setattr(AppendSegment, "sync", lambda segment, *part: None)  # noqa: B010 - mypy refuses the plain assignment
    try:
        store = flightlog.open(place / "store", settings_of(order), disk=FatedDisk(fate))
        if store.topic(BATCHES) is None:
            store.create_topic(BATCHES, 1, attributes=OF_BATCHES)
    except DiskError as e:
        if not fate.is_coming:
            say({"wrong": f"opening: {e!r}"})
        return
    if not fate.is_coming:
        say({"opened": time.monotonic()})
    fate.phase = ""
    if order["end"] != "close" and not order["site"] and not order["full"]:
        fate.come_later(order["delay_ms"] / 1000)
    threads = [threading.Thread(target=Mix(store, order, i, fate).run, daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fate.phase = "close"
    try:
        store.close()
    except (DiskError, StorePoisonedError) as e:
        if not fate.is_coming:
            say({"wrong": f"closing: {e!r}"})


def main(place: Path) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                say({"pid": os.getpid()})
                fate = ToldFate(order, os.open(place, os.O_RDONLY))
                write(place, order, fate)
                say({"came": fate.is_coming})
                os._exit(0)
            except BaseException as e:
                logging.exception("the writer of %s", order)
                say({"wrong": repr(e)[:2000]})
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        say({"end": os.waitstatus_to_exitcode(status)})
