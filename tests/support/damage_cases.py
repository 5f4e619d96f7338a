"""Many cases of damage one after another, in a process with bounded memory that ends where it hangs.

`PROGRAM FOLDER KERNEL SEED FIRST COUNT STORE...` tries `COUNT` cases on each of these stores. A case follows from the
seed, its number and the store's name.
"""

from __future__ import annotations

import faulthandler
import logging
import random
import resource
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from flightlog.store import native
from flightlog.tests.support import store_damage

MORE_MEMORY = 512 << 20
"""Bytes that the process may come to hold beyond those that it takes to have everything loaded."""
HANG_S = 300

Try = Callable[[Path], Counter[str]]
"""Tries everything on a damaged copy of a store, and counts what it was told. Raises what goes wrong."""


def run_cases(prepare: Callable[[Path], Try]) -> int:
    """Run the cases that the arguments of the program name, say what went wrong, and return how many did. `prepare`
    looks at a sound store, once."""
    folder, kernel, seed, first, count, *stores = sys.argv[1:]
    logging.disable()
    native.use(kernel)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    told: Counter[str] = Counter()
    failures = 0
    started_s = time.monotonic()
    memory: list[str] = []
    for store in map(Path, stores):
        try_damaged, held_mib = prepare(store), list[int]()
        for number in range(int(first), int(first) + int(count)):
            faulthandler.dump_traceback_later(HANG_S, exit=True)  # of what hangs, the stack is worth more than its end
            try:
                told += _run_case(store, try_damaged, Path(folder) / "case", int(seed), number)
            except Exception as e:
                failures += 1
                print("".join(traceback.format_exception(e))[-3000:], flush=True)
            held_mib.append(_rss_pages() * resource.getpagesize() >> 20)
        memory.append(f"{store.name} {held_mib[len(held_mib) // 10]} to {held_mib[-1]}")
    cases = int(count) * len(stores)
    print(f"{cases} cases, {failures} went wrong, {time.monotonic() - started_s:.1f} s: {dict(told.most_common())}")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"RSS in MiB after a tenth and after all cases of a store: {', '.join(memory)}; peak {peak_mib}")
    return failures


def _rss_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def _run_case(store: Path, try_damaged: Try, root: Path, seed: int, number: int) -> Counter[str]:
    """Damage a copy of the store and try everything. Raises what goes wrong, with the damage in a note."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(store, root)
    done = store_damage.do_damage(root, random.Random(f"{seed} {number} {store.name}"))
    try:
        return try_damaged(root)
    except BaseException as e:
        e.add_note(f"seed {seed}, case {number} of {store.name}: {'; '.join(done)}")
        raise
