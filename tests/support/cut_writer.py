"""Writers whose power is cut: a program that forks one writer after the other on a mounted file system.

Started once with the place where the file system is mounted. Every line of its input is an order, as JSON:

    {"round": 7, "mode": "SYNC", "site": "roll", "nth": 2, "after": true, "end": "cut", "seed": 1, …}
    {"round": 8, "mode": "ASYNC", "site": "", "delay_ms": 30, "end": "kill", "seed": 2, …}

A writer meets its end at its n-th visit of one site, before or after what is done there, or, where no site is named,
after a time. `cut` shuts the file system down in the writer's own thread (nothing of its journal is written from then
on, every later sync fails), and the writer goes on until all its calls have failed; then it is asked whether it is
poisoned. `kill` is a SIGKILL.

The answer is a line for every message that has to be there afterwards: under sync flush once its put has returned,
under async flush once a later `flush()` has. Likewise for topics, before and after each call: what it tries, and that
it is done. Then `{"came": false}` if the writer had done all its work before its end came, and at last
`{"end": …}`. A line is one write to a pipe, so the kernel keeps it whole whatever happens to its writer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flightlog
from flightlog.store.errors import DiskError, StorePoisonedError
from flightlog.store.segments import segment
from flightlog.store.segments.segment import AppendSegment
from flightlog.tests.support import cut_fate, cut_later, cut_work
from flightlog.tests.support.clocks import ClockAhead
from flightlog.tests.support.cut_fate import Fate

fates, work = cut_fate, cut_work

PUTTERS = 3
MESSAGES_A_PUTTER = 200
TURNS_OF_THE_STEWARD = 12
TURNS_OF_A_CLOSE = 20
"""Turns that each thread has before the store is closed."""


def write(place: Path, order: dict[str, Any], fate: Fate) -> None:
    if order["lies"]:
        setattr(AppendSegment, "sync", lambda segment, *part: None)  # noqa: B010 - mypy refuses the plain assignment
    if order["prepare_ahead_size"]:
        segment.PART_SIZE = 1  # else no sync here is of so much that what is prepared is left out
    settings = flightlog.StoreSettings(
        **order["geometry"],
        flush_mode=flightlog.FlushMode[order["mode"]],
        flush_interval_ms=5,
        queue_flush_interval_ms=10,
        index_flush_interval_ms=15,
        sync_flush_timeout_ms=240_000,
        allocate_step_size=16 << 10,
        prepare_ahead_size=order["prepare_ahead_size"],
        accept_future_store_time=True,
        max_auto_queue_count=128,
        delay_levels=cut_later.LEVELS,
        delay_save_interval_ms=10,
    )
    clock = ClockAhead(order["round"] * cut_later.CLOCK_STEP_MS)
    if not order["site"]:
        _later(order["delay_ms"] / 1000, fate.come)
    try:
        store = flightlog.open(place / "store", settings, disk=fates.FatedDisk(fate), clock=clock)
    except DiskError as e:
        if not fate.is_coming:
            work.say({"wrong": f"opening: {e!r}"})
        return
    fate.phase = ""
    putters = [work.Putter(store, order, i, fate) for i in range(PUTTERS)]
    steward = work.Steward(store, order, PUTTERS, fate)
    if order["site"] == "close":
        for _ in range(TURNS_OF_A_CLOSE):
            for worker in (*putters, steward):
                worker.do_something()
        fate.phase = "close"
    else:
        _run(putters, steward)
        if fate.has_come and not order["lies"]:
            work.Prover(store, order, PUTTERS + 1, fate).prove()
    try:
        store.close()
    except (DiskError, StorePoisonedError) as e:
        if not fate.is_coming:
            work.say({"wrong": f"closing: {e!r}"})


def _run(putters: list[Any], steward: Any) -> None:
    """The steward works as long as anybody puts, and at least some turns."""
    threads = [
        threading.Thread(target=putter.run, args=(lambda p=putter: p.count < MESSAGES_A_PUTTER,), daemon=True)
        for putter in putters
    ]

    def goes_on() -> bool:
        return steward.turns < TURNS_OF_THE_STEWARD or any(thread.is_alive() for thread in threads)

    for thread in threads:
        thread.start()
    steward.run(goes_on)
    for thread in threads:
        thread.join()


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
                fate = fates.Fate(order, os.open(place, os.O_RDONLY))
                write(place, order, fate)
                work.say({"came": fate.is_coming})
                os._exit(0)
            except BaseException as e:
                work.say({"wrong": repr(e)[:2000]})
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        work.say({"end": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
