"""The fuzz targets of tests/fuzz/targets/: loading them, their corpus, and inputs drawn by lot.

A target is a module with `one(data)`, which raises where a promise about any bytes whatever is broken, and `seeds()`,
sound inputs to begin with. Whatever makes `one` raise is kept as a file in tests/fuzz/corpus/TARGET/.
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from types import ModuleType

from flightlog.tests.support import damage

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
TARGETS = "flightlog.tests.fuzz.targets"


def load_target(name: str) -> ModuleType:
    return importlib.import_module(f"{TARGETS}.{name}")


def corpus(name: str) -> list[bytes]:
    """What is kept of earlier runs, in the order of the names."""
    return [path.read_bytes() for path in sorted((FUZZ / "corpus" / name).glob("*"))]


class BrokenPromiseError(AssertionError):
    """A target raised; the message says with which input."""


def attempt(target: ModuleType, data: bytes) -> None:
    """Raises BrokenPromiseError, with the input, where the target raises."""
    try:
        target.one(data)
    except Exception as e:
        raise BrokenPromiseError(f"{target.__name__}: {type(e).__name__}: {e}; input {data!r}") from e


def run_drawn(name: str, seed: int, count: int) -> None:
    """`count` inputs that follow from the seed."""
    target, damaged = load_target(name), damage.damaged
    known = target.seeds() + corpus(name)
    dice = random.Random(f"{name} {seed}")
    for _ in range(count):
        attempt(target, damaged(dice.choice(known), dice, known))
