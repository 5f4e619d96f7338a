"""Lives of stores, compared with a plain model; the parts are in tests/support/."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support import lives

if TYPE_CHECKING:
    Live = Callable[[int, int], None]
    LiveAll = Callable[[list[int], int, str], None]

PROGRAM = Path(__file__).parents[1] / "support" / "lives.py"


@pytest.fixture
def live(tmp_path: Path) -> Live:
    """`live(seed, steps)` raises where the store differs from the model, or the store's own error."""

    def run(seed: int, steps: int) -> None:
        lives.live(seed, steps, tmp_path)

    return run


@pytest.fixture
def live_all(tmp_path: Path) -> LiveAll:
    """`live_all(seeds, steps, kernel)`: many of them, in as many processes as there are cores for it."""

    def run(seeds: list[int], steps: int, kernel: str) -> None:
        # One in a process that runs tests beside others.
        cores = 1 if "PYTEST_XDIST_WORKER" in os.environ else min(os.cpu_count() or 1, len(seeds))
        command = [sys.executable, "-P", str(PROGRAM), str(tmp_path), kernel, str(steps)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}  # a seed is one life, sets of texts included
        programs = [
            subprocess.Popen(
                [*command, *map(str, seeds[i::cores])],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            for i in range(cores)
        ]
        said = [program.communicate()[0].decode() for program in programs]
        assert [program.returncode for program in programs] == [0] * cores, "\n".join(said)
        print(*said)

    return run


@pytest.fixture
def unlogged() -> Iterator[None]:
    """A store that was killed is worth a warning elsewhere."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
