"""Reading one queue: RocketMQ's statuses and next offsets, and iterators that go on to the very end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, GetStatus, Message, Store, StoreSettings
from flightlog.store.errors import CorruptQueueError, CorruptRecordError, UsageError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10)


def fill(root: Path, count: int, topic: str = "t") -> None:
    with flightlog.open(root, SETTINGS) as store:
        store.put_many([Message(topic, b"%04d" % i + bytes(200)) for i in range(count)])


def numbers(messages: list[flightlog.StoredMessage]) -> list[int]:
    return [int(m.body[:4]) for m in messages]


@pytest.fixture(params=["writer", "view"])
def reader(request: pytest.FixtureRequest) -> Callable[[Path], flightlog.Store | flightlog.ReadOnlyStore]:
    """What is asked: the store that is open for writing, or a read-only view. Both answer alike."""
    return (lambda root: flightlog.open(root)) if request.param == "writer" else flightlog.open_read_only


AnyReader = Callable[[Path], Store]


@pytest.mark.parametrize(
    ("queue_offset", "status", "next_queue_offset", "found"),
    [
        *((-(1 << 62), GetStatus.OFFSET_TOO_SMALL, 0, 0), (-1, GetStatus.OFFSET_TOO_SMALL, 0, 0)),
        *((0, GetStatus.FOUND, 10, 10), (1, GetStatus.FOUND, 10, 9), (9, GetStatus.FOUND, 10, 1)),
        *((10, GetStatus.FOUND, 20, 10), (20, GetStatus.FOUND, 25, 5)),
        *((24, GetStatus.FOUND, 25, 1), (25, GetStatus.OFFSET_OVERFLOW_ONE, 25, 0)),
        *((26, GetStatus.OFFSET_OVERFLOW_BADLY, 25, 0), (1 << 62, GetStatus.OFFSET_OVERFLOW_BADLY, 25, 0)),
    ],
)
def test_statuses_and_next_offsets(
    queue_offset: int,
    status: GetStatus,
    next_queue_offset: int,
    found: int,
    reader: AnyReader,
    tmp_path: Path,
    assert_clean: AssertClean,
) -> None:
    fill(tmp_path, 25)
    with reader(tmp_path) as store:
        result = store.get("t", 0, queue_offset)
        assert (result.status, result.next_queue_offset) == (status, next_queue_offset)
        assert (result.min_queue_offset, result.max_queue_offset) == (0, 25)
        assert numbers(result.messages) == list(range(next_queue_offset - found, next_queue_offset))
        for unknown in (("u", 0), ("t", 1), ("T", 0)):
            result = store.get(*unknown, queue_offset)
            assert (result.status, result.next_queue_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)
            assert (result.min_queue_offset, result.max_queue_offset, result.messages) == (0, 0, [])
    assert_clean(tmp_path)


@pytest.mark.parametrize("max_count", [1, 2, 9, 10, 11, 24, 25, 26, 1000])
def test_as_many_as_asked_for_of_one_queue_file(max_count: int, reader: AnyReader, tmp_path: Path) -> None:
    fill(tmp_path, 25)
    with reader(tmp_path) as store:
        found, at, rounds = [], 0, 0
        while (result := store.get("t", 0, at, max_count)).status is GetStatus.FOUND:
            assert 1 <= len(result.messages) <= max_count
            assert result.next_queue_offset == result.messages[-1].queue_offset + 1
            found += result.messages
            at = result.next_queue_offset
            rounds += 1
        assert numbers(found) == list(range(25))
        assert rounds == sum(-(-in_file // max_count) for in_file in (10, 10, 5))
        assert result.status is GetStatus.OFFSET_OVERFLOW_ONE
        for wrong in (0, -1):
            with pytest.raises(UsageError, match="max_count"):
                store.get("t", 0, 0, wrong)


def test_a_queue_that_never_held_anything(reader: AnyReader, tmp_path: Path, assert_clean: AssertClean) -> None:
    """RocketMQ makes files for a queue before its first entry."""
    fill(tmp_path, 3)
    folder = tmp_path / "consumequeue" / "t" / "7"
    folder.mkdir()
    (folder / f"{0:020d}").write_bytes(bytes(200))
    with reader(tmp_path) as store:
        for queue_offset in (-1, 0, 1, 1 << 40):
            result = store.get("t", 7, queue_offset)
            assert (result.status, result.next_queue_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0)
        assert list(store.read("t", 7)) == []
        assert store.queues()["t", 7] == (0, 0)
    assert_clean(tmp_path)


@pytest.mark.parametrize("removed", [1, 2, 3])
def test_messages_whose_segments_expired(
    removed: int, reader: AnyReader, tmp_path: Path, assert_clean: AssertClean
) -> None:
    fill(tmp_path, 60, "old")
    with flightlog.open(tmp_path) as store:
        store.put_many([Message("t", b"%04d" % i + bytes(200)) for i in range(60)])
        assert store.put(Message("gone", b"x" * 3000)).queue_offset == 0
    (tmp_path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    for base in range(removed):
        (tmp_path / "commitlog" / f"{base * SEGMENT_SIZE:020d}").unlink()
    with reader(tmp_path) as store:
        first, end = store.queues()["old", 0]
        assert 0 < first < end == 60
        result = store.get("old", 0, first - 1)
        assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_TOO_SMALL, first)
        result = store.get("old", 0, first, 1000)
        file_end = first - first % 10 + 10
        assert (result.status, result.next_queue_offset) == (GetStatus.FOUND, file_end)
        assert numbers(result.messages) == list(range(first, file_end))
        assert numbers(list(store.read("old"))) == numbers(list(store.read("old", 0, 0))) == list(range(first, 60))
    assert_clean(tmp_path)


def test_a_queue_of_which_everything_expired_keeps_its_offsets(
    reader: AnyReader, tmp_path: Path, assert_clean: AssertClean
) -> None:
    fill(tmp_path, 13, "old")
    fill(tmp_path, 40)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    (tmp_path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    with reader(tmp_path) as store:
        assert store.queues()["old", 0] == (13, 13)
        statuses = {
            *((0, GetStatus.OFFSET_TOO_SMALL, 13), (12, GetStatus.OFFSET_TOO_SMALL, 13)),
            *((13, GetStatus.OFFSET_OVERFLOW_ONE, 13), (14, GetStatus.OFFSET_OVERFLOW_BADLY, 13)),
        }
        for queue_offset, status, next_queue_offset in statuses:
            result = store.get("old", 0, queue_offset)
            assert (result.status, result.next_queue_offset) == (status, next_queue_offset)
        assert list(store.read("old")) == []
    with flightlog.open(tmp_path) as store:
        assert store.put(Message("old", b"9999")).queue_offset == 13
        assert numbers(list(store.read("old"))) == [9999]
    assert_clean(tmp_path)


def test_a_queue_file_that_vanishes(reader: AnyReader, tmp_path: Path) -> None:
    fill(tmp_path, 35)
    with reader(tmp_path) as store:
        assert len(list(store.read("t"))) == 35
        (tmp_path / "consumequeue" / "t" / "0" / f"{200:020d}").unlink()
        result = store.get("t", 0, 13)
        assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_FOUND_NULL, 20)
        assert numbers(store.get("t", 0, 20).messages) == list(range(20, 30))
        with pytest.raises(CorruptQueueError, match="no queue file") as raised:
            list(store.read("t"))
        assert (raised.value.path, raised.value.queue_offset) == (tmp_path / "consumequeue" / "t" / "0", 10)
        assert numbers(list(store.read("t", on_corrupt="skip"))) == [*range(10), *range(20, 35)]
        assert store.corrupt_skipped == 10


@pytest.mark.parametrize("queue_offset", [None, 0, 1, 9, 10, 24, 25, 26, 1 << 40])
def test_iterators(queue_offset: int | None, reader: AnyReader, tmp_path: Path) -> None:
    fill(tmp_path, 25)
    with reader(tmp_path) as store:
        expected = list(range(max(queue_offset or 0, 0), 25))
        assert numbers(list(store.read("t", 0, queue_offset))) == expected
        assert list(store.read("u", 0, queue_offset)) == []


def test_iterators_do_not_disturb_each_other(reader: AnyReader, tmp_path: Path) -> None:
    fill(tmp_path, 1200)
    with reader(tmp_path) as store:
        pairs = zip(store.read("t"), store.read("t", 0, 600), strict=False)
        assert [(a.queue_offset, b.queue_offset) for a, b in pairs] == [(i, i + 600) for i in range(600)]


def test_an_iterator_goes_on_while_messages_come(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Each put that returned before the end was reached is part of what is read, without waiting for any timer."""
    slow = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_interval_ms=3_600_000)
    with flightlog.open(tmp_path, slow) as store:
        store.put(Message("t", b"0"))
        read = []
        for message in store.read("t"):
            read.append(int(message.body))
            if read[-1] < 100:
                store.put(Message("t", b"%d" % (read[-1] + 1) + bytes(0)))
        assert read == list(range(101))
        iterator = store.read("t", 0, 101)
        store.put(Message("t", b"101"))
        assert [m.body for m in iterator] == [b"101"]
        assert list(iterator) == []
    assert_clean(tmp_path)


@pytest.mark.parametrize("flush_mode", list(FlushMode))
def test_a_put_that_returned_is_there(flush_mode: FlushMode, tmp_path: Path, assert_clean: AssertClean) -> None:
    settings = StoreSettings(
        segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_mode=flush_mode, flush_interval_ms=3_600_000
    )
    with flightlog.open(tmp_path, settings) as store:
        for i in range(0, 60, 3):
            store.put(Message("t", b"%d" % i))
            assert store.get("t", 0, i).messages[0].body == b"%d" % i
            store.put_many([Message("t", b"x"), Message("t", b"y")])
            assert store.queues() == {("t", 0): (0, i + 3)}
            assert [m.body for m in store.read("t", 0, i + 1)] == [b"x", b"y"]
            assert store.get("t", 0, i + 3).status is GetStatus.OFFSET_OVERFLOW_ONE
    assert_clean(tmp_path)


def test_many_readers_beside_many_writers(tmp_path: Path, assert_clean: AssertClean) -> None:
    settings = StoreSettings(segment_size=16_384, queue_file_entries=50)
    failures: list[BaseException] = []
    done = threading.Event()

    def write(number: int) -> None:
        for i in range(300):
            store.put(Message("t", b"%d" % i, queue_id=number))

    def read(number: int) -> None:
        try:
            while not done.is_set():
                _, end = store.queues().get(("t", number), (0, 0))
                bodies = [int(m.body) for m in store.read("t", number)]
                assert bodies == list(range(len(bodies))) and len(bodies) >= end
        except BaseException as e:
            failures.append(e)

    with flightlog.open(tmp_path, settings) as store:
        writers = [threading.Thread(target=write, args=(i,)) for i in range(2)]
        readers = [threading.Thread(target=read, args=(i,)) for i in range(2)]
        for thread in writers + readers:
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        for thread in readers:
            thread.join()
        assert failures == []
        assert store.queues() == {("t", 0): (0, 300), ("t", 1): (0, 300)}
    assert_clean(tmp_path)


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x55
    path.write_bytes(raw)


def test_a_damaged_message_is_named_and_what_stands_before_it_is_given(reader: AnyReader, tmp_path: Path) -> None:
    fill(tmp_path, 35)
    with flightlog.open_read_only(tmp_path) as view:
        victim = view.get("t", 0, 17, 1).messages[0]
    segment = tmp_path / "commitlog" / f"{victim.physical_offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    flip(segment, victim.physical_offset % SEGMENT_SIZE + 100)
    with reader(tmp_path) as store:
        result = store.get("t", 0, 15, 20)
        assert (result.status, result.next_queue_offset) == (GetStatus.FOUND, 17)
        assert numbers(result.messages) == [15, 16]
        with pytest.raises(CorruptRecordError, match="a body that differs from its CRC") as raised:
            store.get("t", 0, 17)
        assert (raised.value.path, raised.value.physical_offset) == (segment, victim.physical_offset)
        assert numbers(store.get("t", 0, 18, 100).messages) == [18, 19]
        assert numbers(list(store.read("t", on_corrupt="skip"))) == [*range(17), *range(18, 35)]
        assert store.corrupt_skipped == 1


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (bytes(20), "an entry without a record"),
        (bytes.fromhex("0000000000000000 7fffffff 0000000000000000"), "an entry without a record"),
        (bytes.fromhex("0000000000000000 00000128 0000000000000000"), "topic t queue 0 offset 0"),
        (bytes.fromhex("0000000000000001 00000128 0000000000000000"), "no record"),
        (bytes.fromhex("0000000000000000 00000129 0000000000000000"), "a record of 296 bytes"),
        (bytes.fromhex("0000007000000000 00000128 0000000000000000"), "no segment"),
    ],
)
def test_an_entry_that_points_elsewhere(entry: bytes, words: str, reader: AnyReader, tmp_path: Path) -> None:
    fill(tmp_path, 35)
    path = tmp_path / "consumequeue" / "t" / "0" / f"{200:020d}"
    with reader(tmp_path) as store:
        raw = path.read_bytes()
        path.write_bytes(raw[:40] + entry + raw[60:])
        with pytest.raises((CorruptQueueError, CorruptRecordError), match=words):
            list(store.read("t"))
        with pytest.raises((CorruptQueueError, CorruptRecordError), match=words):
            store.get("t", 0, 12)
        assert numbers(list(store.read("t", on_corrupt="skip"))) == [*range(12), *range(13, 35)]
        path.write_bytes(raw)
