"""How far deliveries are: what is kept of it, what is made of what was kept, and who else may deliver."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.schedule.delay_offsets import DelayOffsets
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import ConfigFileError
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, killed_copy

if TYPE_CHECKING:
    from flightlog.tests.schedule.conftest import Bodies, RunAll, Until

AssertClean = Callable[[Path], None]

SETTINGS = StoreSettings.small(delay_levels="1s 5s 10s", flush_interval_ms=3_600_000)


def offsets(path: Path, clock: ManualClock) -> dict[int, int]:
    return DelayOffsets(RealDisk(), path, clock).load()


def test_levels_that_were_made_shorter_count_at_once(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, run_all: RunAll, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put(Message("t", b"x", delay_level=3))
        run_all(store)
    with flightlog.open(tmp_path, StoreSettings.small(delay_levels="1s 5s 11s"), clock=clock) as store:
        run_all(store)
        assert bodies(store) == []
    with flightlog.open(tmp_path, StoreSettings.small(delay_levels="1s 5s"), clock=clock) as store:
        clock.advance(9_000)
        run_all(store)
        assert bodies(store) == [], "a level that is no more waits for its return"
    with flightlog.open(tmp_path, StoreSettings.small(delay_levels="1s 5s 0s"), clock=clock) as store:
        run_all(store)
        assert bodies(store) == [b"x"]
    assert_clean(tmp_path)


def test_how_far_it_is_survives_closing_and_rocketmqs_way_of_writing(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, run_all: RunAll, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put_many(Message("t", b"%d" % i, delay_level=1) for i in range(3))
        clock.advance(1000)
        run_all(store)
    file = tmp_path / "config" / "delayOffset.json"
    assert json.loads(file.read_text())["offsetTable"] == {"1": 3}
    file.write_text(
        '{\n\t"dataVersion":{"counter":9,"stateVersion":0,"timestamp":5},\n\t"offsetTable":{1:2,18:7\n\t}\n}'
    )
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run_all(store)
        assert bodies(store) == [b"0", b"1", b"2", b"2"], "it goes on where the file says"
    found = json.loads(file.read_text())
    assert found["offsetTable"] == {"1": 3, "18": 7} and found["dataVersion"]["counter"] == 10
    assert json.loads((tmp_path / "config" / "delayOffset.json.bak").read_text().replace("1:2,18:7", '"1":2'))
    assert_clean(tmp_path)


def test_it_is_written_while_the_store_is_open(tmp_path: Path, clock: ManualClock, until: Until) -> None:
    settings = StoreSettings.small(delay_levels="0s", delay_save_interval_ms=1)
    with flightlog.open(tmp_path, settings) as store:
        store.put(Message("t", b"x", delay_level=1))
        until(lambda: offsets(tmp_path, clock) == {1: 1})
        assert inside.log(store).flushed >= inside.log(store).visible, "what it calls done is durable"


@pytest.mark.parametrize(("saved", "count"), [(-5, 3), (0, 3), (2, 1), (3, 0), (99, 0)])
def test_an_offset_outside_of_the_queue_is_put_right(
    saved: int,
    count: int,
    tmp_path: Path,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    run_all: RunAll,
    bodies: Bodies,
) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(delay_levels="1s", deliver_delayed=False), clock=clock) as store:
        store.put_many(Message("t", b"%d" % i, delay_level=1) for i in range(3))
    clock.advance(1000)
    DelayOffsets(RealDisk(), tmp_path, clock).save({1: saved})
    with (
        caplog.at_level(logging.WARNING, "flightlog.schedule"),
        flightlog.open(tmp_path, StoreSettings.small(delay_levels="1s"), clock=clock) as store,
    ):
        run_all(store)
        assert len(bodies(store)) == count
        assert ("outside of the queue" in caplog.text) is (not 0 <= saved <= 3)
        store.put(Message("t", b"next", delay_level=1))
        clock.advance(1000)
        run_all(store)
        assert bodies(store)[count:] == [b"next"]
    assert offsets(tmp_path, clock) == {1: 4}


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "{", '{"offsetTable":[]}', '{"offsetTable":{"x":1}}'),
        *('{"offsetTable":{1:"2"}}', '{"offsetTable":{1:true}}'),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    text: str, tmp_path: Path, assert_clean: AssertClean, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("t", b"x"))
    (tmp_path / "config").mkdir(exist_ok=True)
    file = tmp_path / "config" / "delayOffset.json"
    file.write_text(text)
    with pytest.raises(ConfigFileError, match="delayOffset"):
        flightlog.open(tmp_path, SETTINGS)
    with flightlog.open(tmp_path, StoreSettings.small(deliver_delayed=False)) as store:
        assert bodies(store) == [b"x"]
    file.with_name("delayOffset.json.bak").write_text('{"offsetTable":{"1":0}}')
    if not text.startswith('{"'):
        flightlog.open(tmp_path, SETTINGS).close()
        with flightlog.open_read_only(tmp_path) as view:
            [finding] = view.verify().findings
        assert finding.path == file and "delayOffset.json.bak is whole" in finding.meaning
        file.unlink()  # as the finding says
    assert_clean(tmp_path)


def test_delivery_can_be_left_to_somebody_else(tmp_path: Path, clock: ManualClock, bodies: Bodies) -> None:
    settings = StoreSettings.small(delay_levels="0s", deliver_delayed=False)
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        store.put(Message("t", b"x", delay_level=1))
        assert inside.delay_service(store).deadlines.run_due() is None
        assert not inside.has_delay_thread(store)
        assert bodies(store) == [] and store.statistics().delays == ()
    assert not (tmp_path / "config" / "delayOffset.json").exists()
    with flightlog.open_read_only(tmp_path) as view:
        assert list(view.read("t")) == [] and len(list(view.read(SCHEDULE_TOPIC, 0))) == 1


def test_a_killed_store_delivers_again_what_it_had_not_written_down(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, run_all: RunAll
) -> None:
    with flightlog.open(tmp_path / "live", SETTINGS, clock=clock) as store:
        store.put_many(Message("t", b"%d" % i, delay_level=1, uniq_key=f"U{i}") for i in range(4))
        clock.advance(1000)
        run_all(store)
        inside.delay_service(store).save()
        store.put_many(Message("t", b"%d" % i, delay_level=1, uniq_key=f"U{i}") for i in range(4, 6))
        clock.advance(1000)
        run_all(store)
        killed = killed_copy.copy_as_killed(tmp_path / "live", tmp_path / "killed")
    with flightlog.open(killed, SETTINGS, clock=clock) as store:
        run_all(store)
        found = [(m.body, m.uniq_key) for m in store.read("t")]
        assert [body for body, _ in found] == [b"%d" % i for i in (0, 1, 2, 3, 4, 5, 4, 5)]
        assert dict(found) == {b"%d" % i: f"U{i}" for i in range(6)}, "the uniq key tells them apart"
    assert_clean(killed)


def test_a_view_tells_what_waits_and_how_late_it_is(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, run_all: RunAll, caplog: pytest.LogCaptureFixture
) -> None:
    def states() -> list[tuple[int, int, int, bool]]:
        with flightlog.open_read_only(tmp_path, SETTINGS) as view:
            found = view.statistics().delays
        return [(state.level, state.delay_ms, state.pending, state.lag_ms > 0) for state in found]

    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put_many(Message("t", b"x", delay_level=1) for _ in range(3))
        clock.advance(1000)
        run_all(store)
        store.put_many(Message("t", b"x", delay_level=1 + place % 2) for place in range(5))
    assert states() == [(1, 1000, 3, True), (2, 5000, 2, True), (3, 10_000, 0, False)], "of this machine's clock"
    day = StoreSettings.small(delay_levels="1d")
    with flightlog.open(tmp_path / "later", day) as store:
        store.put(Message("t", b"x", delay_level=1))
    with flightlog.open_read_only(tmp_path / "later", day) as view:
        [state] = view.statistics().delays
    assert (state.pending, state.lag_ms) == (1, 0)
    assert_clean(tmp_path / "later")
    file = tmp_path / "config" / "delayOffset.json"
    for path in (file, file.with_name(f"{file.name}.bak")):
        path.write_text("no JSON")
    with caplog.at_level(logging.WARNING, "flightlog.schedule"):
        assert states() == []
    assert "delayOffset.json" in caplog.text
