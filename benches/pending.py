"""The cost of many pending timers: to put them, to place them on the timer wheel, and to open the store again.

Each step is a process that runs this file, so that its peak memory is that of the step: `put` appends without
delivering, `take` places all timers on the wheel and closes the store, `open` recovers it. Due times are spread over
three days, starting in an hour, so a third of the timers must be rolled.

The process's own memory is reported separately from mapped pages of the store's files, which the system can reclaim.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from flightlog.benches.loads import load
from flightlog.engine.message_store import open_store
from flightlog.store.errors import UsageError
from flightlog.store.format.property_names import TIMER_DELIVER_MS
from flightlog.store.message import Message
from flightlog.store.settings import StoreSettings
from flightlog.tools.bench.case import Case, Sample

STEPS = {"put": "put, and delivered nothing", "take": "placed on the wheel", "open": "recovered by an opening"}
BATCH = 1000
BODY = bytes(100)
FIRST_S, LAST_S = 3600, 3 * 86_400 - 3600
SEED = 7
POLL_S = 0.05
ANONYMOUS = re.compile(r"^RssAnon:\s+([0-9]+) kB$", re.MULTILINE)


def cases(count: int) -> list[Case]:
    """A case for each step; it needs the one before. Raises UsageError for a number that is put in no equal batches."""
    if count < BATCH or count % BATCH:
        raise UsageError(f"--pending {count}: expected a multiple of {BATCH:,}")
    return [load(text, "Many timers", partial(_measure_beside, step, count)) for step, text in STEPS.items()]


def _measure_beside(step: str, count: int, folder: Path) -> Sample:
    figures = measure(folder.with_name("pending"), step, count)
    return Sample(count, figures["s"], figures["s"], figures=figures)


def measure(path: Path, step: str, count: int) -> dict[str, float]:
    """Run a step in a new process."""
    done = subprocess.run(
        [sys.executable, "-P", __file__, str(path), step, str(count)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{step}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


class OwnMemory:
    """Peak anonymous memory of this process in MiB (Linux)."""

    def __init__(self) -> None:
        self.peak_mib = 0.0

    def look(self) -> None:
        found = ANONYMOUS.search(Path("/proc/self/status").read_text())
        if found is None:
            raise RuntimeError("/proc/self/status: expected a line RssAnon, as Linux writes it")
        self.peak_mib = max(self.peak_mib, int(found[1]) / 1024)


def _put(path: Path, count: int, memory: OwnMemory) -> int:
    """Append `count` timers without delivering any."""
    dice, now_ms = random.Random(SEED), time.time_ns() // 1_000_000
    with open_store(path, StoreSettings(deliver_delayed=False, key_index=False)) as store:
        for _ in range(0, count, BATCH):
            times = (now_ms + 1000 * dice.randint(FIRST_S, LAST_S) for _ in range(BATCH))
            store.put_many([Message("t", BODY, properties={TIMER_DELIVER_MS: str(at)}) for at in times])
            memory.look()
    return count


def _run_step(step: str, path: Path, count: int) -> dict[str, float]:
    began_s, memory = time.perf_counter(), OwnMemory()
    if step == "put":
        found = _put(path, count, memory)
    else:
        with open_store(path, StoreSettings(key_index=False)) as store:
            took_s = time.perf_counter() - began_s
            memory.look()
            while step == "take" and ((state := store.statistics().timers) is None or state.untaken):
                memory.look()
                time.sleep(POLL_S)
            state = store.statistics().timers
            found = 0 if state is None else state.pending
    if step != "open":
        took_s = time.perf_counter() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"how many": found, "s": took_s, "memory, MiB": memory.peak_mib, "with mapped files": peak_mib}


if __name__ == "__main__":
    print(json.dumps(_run_step(sys.argv[2], Path(sys.argv[1]), int(sys.argv[3]))))
