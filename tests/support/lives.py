"""Random lives of stores, one a seed: everything about a life follows from its seed.

As a program: `lives.py FOLDER KERNEL STEPS SEED...` lives them one after the other, says what went wrong, and returns
how many did.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
import time
from pathlib import Path

from flightlog.store import native
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support.messages import MessageMaker
from flightlog.tests.support.model import Limits, Model
from flightlog.tests.support.openings import HeldClock, Openings
from flightlog.tests.support.questions import Questions
from flightlog.tests.support.walk import Walk

RERUN = "FLIGHTLOG_MODEL_SEEDS"
"""Environment variable: the seeds to live in place of the usual ones, as in 7 or 0-99,4711."""
SHOWN_STEPS = 25


class LifeError(AssertionError):
    """A store that is not what the model says."""


def make_walk(seed: int, folder: Path) -> Walk:
    dice = random.Random(seed)
    loses_power = dice.random() < 0.6
    disk = PowerDisk(folder, keeps_notes=loses_power)
    limits = Limits(
        segment_size=4096 * dice.randint(1, 4),
        queue_file_entries=dice.randint(10, 50),
        answer_count=dice.choice((2, 8, 32)),
        answer_size=dice.choice((500, 3000, 64 << 10)),
        scan_size=dice.choice((1, 100, 16_000)),
    )
    model = Model(limits)
    maker = MessageMaker(dice)
    questions = Questions(model, maker, dice)
    openings, clock = Openings(dice, limits), HeldClock()
    walk: Walk = Walk(dice, disk, model, maker, questions, openings, clock, Died, loses_power=loses_power)
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
        walk.release()
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
