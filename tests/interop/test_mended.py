"""Damaged stores of RocketMQ, mended, and opened by RocketMQ again: every message that was not lost is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.engine.repair.placeholder import LOST_PROPERTY
from flightlog.tests.interop import cases

if TYPE_CHECKING:
    from flightlog.tests.interop.harness import RocketMq

pytestmark = pytest.mark.ci

DAMAGED = ("abort-torn", "abort-crcflip", "clean-crcflip", "abort-cqlag", "clean-cqlag")


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("how", ["repair", "salvage"])
def test_rocketmq_reads_what_was_mended(
    how: str, name: str, rocketmq: RocketMq, golden_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = golden_copy(name)
    case = cases.golden_case(name, folder)
    stored: dict[Any, str] = {(m["topic"], m["queueId"], m["queueOffset"]): m["bodySha1"] for m in case.lines}
    path = folder / "store"
    if how == "repair":
        assert flightlog.repair(path, write=True).is_clean
    else:
        path = tmp_path / "salvaged"
        sizes = case.geometry
        settings = flightlog.StoreSettings(
            queue_file_entries=sizes["queue_entries"],
            index_slots=sizes["index_slots"],
            index_entries=sizes["index_entries"],
        )
        report = flightlog.salvage(folder / "store", path, settings, write=True)
        assert report.after is not None and report.after.is_clean

    opened = rocketmq.open_store(path, **case.geometry)

    assert opened.store["loaded"] and not opened.problems, opened.problems[:3]
    found = {(m["cqTopic"], m["cqQueueId"], m["cqOffset"]): m for m in opened.messages}
    intact = {place: m for place, m in found.items() if LOST_PROPERTY not in m["properties"]}
    assert len(intact) == len(stored) - name.endswith("crcflip")
    assert all(stored[place] == m["bodySha1"] for place, m in intact.items())
    assert found.keys() == stored.keys(), "a placeholder keeps the place of a lost one"
    with flightlog.open_read_only(path) as view:
        assert view.verify().is_clean, "after RocketMQ has had it"
