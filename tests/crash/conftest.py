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

import pytest

from flightlog import FlightlogError
from flightlog.tests.support.stage import BrokenPromiseError, Stage

Spoil = Callable[[pytest.MonkeyPatch], None]
Story = Callable[[Callable[[], Stage]], None]
Tell = Callable[[Story], None]
IsFoundOut = Callable[[Spoil, Story, str], None]


@pytest.fixture
def tell(tmp_path: Path) -> Iterator[Tell]:
    """Tell a story of tests/support/*_stories.py, each of its stages in a folder of its own."""
    with contextlib.ExitStack() as left:

        def tell(story: Story) -> None:
            story(new)

        def new() -> Stage:
            stage: Stage = Stage(tmp_path / f"{len(list(tmp_path.iterdir()))}")
            left.callback(stage.release)
            return stage

        yield tell


@pytest.fixture
def is_found_out(tell: Tell) -> IsFoundOut:
    """Tell a story to a mutant; `noticed` is a regular expression of what is said then. A promise that was not kept, or
    an error that the store raises by name: whatever else comes is the mutant's own, or the story's, and goes on."""

    def check(spoil: Spoil, story: Story, noticed: str) -> None:
        said = None
        with pytest.MonkeyPatch.context() as patch:
            spoil(patch)
            try:
                tell(story)
            except (BrokenPromiseError, FlightlogError) as e:
                said = f"{type(e).__name__}: {e}"
        assert said is not None, f"{story.__name__} went well with a store that {spoil.__name__}"
        print(f"{spoil.__name__}: {story.__name__}: {said[:200]}")
        assert re.search(noticed, said), f"found out for another reason: {said}"

    return check
