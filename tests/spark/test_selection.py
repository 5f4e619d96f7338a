"""Offsets and times to start and end at, found in a store; and what is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, ReadOnlyStore, StoreSettings
from flightlog.spark.options.bounds import NO_BOUNDS, Bounds, Span
from flightlog.spark.options.data_loss import DataLossError, Losses
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan.selection import QueueSpans, narrowed, require_known, selected_spans
from flightlog.store.errors import InvalidSettingsError

FIRST_MS = 1_700_000_000_000


class Clock:
    """Each message is stored ten ms behind the one before."""

    def __init__(self) -> None:
        self.at_ms = FIRST_MS - 10

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadOnlyStore]:
    """`orders` 0 and 1 have ten messages each, in turn; `payments` 0 has the last one; `empty` was never put to."""
    path, clock = tmp_path_factory.mktemp("selection") / "store", Clock()
    with flightlog.open(path, StoreSettings.small(), clock=clock) as store:
        for name, count in (("orders", 2), ("payments", 1), ("empty", 2)):
            store.create_topic(name, count)
        for i in range(21):
            clock.at_ms += 10
            store.put(Message("payments" if i == 20 else "orders", b"%d" % i, queue_id=i % 2))
    with flightlog.open_read_only(path) as opened:
        yield opened


def spans(view: ReadOnlyStore, bounds: Bounds = NO_BOUNDS, /, **options: str) -> QueueSpans:
    given = parse_options({"path": str(view.path), **options})
    require_known(given, [view])
    losses = Losses()
    found = selected_spans(view, given, losses)
    losses.report(fail=given.fail_on_data_loss)
    assert found is not None
    return narrowed(view, found, bounds)


def test_all_that_there_is(view: ReadOnlyStore) -> None:
    everything = {("orders", 0): (0, 10), ("orders", 1): (0, 10), ("payments", 0): (0, 1)}
    assert spans(view, subscribePattern=".*") == everything
    assert spans(view, subscribe="orders,payments,empty") == everything
    assert spans(view, assign='{"orders": [1], "empty": [1]}') == {("orders", 1): (0, 10)}
    assert spans(view, subscribePattern="nothing.*") == {}


def test_offsets_by_queue(view: ReadOnlyStore) -> None:
    offsets = {"startingOffsets": '{"orders": {"0": 3, "1": -2}}', "endingOffsets": '{"orders": {"0": 7, "1": -1}}'}
    assert spans(view, subscribe="orders", **offsets) == {("orders", 0): (3, 7), ("orders", 1): (0, 10)}
    some = spans(view, subscribe="orders", startingOffsets='{"orders": {"0": 10, "1": 9}}')
    assert some == {("orders", 1): (9, 10)}
    both = '{"orders": {"0": 9, "1": 9}, "payments": {"0": 1}}'
    assert spans(view, startingOffsets=both) == {("orders", 0): (9, 10), ("orders", 1): (9, 10)}
    swapped = {"startingOffsets": '{"payments": {"0": 1}}', "endingOffsets": '{"payments": {"0": 0}}'}
    assert spans(view, subscribe="payments", **swapped) == {}


def test_offsets_must_be_given_for_every_queue_that_is_read_and_no_other(view: ReadOnlyStore) -> None:
    with pytest.raises(InvalidSettingsError, match="startingOffsets: lacks orders queue 1; expected every queue that"):
        spans(view, subscribe="orders", startingOffsets='{"orders": {"0": 3}}')
    with pytest.raises(InvalidSettingsError, match="endingOffsets: names orders queue 2, payments queue 0; expected"):
        spans(view, subscribe="orders", endingOffsets='{"orders": {"0": 3, "1": 3, "2": 0}, "payments": {"0": 1}}')
    with pytest.raises(InvalidSettingsError, match="startingOffsetsByTimestamp: lacks orders queue 0"):
        spans(view, subscribe="orders", startingOffsetsByTimestamp='{"orders": {"1": 3}}')
    empty = '{"payments": {"0": 0}, "empty": {"1": 0}}'
    assert spans(view, subscribe="payments,empty", startingOffsets=empty) == {("payments", 0): (0, 1)}


def test_offsets_that_a_queue_does_not_hold_are_lost(view: ReadOnlyStore, caplog: pytest.LogCaptureFixture) -> None:
    beyond = {"startingOffsets": '{"orders": {"0": 11, "1": 3}}', "endingOffsets": '{"orders": {"0": -1, "1": 12}}'}
    with pytest.raises(DataLossError) as caught:
        spans(view, subscribe="orders", **beyond)
    assert caught.value.losses == (
        f"startingOffsets: {view.path}: offset 11 of topic orders queue 0, which holds offsets 0 to 10",
        f"endingOffsets: {view.path}: offset 12 of topic orders queue 1, which holds offsets 0 to 10",
    )
    assert spans(view, subscribe="orders", failOnDataLoss="false", **beyond) == {("orders", 1): (3, 10)}
    assert "goes on without startingOffsets" in caplog.text


def test_offsets_that_retention_has_taken_are_lost(golden: Callable[[str], Path]) -> None:
    with flightlog.open_read_only(golden("minoffset") / "store") as view:
        key, (first, end) = next((key, span) for key, span in view.queues().items() if span[0] > 0)
        asked = {"assign": f'{{"{key[0]}": [{key[1]}]}}', "startingOffsets": f'{{"{key[0]}": {{"{key[1]}": 0}}}}'}
        with pytest.raises(
            DataLossError, match=f"offset 0 of topic {key[0]} queue {key[1]}, which holds offsets {first}"
        ):
            spans(view, **asked)
        assert spans(view, failOnDataLoss="false", **asked) == {key: (first, end)}


@pytest.mark.parametrize(
    ("since", "before", "expected"),
    [
        (0, 10**15, {0: (0, 10), 1: (0, 10)}),
        (FIRST_MS, FIRST_MS + 200, {0: (0, 10), 1: (0, 10)}),
        (FIRST_MS + 1, FIRST_MS + 171, {0: (1, 9), 1: (0, 9)}),
        (FIRST_MS + 60, FIRST_MS + 60, {}),
        (FIRST_MS + 60, FIRST_MS + 80, {0: (3, 4), 1: (3, 4)}),
    ],
)
def test_times(view: ReadOnlyStore, since: int, before: int, expected: dict[int, tuple[int, int]]) -> None:
    wanted = {("orders", queue_id): span for queue_id, span in expected.items()}
    assert spans(view, subscribe="orders", startingTimestamp=str(since), endingTimestamp=str(before)) == wanted
    by_queue = {
        "startingOffsetsByTimestamp": f'{{"orders": {{"0": {since}, "1": {since}}}}}',
        "endingOffsetsByTimestamp": f'{{"orders": {{"0": {before}, "1": {before}}}}}',
    }
    assert spans(view, subscribe="orders", **by_queue) == wanted


def test_a_time_behind_the_last_message(view: ReadOnlyStore) -> None:
    late = str(FIRST_MS + 190)
    with pytest.raises(InvalidSettingsError, match=f"topic orders queue 0 has no message stored at or after {late} ms"):
        spans(view, subscribe="orders", startingTimestamp=late)
    latest = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert spans(view, subscribe="orders", **latest) == {("orders", 1): (9, 10)}
    assert spans(view, subscribe="payments,empty", startingTimestamp=late) == {("payments", 0): (0, 1)}


def test_everything_between_two_times_is_a_matter_of_bounds() -> None:
    given = {"startingtimestamp": "5", "endingtimestamp": "9"}
    assert parse_options({"path": "/s", **given}).bounds == Bounds(store_times_ms=Span(5, 9))
    assert parse_options({"path": "/s"}).bounds == Bounds()
    assert parse_options({"path": "/s", "subscribe": "a", **given}).bounds == Bounds()


def test_names_that_are_not_there(view: ReadOnlyStore) -> None:
    found = "found topics empty, orders, payments"
    with pytest.raises(InvalidSettingsError, match=f"Orders, refunds: not in {view.path}; {found}"):
        spans(view, subscribe="refunds,orders,Orders")
    with pytest.raises(InvalidSettingsError, match=f"orders queue 2: not in {view.path}; {found}"):
        spans(view, assign='{"orders": [0, 2]}')


def test_a_name_need_be_in_one_of_several_stores(view: ReadOnlyStore, tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "other", StoreSettings.small()) as store:
        store.put(Message("refunds", b"x"))
    given = parse_options({"path": str(view.path), "subscribe": "orders,refunds"})
    with flightlog.open_read_only(tmp_path / "other") as other:
        require_known(given, [view, other])
        assert narrowed(other, selected_spans(other, given, Losses()) or {}) == {("refunds", 0): (0, 1)}
        with pytest.raises(InvalidSettingsError, match="refunds: not in"):
            require_known(given, [view])


def test_bounds_narrow_it(view: ReadOnlyStore) -> None:
    assert spans(view, Bounds(topics=frozenset({"payments"})), subscribePattern=".*") == {("payments", 0): (0, 1)}
    some = Bounds(queue_ids=Span(1, 2), queue_offsets=Span(4, 8))
    assert spans(view, some, subscribePattern=".*") == {("orders", 1): (4, 8)}
    places = {queue_id: [m.physical_offset for m in view.read("orders", queue_id)] for queue_id in (0, 1)}
    physical = Bounds(physical_offsets=Span(places[0][3], places[1][5] + 1))
    assert spans(view, physical, subscribe="orders") == {("orders", 0): (3, 6), ("orders", 1): (3, 6)}


def test_a_topics_file_that_cannot_be_read_hides_no_messages(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        store.create_topic("empty", 1)
        store.put(Message("orders", b"x", queue_id=0))
        assert store.verify().is_clean
    for file in (path / "config").glob("topics.json*"):
        file.write_bytes(b"{")
    with flightlog.open_read_only(path) as view:
        assert spans(view, subscribe="orders") == {("orders", 0): (0, 1)}
        assert "topics without messages are not known" in caplog.text
        with pytest.raises(InvalidSettingsError, match="empty: not in"):
            spans(view, subscribe="empty")
