"""The log as it grows: where records go, when a segment is full, what queue offsets they get."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, PutResult, PutStatus, StoreSettings
from flightlog.store.errors import BodyTooLargeError, InvalidMessageError, RecordTooLargeError, WrongTypeError
from flightlog.store.segments.segment import FOLIO_SIZE

SIZE = 4096
EMPTY_RECORD_SIZE = 91 + 1
"""Bytes of a record of topic `t` without a body."""
SETTINGS = StoreSettings(segment_size=SIZE, queue_file_entries=10)

AssertClean = Callable[[Path], None]

pytestmark = pytest.mark.usefixtures("kernel")


def segments(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}


def filling(size: int, **fields: object) -> Message:
    """A message whose record takes `size` bytes."""
    return replace(Message("t", bytes(size - EMPTY_RECORD_SIZE)), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("left", range(20))
@pytest.mark.parametrize("at_once", [False, True])
def test_a_record_must_leave_eight_bytes(left: int, at_once: bool, tmp_path: Path, assert_clean: AssertClean) -> None:
    """Exactly eight are enough for the filler; seven are not, and then the record opens the next segment."""
    messages = [filling(1000), filling(SIZE - 1000 - left), filling(100)]
    with flightlog.open(tmp_path, SETTINGS) as store:
        first, second, third = store.put_many(messages) if at_once else [store.put(m) for m in messages]
        assert (first.physical_offset, first.size) == (0, 1000)
        files = segments(tmp_path)
        assert list(files) == [f"{0:020d}", f"{SIZE:020d}"]
        if left >= 8:
            assert second.physical_offset == 1000
            filler = SIZE - left
        else:
            assert second.physical_offset == SIZE
            filler = 1000
        assert files[f"{0:020d}"][filler : filler + 8] == (SIZE - filler).to_bytes(4, "big") + bytes.fromhex("cbd43194")
        assert files[f"{0:020d}"][filler + 8 :] == bytes(SIZE - filler - 8), "only eight bytes of it are written"
        assert third.physical_offset == (SIZE if left >= 8 else second.physical_offset + second.size)
        assert [m.size for m in store.read("t")] == [1000, SIZE - 1000 - left, 100]
    assert_clean(tmp_path)


def test_a_segment_without_room_gets_its_filler_with_the_next_put(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(filling(SIZE - 8))
        assert list(segments(tmp_path)) == [f"{0:020d}"]
        assert segments(tmp_path)[f"{0:020d}"][-8:] == bytes(8)
    assert_clean(tmp_path)
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert store.put(Message("t", b"x")).physical_offset == SIZE
        assert segments(tmp_path)[f"{0:020d}"][-8:].hex() == "00000008cbd43194"
    assert_clean(tmp_path)


def test_records_that_fill_segments_one_by_one(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = store.put_many([filling(SIZE - 8)] * 30)
        assert [r.physical_offset for r in results] == [i * SIZE for i in range(30)]
        with pytest.raises(RecordTooLargeError):
            store.put(filling(SIZE - 7))
        assert store.put(filling(SIZE - 8)).physical_offset == 30 * SIZE
    assert len(segments(tmp_path)) == 31
    assert_clean(tmp_path)


def test_names_of_segments_of_default_size(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path) as store:
        store.put(Message("t", b"x"))
        (segment,) = (tmp_path / "commitlog").iterdir()
        assert segment.name == "00000000000000000000" and segment.stat().st_size == 1 << 30
        blocks = segment.stat().st_blocks * 512
        whole_folios = (64 << 20) + FOLIO_SIZE  # a step ahead of the record, by the put or by who prepares
        assert 4096 <= blocks <= whole_folios + (1 << 20), "blocks a step ahead, not a gigabyte of them"
        assert store.queues()
        (queue,) = (tmp_path / "consumequeue" / "t" / "0").iterdir()
        assert queue.stat().st_size == 6_000_000 and queue.stat().st_blocks * 512 <= 65_536
    assert_clean(tmp_path)


def test_blocks_are_allocated_a_step_ahead(tmp_path: Path, assert_clean: AssertClean) -> None:
    step, size, record_size = 4 << 20, 32 << 20, 256 << 10
    # As by default, but that a log at rest gets no more for the next burst: this one may rest where the machine does.
    settings = StoreSettings(segment_size=size, allocate_step_size=step, prepare_ahead_size=size // 4)
    with flightlog.open(tmp_path, settings) as store:
        seen = set()
        for _ in range(80):
            result = store.put(filling(record_size))
            blocks = os.stat(tmp_path / "commitlog" / f"{0:020d}").st_blocks * 512
            end = result.physical_offset + result.size
            # By whole pieces of the page cache, lest a store into one that is half allocated fail.
            assert end + 8 <= blocks <= end + step + 2 * FOLIO_SIZE
            seen.add(blocks)
        assert len(seen) >= 80 * record_size // (step + FOLIO_SIZE) > 2
    assert_clean(tmp_path)


def test_queue_offsets_count_by_topic_and_queue(tmp_path: Path, assert_clean: AssertClean) -> None:
    chance = random.Random(7)
    expected: Counter[tuple[str, int]] = Counter()
    with flightlog.open(tmp_path, StoreSettings.small(put_adds_queues=True)) as store:
        for _ in range(500):
            key = (chance.choice(["a", "b", "%RETRY%a"]), chance.choice([0, 1, 1 << 30]))
            result = store.put(Message(key[0], b"x" * chance.randrange(1, 100), queue_id=key[1]))
            assert (result.topic, result.queue_id, result.queue_offset) == (*key, expected[key])
            expected[key] += 1
        assert store.queues() == {key: (0, count) for key, count in expected.items()}
    assert_clean(tmp_path)
    with flightlog.open(tmp_path, StoreSettings.small(put_adds_queues=True)) as store:
        for key, count in expected.items():
            assert store.put(Message(key[0], b"x", queue_id=key[1])).queue_offset == count
    assert_clean(tmp_path)


def test_prepared_and_rollback_records_stand_in_no_queue(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        flags = [0, 4, 0xC, 8, 4, 0, 0xC, 8]
        results = [store.put(Message("t", b"%d" % i, sys_flag=flag)) for i, flag in enumerate(flags)]
        assert [r.queue_offset for r in results] == [0, 0, 0, 1, 0, 2, 0, 3]
        assert [m.body for m in store.read("t")] == [b"0", b"3", b"5", b"7"]
        assert store.queues() == {("t", 0): (0, 4)}
        assert store.put(Message("only-prepared", b"x", sys_flag=4)).queue_offset == 0
        assert ("only-prepared", 0) not in store.queues()
    assert not (tmp_path / "consumequeue" / "only-prepared").exists()
    with flightlog.open_read_only(tmp_path) as view:
        for i, result in enumerate(results):
            message = view.log_reader.message_at(result.physical_offset)
            assert (message.body, message.sys_flag, message.transaction_type) == (b"%d" % i, flags[i], flags[i])
            assert message.queue_offset == result.queue_offset
    assert_clean(tmp_path)


def test_put_many_answers_in_order_across_segments(tmp_path: Path, assert_clean: AssertClean) -> None:
    chance = random.Random(3)
    messages = [
        Message(chance.choice("ab"), bytes([i % 256]) * chance.randrange(1, 1500), queue_id=chance.randrange(3))
        for i in range(600)
    ]
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = store.put_many(iter(messages))
        assert len(results) == len(messages)
        expected: Counter[tuple[str, int]] = Counter()
        for message, result in zip(messages, results, strict=True):
            key = (message.topic, message.queue_id or 0)
            assert result.status is PutStatus.PUT_OK
            assert (result.topic, result.queue_id, result.queue_offset) == (*key, expected[key])
            expected[key] += 1
        places = [r.physical_offset for r in results]
        assert places == sorted(places)
        assert all(r.physical_offset % SIZE + r.size + 8 <= SIZE for r in results)
        read = sorted((m for key in store.queues() for m in store.read(*key)), key=lambda m: m.physical_offset)
        assert [m.body for m in read] == [m.body for m in messages]
        assert [m.message_id for m in read] == [r.message_id for r in results]
        assert store.put_many([]) == []
    assert len(segments(tmp_path)) > 100
    assert_clean(tmp_path)


def test_one_wrong_message_of_many_stores_none(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("t", b"before"))
        with pytest.raises(BodyTooLargeError):
            store.put_many([Message("t", b"a"), Message("t", bytes(5 << 20)), Message("t", b"b")])
        with pytest.raises(InvalidMessageError):
            store.put_many(Message("t", b"a", queue_id=i) for i in (0, 1, -1))
        result = store.put(Message("t", b"after"))
        assert result.queue_offset == 1
        assert [m.body for m in store.read("t")] == [b"before", b"after"]
    assert_clean(tmp_path)


def test_a_hook_may_replace_a_message_before_the_append(tmp_path: Path, assert_clean: AssertClean) -> None:
    seen = []

    def park(message: Message) -> Message:
        seen.append(message.topic)
        if message.topic != "later":
            return message
        return replace(message, topic="parked", queue_id=7, properties={"REAL_TOPIC": message.topic})

    with flightlog.open(tmp_path, StoreSettings.small(), pre_put_hook=park) as store:
        results: list[PutResult] = [store.put(Message("now", b"1")), store.put(Message("later", b"2"))]
        results += store.put_many([Message("later", b"3"), Message("now", b"4")])
        assert seen == ["now", "later", "later", "now"]
        assert [(r.topic, r.queue_id, r.queue_offset) for r in results] == [
            *(("now", 0, 0), ("parked", 7, 0), ("parked", 7, 1), ("now", 0, 1))
        ]
        assert [(m.body, m.properties) for m in store.read("parked", 7)] == [
            *((b"2", {"REAL_TOPIC": "later"}), (b"3", {"REAL_TOPIC": "later"}))
        ]
        assert ("later", 0) not in store.queues()
    assert_clean(tmp_path)


def test_what_a_diversion_returns_is_checked_too(tmp_path: Path, assert_clean: AssertClean) -> None:
    def spoil(message: Message) -> Message:
        return replace(message, queue_id=-1)

    with (
        flightlog.open(tmp_path, SETTINGS, pre_put_hook=spoil) as store,
        pytest.raises(InvalidMessageError, match="queue_id"),
    ):
        store.put(Message("t", b"x"))
    assert_clean(tmp_path)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Message("t", b"x", delay_level=3), r"delay_level=3\): expected none in a store opened with a pre_put_hook"),
        (Message("t", b"x", properties={"DELAY": "3"}), r"delay_level=3\): expected none"),
        (Message("t", b"x").deliver_after_ms(60_000), r"TIMER_DELAY_MS\): expected none"),
    ],
)
def test_a_delay_that_a_hook_leaves_is_refused(
    message: Message, says: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS, pre_put_hook=lambda message: message) as store:
        with pytest.raises(InvalidMessageError, match=says):
            store.put(message)
        assert not store.topics()
    assert_clean(tmp_path)


def test_a_hook_that_is_none_is_refused(tmp_path: Path, assert_clean: AssertClean) -> None:
    with pytest.raises(WrongTypeError, match="pre_put_hook"):
        flightlog.open(tmp_path, SETTINGS, pre_put_hook=3)  # type: ignore[arg-type]
    answer: Any = 3
    with (
        flightlog.open(tmp_path, SETTINGS, pre_put_hook=lambda message: answer) as store,
        pytest.raises(WrongTypeError, match="what pre_put_hook returned"),
    ):
        store.put(Message("t", b"x"))
    assert_clean(tmp_path)


def test_a_record_of_every_kind_is_read_as_it_was_put(tmp_path: Path, assert_clean: AssertClean) -> None:
    messages = [
        Message("t", b"x"),
        Message(
            "t", bytes(range(256)), tags="标签", keys=["键", "k2"], properties={"ключ": "значение", "e": "\U0001f680"}
        ),
        Message("t", b"x", flag=-1, reconsume_times=3, sys_flag=0x703, prepared_transaction_offset=123),
        Message("t", b"x", born_timestamp_ms=1, born_host=("2001:db8::1", 1), uniq_key="U"),
        Message("中文", b"x", queue_id=5),
        Message("%RETRY%" + "中" * 82, b"x"),
        Message("%RETRY%" + "g" * 248, b"x"),
    ]
    for host in (("10.0.0.1", 10911), ("2001:db8::2", 10911)):
        with flightlog.open(tmp_path, StoreSettings.small(store_host=host, rocketmq_strict=False)) as store:
            results = store.put_many(messages)
            for message, result in zip(messages, results, strict=True):
                found = next(store.read(message.topic, result.queue_id, result.queue_offset))
                assert (found.topic, found.queue_id, found.body) == (message.topic, message.queue_id, message.body)
                assert found.properties == message.all_properties()
                assert (found.flag, found.reconsume_times) == (message.flag, message.reconsume_times)
                assert found.prepared_transaction_offset == message.prepared_transaction_offset
                assert found.sys_flag & ~0x30 == message.sys_flag
                assert found.born_host == (message.born_host or host) and found.store_host == host
                assert found.born_timestamp_ms == (message.born_timestamp_ms or found.store_timestamp_ms)
                assert found.message_id == result.message_id
                assert found.store_timestamp_ms == result.store_timestamp_ms
    assert_clean(tmp_path)
