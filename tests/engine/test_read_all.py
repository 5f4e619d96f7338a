"""`read_all`: the queues of a topic as one stream, beside a plain sort of what `read` gives of each."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import CompressionType, Message, ReadOnlyStore, Store, StoredMessage, StoreSettings
from flightlog.engine.read import merged_queues
from flightlog.index.queue.queue_unit import UNIT
from flightlog.store.errors import (
    CorruptQueueError,
    CorruptRecordError,
    InvalidArgumentError,
    StoreClosedError,
    TopicNotFoundError,
)
from flightlog.testing import ManualClock
from flightlog.tests.engine.test_golden_read import CLEAN, HALTED

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet

COUNT = 3000
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics in one log of several segments, one message a second; the queues of `t` differ much in length."""
    path = tmp_path_factory.mktemp("merged") / "store"
    source, clock = random.Random(11), ManualClock(START_MS)
    with flightlog.open(path, StoreSettings.small(segment_size=128 << 10), clock=clock) as store:
        for number in range(COUNT):
            clock.at_ms = START_MS + 1000 * number
            store.put(
                Message(
                    source.choice("tttu"),
                    b"%d" % number + b"." * source.randrange(200),
                    tags=source.choice("ab"),
                    properties={"amount": str(number % 10)},
                    queue_id=min(source.randrange(40), 7),
                    compress=CompressionType.ZLIB if number % 7 == 0 else None,
                )
            )
    return path


def place(message: StoredMessage) -> tuple[int, int]:
    return message.physical_offset, message.batch_index or 0


def everything(store: Store | ReadOnlyStore, topic: str) -> list[StoredMessage]:
    """By a plain sort."""
    found = [each for key in store.queues() if key[0] == topic for each in store.read(*key, on_corrupt="skip")]
    return sorted(found, key=place)


@pytest.mark.usefixtures("kernel")
def test_the_queues_come_as_one_stream_in_the_order_of_the_log(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        for topic in ("t", "u"):
            found = list(view.read_all(topic))
            assert found == everything(view, topic)
            assert len({message.queue_id for message in found}) == 8
            assert [m.store_timestamp_ms for m in found] == sorted(m.store_timestamp_ms for m in found)


def test_pages_of_any_size_make_the_same_stream(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with flightlog.open_read_only(path) as view:
        expected = everything(view, "t")
        for first, page in ((1, 1), (2, 7), (5, 100)):
            monkeypatch.setattr(merged_queues, "FIRST_PAGE_ENTRIES", first)
            monkeypatch.setattr(merged_queues, "PAGE_ENTRIES", page)
            assert list(view.read_all("t")) == expected


def test_a_store_open_for_writing_reads_the_same(path: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        for number in range(100):
            store.put(Message("t", b"%d" % number, queue_id=number * number % 3))
        assert [int(message.body) for message in store.read_all("t")] == list(range(100))
        assert list(store.message_store.read_all("t")) == everything(store, "t")
    assert_clean(tmp_path)


def test_it_begins_where_it_is_told_to(path: Path) -> None:
    source = random.Random(13)
    with flightlog.open_read_only(path) as view:
        whole = everything(view, "t")
        for _ in range(30):
            at = source.choice(whole)
            start = at.physical_offset + source.choice((-1, 0, 1))
            start = max(start, 0)
            assert list(view.read_all("t", start)) == [m for m in whole if m.physical_offset >= start]
            begin_ms = at.store_timestamp_ms + source.choice((-1, 0, 1))
            later = [m for m in whole if m.store_timestamp_ms >= begin_ms]
            assert list(view.read_all("t", begin_ms=begin_ms)) == later
            assert list(view.read_all("t", begin_ms=datetime.fromtimestamp(begin_ms / 1000, UTC))) == later
            assert list(view.read_all("t", start, begin_ms=begin_ms)) == [
                m for m in later if m.physical_offset >= start
            ]
        assert list(view.read_all("t", whole[-1].physical_offset + 1)) == []


def test_filters_and_decompression_are_those_of_a_read(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        whole = everything(view, "t")
        assert list(view.read_all("t", tags="a")) == [m for m in whole if m.tags == "a"]
        above = flightlog.sql("amount > 7")
        assert list(view.read_all("t", filter=above)) == [m for m in whole if int(m.properties["amount"]) > 7]
        assert list(view.read_all("t", decompress=True)) == [m.decompressed() for m in whole]
        with pytest.raises(InvalidArgumentError):
            view.read_all("t", tags="a", filter=above)


def test_a_topic_that_is_not_there(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with flightlog.open_read_only(path) as view, caplog.at_level(logging.WARNING, "flightlog.store"):
        assert list(view.read_all("none")) == []
        assert "there is no topic 'none'" in caplog.text
        with pytest.raises(TopicNotFoundError):
            view.read_all("none", must_exist=True)
        assert next(view.read_all("t", must_exist=True)).topic == "t"


def test_it_goes_on_with_what_is_put_meanwhile_also_in_new_queues(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put(Message("t", b"0", queue_id=1))
        stream = store.read_all("t")
        assert next(stream).body == b"0"
        store.put(Message("t", b"1", queue_id=0))
        store.put(Message("t", b"2", queue_id=1))
        assert [message.body for message in stream] == [b"1", b"2"]
        assert list(stream) == []
        end = everything(store, "t")[-1].physical_offset
        store.put(Message("t", b"3", queue_id=2))
        assert [message.body for message in store.read_all("t", end + 1)] == [b"3"]
    assert_clean(tmp_path)


def test_a_view_ends_at_its_last_refresh(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        for queue_id in (0, 1):
            store.put(Message("t", b"%d" % queue_id, queue_id=queue_id))
        store.flush()
        with flightlog.open_read_only(tmp_path) as view:
            store.put(Message("t", b"2", queue_id=0))
            assert [message.body for message in view.read_all("t")] == [b"0", b"1"]
            view.refresh()
            assert [message.body for message in view.read_all("t")] == [b"0", b"1", b"2"]
    assert_clean(tmp_path)


def test_beside_writers_the_order_is_kept_and_nothing_is_left_out(tmp_path: Path, assert_clean: AssertClean) -> None:
    threads, each = 3, 3000
    with flightlog.open(tmp_path, StoreSettings.small(segment_size=256 << 10)) as store:

        def put(thread: int) -> None:
            source = random.Random(thread)
            for number in range(each):
                store.put(Message("t", b"%d %d" % (thread, number), queue_id=source.randrange(8)))

        writers = [threading.Thread(target=put, args=(thread,)) for thread in range(threads)]
        for writer in writers:
            writer.start()
        found: list[StoredMessage] = []
        while len(found) < threads * each:
            found += store.read_all("t", found[-1].physical_offset + 1 if found else None)
        for writer in writers:
            writer.join()
        assert [place(message) for message in found] == [place(message) for message in everything(store, "t")]
    assert_clean(tmp_path)


def test_a_stream_that_has_begun_ends_with_its_topic_and_with_its_store(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        for topic in ("goes", "stays"):
            for number in range(1000):
                store.put(Message(topic, b"%d" % number, queue_id=number % 3))
        gone, stays = store.read_all("goes"), store.read_all("stays")
        assert next(gone).body == next(stays).body == b"0"
        store.delete_topic("goes")
        store.put(Message("goes", b"new", queue_id=2))
        assert len(list(gone)) < 999, "what was read before, and then nothing"
        assert [message.body for message in store.read_all("goes")] == [b"new"]
    with pytest.raises(StoreClosedError):
        next(stays)
    assert_clean(tmp_path)


def damaged(path: Path, queue_id: int, index: int, unit: bytes) -> None:
    file = next((path / "consumequeue" / "t" / str(queue_id)).iterdir())
    with file.open("r+b") as opened:
        opened.seek(index * UNIT.size)
        opened.write(unit)


@pytest.mark.parametrize("unit", [UNIT.pack(1 << 60, 100, 0), UNIT.pack(3, 100, 0)], ids=["too far", "in a record"])
def test_a_damaged_entry_is_raised_or_skipped_in_its_place(tmp_path: Path, unit: bytes) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        for number in range(300):
            store.put(Message("t", b"%d" % number, queue_id=number % 3))
    damaged(tmp_path, 1, 33, unit)  # of message 100
    with flightlog.open_read_only(tmp_path) as view:
        assert [int(m.body) for m in view.read_all("t", on_corrupt="skip")] == [n for n in range(300) if n != 100]
        assert view.corrupt_skipped == 1
        found: list[int] = []
        with pytest.raises((CorruptQueueError, CorruptRecordError)):
            found.extend(int(message.body) for message in view.read_all("t"))
        assert found == list(range(98)), "up to the one before it in its queue"


@pytest.mark.parametrize("name", HALTED + CLEAN)
def test_golden_stores(name: str, golden_set: Callable[[str], GoldenSet]) -> None:
    with flightlog.open_read_only(golden_set(name).store) as view:
        topics = {topic for topic, _ in view.queues()}
        for topic in topics:
            expected = everything(view, topic)
            before = view.corrupt_skipped
            assert list(view.read_all(topic, on_corrupt="skip")) == expected
            one_by_one = sum(1 for key in view.queues() if key[0] == topic for _ in view.read(*key, on_corrupt="skip"))
            assert one_by_one == len(expected) and view.corrupt_skipped - before in (0, 2)
        assert topics
