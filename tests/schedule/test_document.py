"""docs/delays.md: its examples are run as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.schedule.conftest import Until

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "delays.md"


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: Callable[[Path], None], until: Until
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(example, {})
    settings = flightlog.StoreSettings(deliver_delayed=False)
    with flightlog.open("store", settings) as store:
        levels, timers = store.read("SCHEDULE_TOPIC_XXXX", 2), store.read("rmq_sys_wheel_timer")
        assert [message.body for message in levels] == [b"remind me"]
        assert [message.body for message in timers] == [b"remind me", b"is it paid?", b""]
    with flightlog.open("store") as store:
        until(lambda: (state := store.statistics().timers) is not None and (state.pending, state.untaken) == (1, 0))
    assert_clean(tmp_path / "store")
