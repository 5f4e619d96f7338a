"""Proof that the tests would see what they are there to see.

A mutant spoils one function of the store, as a slip of ours might. It is told one story (tests/support/*_stories.py) of
power cuts, failing disks, or readers that come at the wrong moment, and must be found out, for the right reason; the
sound store must come through the same story. The campaigns on a real ext4 have a mutant of their own, see
test_real_cuts.py, and the comparison with the model has its own, see tests/model/test_mutants.py.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from flightlog import FlightlogError

if TYPE_CHECKING:
    from tests.support.stage import Stage

Spoil = Callable[[pytest.MonkeyPatch], None]
Tell = Callable[[str], None]
IsFoundOut = Callable[[Spoil, str, str], None]


@pytest.fixture
def tell(support: Callable[[str], ModuleType], tmp_path: Path) -> Iterator[Tell]:
    """Tell a story, "module.function" in tests/support, each of its stages in a folder of its own."""
    with contextlib.ExitStack() as left:

        def tell(name: str) -> None:
            module, _, function = name.partition(".")
            getattr(support(module), function)(new)

        def new() -> Stage:
            stage: Stage = support("stage").Stage(tmp_path / f"{len(list(tmp_path.iterdir()))}")
            left.callback(stage.release)
            return stage

        yield tell


@pytest.fixture
def is_found_out(support: Callable[[str], ModuleType], tell: Tell) -> IsFoundOut:
    """Tell a story to a mutant; `noticed` is a regular expression of what is said then. A promise that was not kept, or
    an error that the store raises by name: whatever else comes is the mutant's own, or the story's, and goes on."""

    def check(spoil: Spoil, story: str, noticed: str) -> None:
        said = None
        with pytest.MonkeyPatch.context() as patch:
            spoil(patch)
            try:
                tell(story)
            except (support("stage").BrokenPromiseError, FlightlogError) as e:
                said = f"{type(e).__name__}: {e}"
        assert said is not None, f"{story} went well with a store that {spoil.__name__}"
        print(f"{spoil.__name__}: {story}: {said[:200]}")
        assert re.search(noticed, said), f"found out for another reason: {said}"

    return check
