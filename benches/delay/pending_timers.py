"""Many timers that wait: what it takes to put them, to place them on the wheel, and to open the store again.

    python -P benches/delay/pending_timers.py FOLDER --pending 10000000

Each step is a process of its own, so that the memory that is told is that of the step: `put` appends without
delivering, `take` places everything on the wheel and closes, `open` recovers all of it. Times are spread over three
days, from an hour on, so a third of them is to be rolled on.

What the process itself needs is told apart from the pages of the store's files that it has mapped: those the system
takes back as it likes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from flightlog.engine.message_store import open_store
from flightlog.store.format.property_names import TIMER_DELIVER_MS
from flightlog.store.message import Message
from flightlog.store.settings import StoreSettings

BATCH = 1000
BODY = bytes(100)
FIRST_S, LAST_S = 3600, 3 * 86_400 - 3600
SEED = 7
POLL_S = 0.05
STATUS = Path("/proc/self/status")
ANONYMOUS = re.compile(r"^RssAnon:\s+([0-9]+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One of the three."""

    step: str
    pending: int
    seconds: float
    peak_memory_size: int
    """Bytes of the process at most, with the pages of the store's files that it has mapped."""
    own_memory_size: int
    """The same without pages of files, as often as it was looked at."""


class OwnMemory:
    """How many bytes this process has had at most that lie in no file (Linux)."""

    def __init__(self) -> None:
        self.peak_size = 0

    def look(self) -> None:
        found = ANONYMOUS.search(STATUS.read_text())
        if found is None:
            raise RuntimeError(f"{STATUS}: expected a line RssAnon, as Linux writes it")
        self.peak_size = max(self.peak_size, 1024 * int(found[1]))


def put(path: Path, count: int, memory: OwnMemory) -> int:
    """Append so many timers, and deliver nothing."""
    dice, now_ms = random.Random(SEED), time.time_ns() // 1_000_000
    with open_store(path, StoreSettings(deliver_delayed=False, key_index=False)) as store:
        for _ in range(0, count, BATCH):
            times = (now_ms + 1000 * dice.randint(FIRST_S, LAST_S) for _ in range(BATCH))
            store.put_many([Message("t", BODY, properties={TIMER_DELIVER_MS: str(at)}) for at in times])
            memory.look()
    return count


def take(path: Path, memory: OwnMemory) -> int:
    """Open the store and wait until all of them are on the wheel."""
    with open_store(path, StoreSettings(key_index=False)) as store:
        while (state := store.statistics().timers) is None or state.untaken:
            memory.look()
            time.sleep(POLL_S)
        return state.pending


def recover(path: Path, memory: OwnMemory) -> tuple[int, float]:
    """Open the store; how many wait, and how long it took."""
    began_s = time.perf_counter()
    store = open_store(path, StoreSettings(key_index=False))
    took_s = time.perf_counter() - began_s
    memory.look()
    state = store.statistics().timers
    store.close()
    return 0 if state is None else state.pending, took_s


def run_step(step: str, path: Path, count: int) -> Step:
    """In this process."""
    began_s, memory = time.perf_counter(), OwnMemory()
    if step == "open":
        found, took_s = recover(path, memory)
    else:
        found = put(path, count, memory) if step == "put" else take(path, memory)
        took_s = time.perf_counter() - began_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Step(step, found, took_s, peak, memory.peak_size)


def measure(path: Path, count: int) -> list[Step]:
    """All three, in a folder that is new."""
    steps = []
    for step in ("put", "take", "open"):
        command = [sys.executable, "-P", __file__, str(path)]
        command += ["--pending", str(count), "--step", step]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{step}: {done.stderr[-2000:]}")
        steps.append(Step(**json.loads(done.stdout)))
    return steps


def main() -> None:
    """One step, as JSON, or all of them, as lines to read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--step", choices=("put", "take", "open"))
    asked = parser.parse_args()
    if asked.step:
        sys.stdout.write(json.dumps(asdict(run_step(asked.step, asked.folder, asked.pending))) + "\n")
        return
    for step in measure(asked.folder, asked.pending):
        sys.stdout.write(
            f"{step.step:5} {step.pending:>12,} timers {step.seconds:10.1f} s {step.peak_memory_size >> 20:>8,} MiB, "
            f"{step.own_memory_size >> 20:,} MiB of its own\n"
        )


if __name__ == "__main__":
    main()
