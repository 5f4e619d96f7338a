"""The key index between flightlog and RocketMQ: either finds what the other one indexed, and flightlog always all.

RocketMQ compares hashes alone, so what it must answer is every message with a key of the same hash.
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import ReadOnlyStore, Store, StoredMessage
from flightlog.index.key.index_file import key_hash
from flightlog.store.format.sys_flag import has_queue_entry
from flightlog.tests.interop import asking, mixed
from flightlog.tests.interop.harness import Line, RocketMq

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

    Pair = tuple[str, str]
    ByKey = dict[Pair, list[int]]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]

FEATURES = ("v2", "v6", "unicode", "empty", "batch", "types", "collide", "keys")
MANY = 1 << 30


class Keys:
    """What must be found by key in a store, and what either side finds."""

    def __init__(self, seed: int) -> None:
        self._asking = asking
        self._dice = random.Random(seed)
        self.lines: list[Line] = []

    def by_key(self) -> ByKey:
        """(topic, key) -> physical offsets, newest first."""
        lines = sorted(self.lines, key=lambda line: int(line["commitLogOffset"]))
        case = self._asking.Case("", Path(), lines, {})
        # A view takes a topic without a queue for a deleted one. Brokers put half messages into a topic of their own.
        has_queue = {line["topic"] for line in lines if has_queue_entry(line["sysFlag"])}
        return {
            (topic, key): [line["commitLogOffset"] for line in found]
            for (topic, key), found in case.by_key.items()
            if topic in has_queue
        }

    def check(self, store: Store | ReadOnlyStore, *, may_hold_more: bool = False, sample: int | None = None) -> None:
        """flightlog finds exactly these; after a kill also what was put and never acknowledged. `sample`: so many keys
        are asked for, others each time."""
        known = {line["commitLogOffset"] for line in self.lines}
        by_key = self.by_key()
        pairs = sorted(by_key) if sample is None else self._dice.sample(sorted(by_key), min(sample, len(by_key)))
        for topic, key in pairs:
            expected = by_key[topic, key]
            found = store.query(topic, key, max_count=MANY)
            assert not found.has_more
            offsets = [message.physical_offset for message in found.messages]
            assert offsets == sorted(offsets, reverse=True)
            assert [at for at in offsets if at in known or not may_hold_more] == expected, (topic, key)
        for topic in {topic for topic, _ in by_key}:
            assert not store.query(topic, "no such key").messages

    def check_rocketmq(self, answers: dict[Pair, list[int]], *, all_of_them: bool) -> None:
        """RocketMQ finds what hashes alike; all of it unless it may have lost keys."""
        alike: dict[int, set[int]] = defaultdict(set)
        for (topic, key), expected in self.by_key().items():
            alike[key_hash(topic, key)] |= set(expected)
        for (topic, key), found in answers.items():
            expected_set = alike[key_hash(topic, key)]
            assert set(found) <= expected_set, (topic, key)
            assert set(found) == expected_set or not all_of_them, (topic, key)


@pytest.fixture
def keys(interop_seed: int) -> Keys:
    return Keys(interop_seed)


def assert_clean(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def index_files(path: Path) -> list[Path]:
    return sorted((path / "index").iterdir())


def test_rocketmq_finds_every_key_of_a_store_of_ours(
    rocketmq: RocketMq, keys: Keys, interop_seed: int, tmp_path: Path, scale: Scale
) -> None:
    path = tmp_path / "store"
    count, slots, entries, sample = scale.pick(ci=(1500, 100, 200, None), full=(30_000, 1000, 4000, 10_000))
    settings = mixed.small_settings(index_slots=slots, index_entries=entries)
    geometry: dict[str, Any] = {**mixed.SMALL, "index_slots": slots, "index_entries": entries}
    with flightlog.open(path, settings) as store:
        keys.lines += mixed.put_from_threads(store, interop_seed, count)
        keys.check(store, sample=sample)
    assert len(index_files(path)) >= 10
    assert {file.stat().st_size for file in index_files(path)} == {40 + 4 * slots + 20 * entries}
    assert_clean(path)

    opened = rocketmq.open_store(
        path, queries=keys.by_key(), append=600, seed=interop_seed % 1_000_003, features=FEATURES, **geometry
    )

    mixed.check_rocketmq(opened, keys.lines)
    keys.check_rocketmq(opened.queries, all_of_them=True)
    keys.lines += map(mixed.their_line, opened.appended)
    with flightlog.open_read_only(path) as view:
        keys.check(view, sample=sample)
    with flightlog.open(path, settings) as store:
        assert store.recovery_report.keys_put < 20  # of the last message: RocketMQ's own entries were good enough
        keys.check(store, sample=sample)
        keys.lines += mixed.put_from_threads(store, interop_seed + 1, 500)
        keys.check(store, sample=sample)
    assert_clean(path)
    opened = rocketmq.open_store(path, queries=keys.by_key(), **geometry)
    keys.check_rocketmq(opened.queries, all_of_them=True)


def test_flightlog_has_every_key_whoever_wrote_last_and_however_it_ended(
    rocketmq: RocketMq,
    keys: Keys,
    kill_writer: Callable[..., list[Line]],
    interop_seed: int,
    tmp_path: Path,
    scale: Scale,
) -> None:
    """Sessions in turn; RocketMQ's recovery after an unclean exit throws index files away."""
    path = tmp_path / "store"
    base = interop_seed % 1_000_003
    first, sample = 0, scale.pick(ci=500, full=None)

    def look(**how: Any) -> None:
        with flightlog.open_read_only(path) as view:
            keys.check(view, sample=sample, **how)

    def ours(count: int = 300) -> None:
        with flightlog.open(path, mixed.small_settings(store_host=("2001:db8::1", 10911))) as store:
            keys.check(store, sample=sample)
            keys.lines += mixed.put_from_threads(store, base + len(keys.lines), count)
            keys.check(store, sample=sample)
        look()
        assert_clean(path)

    def ours_killed() -> None:
        acknowledged = kill_writer(path, seed=base + len(keys.lines), acknowledged=250, ipv6=True)
        keys.lines += acknowledged
        look(may_hold_more=True)
        copy = shutil.copytree(path, tmp_path / f"killed-{len(keys.lines)}")
        with flightlog.open(copy) as store:
            keys.check(store, may_hold_more=True, sample=sample)
            known = {line["commitLogOffset"] for line in keys.lines}
            every = list(every_message(store))
        assert_clean(copy)
        shutil.rmtree(copy)
        keys.lines += [line for line in map(mixed.our_line, every) if line["commitLogOffset"] not in known]

    def theirs(*, all_of_them: bool = False, **end: Any) -> None:
        nonlocal first
        first += 1000
        if end:
            written = rocketmq.write_store(
                path, seed=base, first=first, count=250, features=FEATURES, **end, **mixed.SMALL
            )
        else:
            opened = rocketmq.open_store(
                path, queries=keys.by_key(), seed=base, first=first, append=250, features=FEATURES, **mixed.SMALL
            )
            keys.check_rocketmq(opened.queries, all_of_them=all_of_them)
            written = opened.appended
        keys.lines += map(mixed.their_line, written)
        look()

    ours(600)
    theirs(all_of_them=True)
    ours_killed()
    theirs()
    ours()
    theirs(halt=True)
    ours_killed()
    ours()
    theirs(halt=True, lag=80)
    theirs()
    ours()
    with flightlog.open_read_only(path) as view:
        keys.check(view)


def every_message(store: Store) -> Iterator[StoredMessage]:
    """Also what no queue lists."""
    end = store.recovery_report.end
    with flightlog.open_read_only(store.path) as view:
        for segment, start, stop in view.log_reader.segments_between(view.min_physical_offset, end):
            for _, rows in view.log_reader.scan(segment, start, stop, check_crc=True):
                for at in rows["physical_offset"].tolist():
                    yield view.log_reader.message_at(at)


def test_flightlog_completes_an_index_that_rocketmq_recovered(
    rocketmq: RocketMq, keys: Keys, interop_seed: int, tmp_path: Path
) -> None:
    """Halted after some seconds, recovered and closed by RocketMQ itself: the keys of the session's beginning are in no
    index file, and nothing but the log says so."""
    path = tmp_path / "store"
    geometry: dict[str, Any] = {**mixed.SMALL, "index_entries": 40_000}
    flush_often = {"flushCommitLogThoroughInterval": "300", "flushConsumeQueueThoroughInterval": "300"}
    options: dict[str, Any] = {"seed": interop_seed % 1_000_003, "body_max": 3000, "features": FEATURES, **geometry}
    options["config"] = flush_often
    written = rocketmq.write_store(path, count=500, halt=True, pause_every=50, pause_ms=2000, **options)
    keys.lines += map(mixed.their_line, written)

    opened = rocketmq.open_store(path, append=50, queries=keys.by_key(), **options)

    keys.check_rocketmq(opened.queries, all_of_them=False)
    lost = [pair for pair, expected in keys.by_key().items() if not set(opened.queries[pair]) >= set(expected)]
    assert len(lost) >= 50
    keys.lines += map(mixed.their_line, opened.appended)
    with flightlog.open_read_only(path) as view:
        keys.check(view)
        (finding,) = view.verify().findings
    assert "in no index file" in finding.meaning and "RocketMQ" in finding.meaning
    with flightlog.open(path) as store:
        assert store.recovery_report.keys_put > 0
        keys.check(store)
    assert_clean(path)
    opened = rocketmq.open_store(path, queries=keys.by_key(), **geometry)
    keys.check_rocketmq(opened.queries, all_of_them=True)
