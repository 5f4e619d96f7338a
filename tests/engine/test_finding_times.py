"""The queue offset of a store time, against a look at every message."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flightlog
from flightlog import Boundary, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.store.errors import CorruptQueueError, CorruptRecordError, UsageError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet, ManualClock

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=7)
BOUNDARIES: tuple[Boundary, ...] = ("lower", "upper")


def linear(times: list[int], first: int, timestamp_ms: int, boundary: Boundary) -> int:
    """`times` of the messages from queue offset `first` on."""
    if boundary == "lower":
        return next((first + i for i, time in enumerate(times) if time >= timestamp_ms), first + len(times))
    return max((first + i for i, time in enumerate(times) if time <= timestamp_ms), default=first)


def check(store: Store | ReadOnlyStore, *, every: int = 1) -> int:
    """Every queue, at, before and behind its first time and every n-th; returns how many questions that were."""
    asked = 0
    for key, (first, end) in store.queues().items():
        times = [m.store_timestamp_ms for m in store.read(*key)]
        assert len(times) == end - first
        around = {near for time in times[::every] for near in (time - 1, time, time + 1)}
        for timestamp_ms in sorted(around | {-(1 << 62), -1, 0, 1, 1 << 62}):
            for boundary in BOUNDARIES:
                found = store.offset_at(*key, timestamp_ms, boundary)
                assert found == linear(times, first, timestamp_ms, boundary), (key, timestamp_ms, boundary)
                assert first <= found <= end
                asked += 1
    return asked


@pytest.fixture(scope="module")
def fast_folder() -> Iterator[Path]:
    """A folder in memory where there is one: Hypothesis makes many stores, and what syncs cost is no matter here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from((0, 0, 0, 1, 2, 1000))), max_size=60),
    expired=st.integers(0, 3),
)
def test_any_times(
    steps: list[tuple[int, int]], expired: int, fast_folder: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """Three queues of several files each, equal times, gaps, and segments that have expired."""
    root = fast_folder / "store"
    shutil.rmtree(root, ignore_errors=True)
    with flightlog.open(root, SETTINGS, clock=clock) as store:
        for queue_id, later_ms in steps:
            clock.at_ms += later_ms
            store.put(Message("t", bytes(200), queue_id=queue_id))
        check(store)
    segments = sorted((root / "commitlog").iterdir())
    for path in segments[: min(expired, len(segments) - 1)]:
        path.unlink()
    with flightlog.open_read_only(root) as view:
        check(view)
    assert_clean(root)


def test_lower_is_what_is_meant_unless_said(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    start = clock.at_ms
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        for i in range(30):
            clock.at_ms = start + i // 3 * 10
            store.put(Message("t", b"x"))
        assert [store.offset_at("t", 0, start + at) for at in (0, 5, 10, 90, 91)] == [0, 3, 3, 27, 30]
        assert [store.offset_at("t", 0, start + at, "upper") for at in (-1, 0, 9, 90, 91)] == [0, 2, 2, 29, 29]
        store.put(Message("t", b"y"))
        assert store.offset_at("t", 0, start + 91) == 31  # stored at + 90: the clock stood still
    assert_clean(tmp_path)


def test_a_queue_that_is_not_there(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("t", b"x"))
        for key in (("u", 0), ("t", 1)):
            assert [store.offset_at(*key, at, boundary) for at in (0, 1 << 62) for boundary in BOUNDARIES] == [0] * 4


def test_a_queue_of_which_everything_expired(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([Message("old", b"x")] * 13)
        store.put_many([Message("t", bytes(200))] * 40)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    (tmp_path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    with flightlog.open_read_only(tmp_path) as view:
        assert view.queues()["old", 0] == (13, 13)
        assert [view.offset_at("old", 0, at, boundary) for at in (0, 1 << 62) for boundary in BOUNDARIES] == [13] * 4
    assert_clean(tmp_path)


@pytest.mark.parametrize("boundary", ["LOWER", "left", "", None, 0])
def test_another_boundary(boundary: Any, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store, pytest.raises(UsageError, match="'lower', 'upper'"):
        store.offset_at("t", 0, 0, boundary)


def overwrite(root: Path, physical_offset: int, raw: bytes) -> None:
    path = root / "commitlog" / f"{physical_offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    with open(path, "r+b") as file:
        file.seek(physical_offset % SEGMENT_SIZE)
        file.write(raw)


@pytest.mark.parametrize(("position", "raw"), [(0, bytes(4)), (3, b"\0"), (4, b"\0"), (35, b"\xff")])
def test_a_search_goes_on_past_damaged_records(position: int, raw: bytes, tmp_path: Path, clock: ManualClock) -> None:
    """A look at 17 comes first. It ended the search, wherever the wanted message was."""
    results = []
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        for _ in range(35):
            clock.at_ms += 10
            results.append(store.put(Message("t", bytes(200))))
    damaged = {0, 8, 16, 17, 18, 26, 34}
    with flightlog.open_read_only(tmp_path) as view:
        for i in damaged:
            overwrite(tmp_path, results[i].physical_offset + position, raw)
        intact = [(i, result.store_timestamp_ms) for i, result in enumerate(results) if i not in damaged]
        for result in results:
            for at_ms in (result.store_timestamp_ms, result.store_timestamp_ms + 1):
                before = [i for i, stored_ms in intact if stored_ms < at_ms]
                assert view.offset_at("t", 0, at_ms) == (before[-1] + 1 if before else 0)
                until = [i for i, stored_ms in intact if stored_ms <= at_ms]
                assert view.offset_at("t", 0, at_ms, "upper") == (until[-1] if until else 0)
        with pytest.raises(CorruptRecordError) as raised:
            next(view.read("t", 0, view.offset_at("t", 0, results[17].store_timestamp_ms)))
        assert raised.value.physical_offset == results[16].physical_offset


def test_a_search_among_damaged_records_alone_leads_to_the_first(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = store.put_many([Message("t", bytes(200))] * 35)
    with flightlog.open_read_only(tmp_path) as view:
        for result in results:
            overwrite(tmp_path, result.physical_offset, bytes(4))
        assert [view.offset_at("t", 0, at_ms) for at_ms in (0, results[0].store_timestamp_ms, 1 << 62)] == [0, 0, 0]


def test_a_damaged_body_has_a_time_all_the_same(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = store.put_many([Message("t", bytes(200))] * 35)
    overwrite(tmp_path, results[17].physical_offset + 150, b"\1")
    with flightlog.open_read_only(tmp_path) as view:
        assert view.offset_at("t", 0, results[0].store_timestamp_ms) == 0
        with pytest.raises(CorruptRecordError):
            view.get("t", 0, 17)


def test_holes_of_a_damaged_log_have_no_time(tmp_path: Path, clock: ManualClock) -> None:
    """Where records were lost before they got into a queue, a view knows only that there were some."""
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        results = []
        for _ in range(40):
            clock.at_ms += 10
            results.append(store.put(Message("t", bytes(200))))
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "flightlog" / "progress").unlink()
    lost = range(14, 20)
    for i in lost:
        overwrite(tmp_path, results[i].physical_offset, bytes(100))
    with flightlog.open_read_only(tmp_path) as view:
        assert view.queues() == {("t", 0): (0, 40)}
        assert [m.queue_offset for m in view.read("t", on_corrupt="skip")] == [i for i in range(40) if i not in lost]
        for i, result in enumerate(results):
            lower = 20 if i in lost else i
            upper = 13 if i in lost else i
            assert view.offset_at("t", 0, result.store_timestamp_ms) == lower
            assert view.offset_at("t", 0, result.store_timestamp_ms, "upper") == upper
            assert view.offset_at("t", 0, result.store_timestamp_ms - 1) == lower
            assert view.offset_at("t", 0, result.store_timestamp_ms + 1, "upper") == upper


def test_a_queue_file_that_vanished(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([Message("t", b"x")] * 35)
    with flightlog.open_read_only(tmp_path) as view:
        (tmp_path / "consumequeue" / "t" / "0" / f"{14 * 20:020d}").unlink()
        with pytest.raises(CorruptQueueError, match="no queue file"):
            view.offset_at("t", 0, 0)


@pytest.mark.parametrize("name", ["abort-late", "minoffset", "rollover", "v2-v6", "delay-tx"])
def test_what_rocketmq_wrote(name: str, golden_set: Callable[[str], GoldenSet]) -> None:
    with flightlog.open_read_only(golden_set(name).store) as view:
        assert check(view, every=7) > 100
