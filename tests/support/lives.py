"""Random lives of stores, one a seed: everything about a life follows from its seed.

As a program: `lives.py FOLDER KERNEL STEPS SEED...` lives them one after the other, says what went wrong, and returns
how many did.
"""

from __future__ import annotations

import importlib.util
import logging
import random
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from flightlog.store import native

if TYPE_CHECKING:
    from tests.support.walk import Walk

RERUN = "FLIGHTLOG_MODEL_SEEDS"
"""Environment variable: the seeds to live in place of the usual ones, as in 7 or 0-99,4711."""
SHOWN_STEPS = 25


class LifeError(AssertionError):
    """A store that is not what the model says."""


def _load(name: str) -> ModuleType:
    """A module beside this file, once, under the name that the fixture `support` gives it."""
    full_name = f"flightlog_tests_support_{name}"
    if full_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(full_name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        spec.loader.exec_module(module)
    return sys.modules[full_name]


def make_walk(seed: int, folder: Path) -> Walk:
    dice = random.Random(seed)
    loses_power = dice.random() < 0.6
    disk = _load("power").PowerDisk(folder, keeps_notes=loses_power)
    limits = _load("model").Limits(
        segment_size=4096 * dice.randint(1, 4),
        queue_file_entries=dice.randint(10, 50),
        answer_count=dice.choice((2, 8, 32)),
        answer_size=dice.choice((500, 3000, 64 << 10)),
        scan_size=dice.choice((1, 100, 16_000)),
    )
    model = _load("model").Model(limits)
    maker = _load("messages").MessageMaker(dice)
    questions = _load("questions").Questions(model, maker, dice)
    openings, clock = _load("openings").Openings(dice, limits), _load("openings").HeldClock()
    walk: Walk = _load("walk").Walk(
        dice, disk, model, maker, questions, openings, clock, _load("power").Died, loses_power=loses_power
    )
    return walk


def live(seed: int, steps: int, parent: Path) -> None:
    """Raises LifeError, with the seed and the last steps, where the store differs from the model or fails."""
    folder = parent / f"seed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)  # of a life before that went wrong
    walk = make_walk(seed, folder)
    try:
        walk.run(steps)
    except Exception as e:
        told = [f"  {number}: {text}" for number, text in enumerate(walk.history)]
        raise LifeError(
            "\n".join([f"seed {seed} ({RERUN}={seed}): {type(e).__name__}: {e}", *told[-SHOWN_STEPS:]])
        ) from e
    finally:
        walk.let_go()
    shutil.rmtree(folder)


def main() -> int:
    folder, kernel, steps, *seeds = sys.argv[1:]
    logging.disable()  # a store that was killed is worth a warning elsewhere
    native.use(kernel)
    failures = 0
    started_s = time.monotonic()
    for seed in seeds:
        try:
            live(int(seed), int(steps), Path(folder))
        except LifeError as e:
            failures += 1
            print(e, flush=True)
    print(f"{len(seeds)} lives, {failures} went wrong, {time.monotonic() - started_s:.1f} s", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(min(main(), 100))
