"""A store that was made and has no message yet: every look at it works, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import StoreSettings

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["verify"]])
def test_of_an_empty_store(command: list[str], cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "store"
    flightlog.open(path, StoreSettings.small()).close()
    note = (path / "flightlog" / "geometry.json").read_bytes()
    finished = cli(*command, path)
    assert (finished.code, finished.err) == (0, "")
    if "--json" in command:
        found = json.loads(finished.out)
        assert (found["sizes"]["messages"], found["end_physical_offset"]) == (0, 0)
    assert (path / "flightlog" / "geometry.json").read_bytes() == note
