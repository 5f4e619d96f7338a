"""Estimates of how many messages match: exact as long as few enough entries are looked at, inferred beyond."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import UsageError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet

SETTINGS = StoreSettings(segment_size=1 << 20, queue_file_entries=4000)
TAGS = ("A", "B", "Aa", "BB", None)
MAX_SCANNED, ENOUGH_MATCHES = 20_000, 5_000


def by_the_rule(matches: Sequence[bool], start: int, stop: int) -> int:
    """`matches` says of each entry whether it does; the range lies within the queue."""
    found = 0
    for scanned, i in enumerate(range(start, stop), 1):
        found += matches[i]
        if scanned >= MAX_SCANNED or found > ENOUGH_MATCHES:
            return int(found * (stop - start) * 1.0 / scanned)
    return found


@pytest.fixture(scope="module")
def long_queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """26,000 messages whose tags go round, but the last thousand are all A. Nobody changes them."""
    root = tmp_path_factory.mktemp("counts") / "store"
    with flightlog.open(root, SETTINGS) as store:
        store.put_many([Message("t", b"x", tags=tag_of(i)) for i in range(26_000)])
    return root


def tag_of(i: int) -> str | None:
    return "A" if i >= 25_000 else TAGS[i % 5]


RANGES = (
    *((0, 26_000), (0, 25_000), (0, 1), (1, 2), (0, 5), (3999, 4001), (4000, 8000), (7, 7), (25_990, 26_000)),
    *((0, 20_000), (0, 20_001), (1, 20_000), (5_990, 26_000), (6_000, 26_000), (6_001, 26_000), (0, 19_999)),
    *((24_000, 26_000), (20_000, 26_000), (5_000, 17_500)),
)


@pytest.mark.parametrize("tags", ["A", "B", "A || B", "A||B||Aa", "nobody's"])
def test_against_the_rule(tags: str, long_queue: Path) -> None:
    wanted = {tag.strip() for tag in tags.split("||")} | ({"Aa", "BB"} if "Aa" in tags else set())
    matches = [tag_of(i) in wanted for i in range(26_000)]
    with flightlog.open_read_only(long_queue) as view:
        for start, stop in RANGES:
            assert view.estimate_count("t", 0, start, stop, tags=tags) == by_the_rule(matches, start, stop)


def test_what_the_rule_means(long_queue: Path) -> None:
    with flightlog.open_read_only(long_queue) as view:
        # Exact: few matches in few entries.
        assert view.estimate_count("t", 0, 0, 10_000, tags="B") == 2000
        # 20,000 entries are looked at; 4,000 of them match, and so 5,200 of 26,000 should.
        assert view.estimate_count("t", 0, 0, 26_000, tags="B") == 5200
        # 5,001 matches are enough to judge: the thousand A at the end are never seen.
        assert view.estimate_count("t", 0, 0, 25_900, tags="A || B || nobody's") == 5001 * 25_900 // 12_501


def test_hashes_alone_are_counted(long_queue: Path) -> None:
    with flightlog.open_read_only(long_queue) as view:
        assert view.estimate_count("t", 0, 0, 1000, tags="Aa") == view.estimate_count("t", 0, 0, 1000, tags="BB") == 400


@pytest.mark.parametrize("tags", [None, "", "*"])
def test_without_a_filter_the_queue_is_not_asked(tags: str | None, long_queue: Path) -> None:
    with flightlog.open_read_only(long_queue) as view:
        for key in (("t", 0), ("t", 1), ("nobody", 0)):
            found = [
                view.estimate_count(*key, start, stop, tags=tags)
                for start, stop in ((0, 10), (0, 1 << 40), (-5, 10), (-10, -5), (10, 10), (10, 9), (30_000, 30_007))
            ]
            assert found == [10, 1 << 40, 10, 0, 0, 0, 7]


def test_ranges_that_leave_the_queue(long_queue: Path) -> None:
    """RocketMQ counts nothing of the last file then; here the range ends where the queue does."""
    with flightlog.open_read_only(long_queue) as view:
        for start, stop, expected in (
            *((25_000, 1 << 40, 1000), (25_999, 26_001, 1), (26_000, 26_010, 0), (1 << 40, 1 << 41, 0)),
            *((-5, 10, 2), (-10, -5, 0), (10, 10, 0), (10, 9, 0)),
        ):
            assert view.estimate_count("t", 0, start, stop, tags="A") == expected
        for key in (("t", 1), ("nobody", 0)):
            assert view.estimate_count(*key, 0, 10, tags="A") == 0


def test_a_range_below_the_first_message_is_moved_up(tmp_path: Path, assert_clean: AssertClean) -> None:
    small = StoreSettings(segment_size=4096, queue_file_entries=10)
    with flightlog.open(tmp_path, small) as store:
        store.put_many([Message("t", bytes(290), tags="AB"[i % 2]) for i in range(60)])
    (tmp_path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    for base in (0, 4096):
        (tmp_path / "commitlog" / f"{base:020d}").unlink()
    with flightlog.open_read_only(tmp_path) as view:
        assert view.queues() == {("t", 0): (20, 60)}
        assert view.estimate_count("t", 0, 0, 10, tags="A") == 5  # of [20, 30)
        assert view.estimate_count("t", 0, 19, 20, tags="A") == 1  # of [20, 21)
        assert view.estimate_count("t", 0, 10, 60, tags="A") == 20
        assert view.estimate_count("t", 0, 21, 22, tags="A") == 0
    assert_clean(tmp_path)


def test_a_queue_file_that_vanished_counts_for_nothing(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings(segment_size=4096, queue_file_entries=10)) as store:
        store.put_many([Message("t", b"x", tags="A")] * 45)
    with flightlog.open_read_only(tmp_path) as view:
        (tmp_path / "consumequeue" / "t" / "0" / f"{200:020d}").unlink()
        assert view.estimate_count("t", 0, 0, 45, tags="A") == 35
        assert view.estimate_count("t", 0, 12, 18, tags="A") == 0


def test_a_live_store_counts_what_was_put(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for i in range(1, 20):
            store.put(Message("t", b"x", tags="A"))
            assert store.estimate_count("t", 0, 0, i + 1, tags="A") == i
        with pytest.raises(UsageError, match="names no tag"):
            store.estimate_count("t", 0, 0, 1, tags="||")
    assert_clean(tmp_path)


def test_parked_messages_are_found_by_a_read_alone(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Their entries hold times: RocketMQ's get compares those with hashes, and so does ours."""
    with flightlog.open(tmp_path, SETTINGS, pre_put_hook=copy.copy) as store:  # as one that parks messages
        parked = [
            Message("SCHEDULE_TOPIC_XXXX", b"x", tags=tag_of(i), properties={"DELAY": "3"}, queue_id=2)
            for i in range(50)
        ]
        results = store.put_many(parked)
        for tags, count in (("A", 10), ("Aa", 10), ("A || B", 20), ("nobody's", 0), (None, 50)):
            assert len(list(store.read("SCHEDULE_TOPIC_XXXX", 2, tags=tags))) == count
            known = 50 if tags is None else 0
            assert store.estimate_count("SCHEDULE_TOPIC_XXXX", 2, 0, 50, tags=tags) == known
            found = store.get("SCHEDULE_TOPIC_XXXX", 2, 0, tags=tags)
            assert (len(found.messages), found.next_queue_offset) == ((32, 32) if tags is None else (0, 50))
        path = tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2" / f"{0:020d}"
        assert int.from_bytes(path.read_bytes()[12:20], "big") == results[0].store_timestamp_ms + 10_000
    assert_clean(tmp_path)


@pytest.mark.parametrize("name", ["abort-late", "v2-v6", "cqext", "delay-tx"])
def test_what_rocketmq_wrote(name: str, golden_set: Callable[[str], GoldenSet]) -> None:
    with flightlog.open_read_only(golden_set(name).store) as view:
        for key, (first, end) in view.queues().items():
            tags = [m.tags for m in view.read(*key)]
            for tag in sorted({tag for tag in tags if tag and "||" not in tag})[:3]:
                known = tags.count(tag) if key[0] != "SCHEDULE_TOPIC_XXXX" else 0
                assert view.estimate_count(*key, first, end, tags=tag) == known
