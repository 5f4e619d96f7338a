"""Inner batches that flightlog wrote: one record, many messages, in batch consume queues; whatever happens to those."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import CompressionType, FlushMode, Message, StoredMessage, StoreSettings
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.index.queue.batch_unit import BATCH_UNIT_SIZE
from flightlog.store.errors import (
    BodyTooLargeError,
    CorruptRecordError,
    InvalidMessageError,
    PropertiesTooLargeError,
    UsageError,
)
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog import ReadOnlyStore, Store
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

SETTINGS = StoreSettings(
    rocketmq_strict=False,
    segment_size=16 << 10,
    queue_file_entries=20,
    index_slots=50,
    index_entries=200,
    flush_interval_ms=3_600_000,
)
QUEUES = 2


def batch(number: int, size: int, queue_id: int) -> list[Message]:
    return [
        Message(
            "b",
            b"%d-%d " % (number, i) * (i % 5),
            tags="even" if i % 2 == 0 else "odd",
            keys=(f"n{number}", f"n{number}-{i}"),
            uniq_key=f"u{number}-{i}",
            flag=i - 3,
            queue_id=queue_id,
        )
        for i in range(size)
    ]


def put_some(store: Store, start: int, stop: int) -> list[Message]:
    """Batches and, between them, single messages of another topic; returns the messages of the batches."""
    put: list[Message] = []
    for number in range(start, stop):
        messages = batch(number, 1 + random.Random(number).randrange(9), number % QUEUES)
        results = store.put_batch(messages)
        assert [r.queue_offset for r in results] == list(range(results[0].queue_offset, results[-1].queue_offset + 1))
        assert {(r.topic, r.queue_id, r.physical_offset) for r in results} == {
            ("b", number % QUEUES, results[0].physical_offset)
        }
        put += messages
        store.put(Message("single", b"%d" % number, queue_id=number % 3))
    return put


def check(store: Store | ReadOnlyStore, put: list[Message]) -> None:
    for queue_id in range(QUEUES):
        wanted = [m for m in put if m.queue_id == queue_id]
        read = list(store.read("b", queue_id))
        assert [m.queue_offset for m in read] == list(range(len(wanted)))
        assert [shape(m) for m in read] == [(m.body, m.tags, list(m.keys), m.uniq_key, m.flag) for m in wanted]
        assert store.queues()["b", queue_id] == (0, len(wanted))
        for tags in ("even", "odd", "even || odd", "none"):
            expected = [m.body for m in wanted if m.tags in tags.split(" || ")]
            assert [m.body for m in store.read("b", queue_id, tags=tags)] == expected


def shape(message: StoredMessage) -> tuple[object, ...]:
    return (message.body, message.tags, message.keys, message.uniq_key, message.flag)


@pytest.mark.parametrize("flush_mode", FlushMode)
@pytest.mark.usefixtures("kernel")
def test_put_read_close_and_go_on(
    flush_mode: FlushMode, tmp_path: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    settings = StoreSettings(
        segment_size=16 << 10, queue_file_entries=20, flush_mode=flush_mode, key_index=False, rocketmq_strict=False
    )
    put: list[Message] = []
    for session in range(3):
        with flightlog.open(path, settings, clock=clock) as store:
            if session:
                assert store.recovery_report.last_writer is LastWriter.FLIGHTLOG_CLOSED
                assert store.recovery_report.records_scanned == 0
            check(store, put) if session else None
            put += put_some(store, session * 40, session * 40 + 40)
            check(store, put)
            assert store.verify().is_clean
        assert_clean(path)
    topic = flightlog.open_read_only(path).topic("b")
    assert topic is not None and topic.attributes == {"queue.type": "BatchCQ"}


def test_get_goes_through_batches_at_any_pace(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        put = put_some(store, 0, 30)
        for max_count in (1, 3, 32):
            offset, bodies = 0, []
            while (result := store.get("b", 0, offset, max_count)).messages:
                assert len(result.messages) <= max_count
                assert result.messages[0].queue_offset == offset
                bodies += [m.body for m in result.messages]
                offset = result.next_queue_offset
            assert bodies == [m.body for m in put if m.queue_id == 0]
        middle = next(m for m in store.read("b", 0) if m.batch_index == 2)
        assert next(store.read("b", 0, middle.queue_offset)) == middle
        assert store.offset_at("b", 0, middle.store_timestamp_ms) <= middle.queue_offset
        assert store.verify().is_clean


def test_places_and_keys_name_messages(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        put_some(store, 0, 30)
        for message in [*store.read("b", 0), *store.read("b", 1)]:
            place, index = message.physical_offset, message.batch_index
            assert store.message_at(place, index) == message
            number = message.keys[0]
            assert store.query("b", message.keys[1]).messages == [message]
            assert message in store.query("b", number).messages
            assert message.uniq_key is not None
            assert store.message_by_uniq_key("b", message.uniq_key) == message
            assert store.was_stored(message.uniq_key)
        record = store.message_at(place)
        assert record is not None and index is not None
        count = int(record.properties["INNER_NUM"])
        assert record.batch_index is None and int(record.properties["INNER_BASE"]) == record.queue_offset
        assert store.message_at(place, count) is None and store.message_at(place, -1) is None
        single = next(store.read("single", 0))
        assert store.message_at(single.physical_offset, 0) is None
        newest = store.query("b", number, max_count=1)
        assert newest.messages[0].batch_index == count - 1 and newest.has_more is (count > 1)
        with pytest.raises(UsageError, match="use read"):
            store.read_batch("b", 0)
        assert store.verify().is_clean


def test_after_a_kill(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path], clock: ManualClock, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path / "live", SETTINGS, clock=clock) as store:
        put = put_some(store, 0, 20)
        inside.maintenance(store).flush_queues()
        put += put_some(store, 20, 40)
        store.queues()
        put += put_some(store, 40, 60)  # in the log alone
        path = copy_as_killed(tmp_path / "live", tmp_path / "store")
        with flightlog.open_read_only(tmp_path / "live") as view:
            check(view, put)
            put += put_some(store, 60, 70)
            view.refresh()
            check(view, put)
    put = put[: len(put) - sum(1 for m in put if int(m.keys[0][1:]) >= 60)]
    with flightlog.open_read_only(path) as view:
        check(view, put)
    with flightlog.open(path, SETTINGS, clock=clock) as store:
        check(store, put)
        put += put_some(store, 60, 80)
        check(store, put)
    assert_clean(path)


def test_queues_that_are_gone_or_wrong_are_made_anew(
    tmp_path: Path, copy_store: Callable[[Path, Path], Path], clock: ManualClock, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path / "sound", SETTINGS, clock=clock) as store:
        put = put_some(store, 0, 60)
    whole = (tmp_path / "sound" / "batchconsumequeue" / "b" / "0" / f"{0:020d}").read_bytes()
    entries = len(whole[: whole.rindex(b"\xff\xff\xff\xff") + 8]) // BATCH_UNIT_SIZE
    for name, change in {
        "gone": None,
        "half": (entries // 2 * BATCH_UNIT_SIZE, bytes((entries - entries // 2) * BATCH_UNIT_SIZE)),
        "last": ((entries - 1) * BATCH_UNIT_SIZE + 7, b"\x01"),
        "stale": (entries * BATCH_UNIT_SIZE, whole[(entries - 1) * BATCH_UNIT_SIZE : entries * BATCH_UNIT_SIZE]),
    }.items():
        path = copy_store(tmp_path / "sound", tmp_path / name)
        file = path / "batchconsumequeue" / "b" / "0" / f"{0:020d}"
        if change is None:
            shutil.rmtree(path / "batchconsumequeue")
        else:
            raw = bytearray(whole)
            raw[change[0] : change[0] + len(change[1])] = change[1]
            file.write_bytes(raw)
        with flightlog.open_read_only(path) as view:
            check(view, put)
            assert not view.verify().is_clean or name == "stale"
        with flightlog.open(path, SETTINGS, clock=clock) as store:
            check(store, put)
            more = put_some(store, 60, 64)
            check(store, put + more)
        assert_clean(path)


def test_verify_meets_a_changed_entry(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS, clock=clock) as store:
        put_some(store, 0, 30)
    file = path / "batchconsumequeue" / "b" / "1" / f"{0:020d}"
    raw = bytearray(file.read_bytes())
    raw[3 * BATCH_UNIT_SIZE + 27] ^= 1  # the store time of entry 3
    file.write_bytes(raw)
    with flightlog.open_read_only(path) as view:
        (finding,) = view.verify().findings
    assert finding.path == file.parent and "differ from the log" in finding.meaning


def test_a_torn_batch_is_cut_whole(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path], clock: ManualClock, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path / "live", SETTINGS, clock=clock) as store:
        put = put_some(store, 0, 10)
        store.flush()
        store.queues()
        torn = store.put_batch(batch(10, 6, 0))
        store.queues()  # its entry is there
        path = copy_as_killed(tmp_path / "live", tmp_path / "store")
    segment = path / "commitlog" / f"{torn[0].physical_offset // SETTINGS.segment_size * SETTINGS.segment_size:020d}"  # type: ignore[operator]
    raw = bytearray(segment.read_bytes())
    at = torn[0].physical_offset % len(raw) + torn[0].size // 2
    raw[at : at + 40] = bytes(40)
    segment.write_bytes(raw)
    with flightlog.open(path, SETTINGS, clock=clock) as store:
        assert store.recovery_report.cut
        check(store, put)
        check(store, put + put_some(store, 10, 15))
    assert_clean(path)


def test_which_topics_take_what(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        store.put(Message("plain", b"x"))
        store.put_batch([Message("b", b"x")])
        store.create_topic("made", attributes={"queue.type": "BatchCQ"})
        store.put_batch([Message("made", b"x", queue_id=1)])
    for session in range(2):
        with flightlog.open(path, SETTINGS) as store:
            with pytest.raises(InvalidMessageError, match="queues of single messages"):
                store.put_batch([Message("plain", b"x")])
            for topic in ("b", "made"):
                with pytest.raises(InvalidMessageError, match="put to it with put_batch"):
                    store.put(Message(topic, b"x"))
            assert store.verify().is_clean
        if session == 0:
            (path / "config" / "topics.json").unlink()  # what lies there tells it, too


def test_what_cannot_be_in_a_batch(tmp_path: Path) -> None:
    a = Message("b", b"x")
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        for wrong, words in (
            ([], "a batch of 0 messages"),
            ([a] * 32_768, "32768 messages"),
            ([a, Message("c", b"x")], "message 1 of a batch to topic 'c'"),
            ([a, Message("b", b"x", queue_id=1)], "one queue of one topic"),
            ([Message("b", b"x", sys_flag=4)], "neither compressed nor"),
            ([Message("b", b"x", compress=CompressionType.ZLIB)], "neither compressed nor"),
            ([Message("b", b"x", properties={"DELAY": "3"})], "DELAY has no meaning"),
            ([Message("b", "x")], "expected bytes"),  # type: ignore[arg-type]
            ([Message("b", b"x", flag=1 << 31)], "flag=2147483648"),
        ):
            with pytest.raises(InvalidMessageError, match=words):
                store.put_batch(wrong)
        with pytest.raises(PropertiesTooLargeError):
            store.put_batch([Message("b", b"x", keys=f"{i:06d}" * 6) for i in range(1000)])
        with pytest.raises(BodyTooLargeError):
            store.put_batch([Message("b", bytes(1 << 20))] * 5)
        with pytest.raises(InvalidMessageError, match="put_batch alone"):
            store.put(Message("t", b"x", properties={"INNER_NUM": "2"}))
        with pytest.raises(InvalidMessageError, match="put_batch alone"):
            store.append_columns("t", {"value": [b"x"], "properties": {"INNER_BASE": ["2"]}})
        assert store.queues() == {}
        assert store.verify().is_clean


def test_a_batch_that_is_none_is_damage(tmp_path: Path) -> None:
    """Its CRC fits: a writer put nonsense there."""
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        first, *_ = store.put_batch([Message("b", b"x" * 50)] * 3)
        store.put_batch([Message("b", b"after")])
    segment = path / "commitlog" / f"{0:020d}"
    raw = bytearray(segment.read_bytes())
    body_at = first.physical_offset + 88
    size = int.from_bytes(raw[body_at - 4 : body_at], "big")
    body = raw[body_at : body_at + size]
    body[16:20] = b"\x00\x00\xff\xff"  # the first message's body size
    raw[body_at : body_at + size] = body
    from flightlog.store import native

    raw[first.physical_offset + 8 : first.physical_offset + 12] = native.masked_crc32(body).to_bytes(4, "big")
    segment.write_bytes(raw)
    shutil.rmtree(path / "flightlog" / "seals", ignore_errors=True)
    with flightlog.open_read_only(path) as view:
        with pytest.raises(CorruptRecordError, match="claims to be an inner batch"):
            next(view.read("b"))
        assert [m.body for m in view.read("b", on_corrupt="skip")] == [b"after"]
        assert view.corrupt_skipped == 3
        record = view.message_at(first.physical_offset)
        assert record is not None and record.body == bytes(body)


def test_a_deleted_topic_is_gone_and_can_be_made_anew(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        put_some(store, 0, 20)
        store.delete_topic("b")
        assert not (path / "batchconsumequeue" / "b").exists()
        assert {topic for topic, _ in store.queues()} == {"single"}
        assert store.verify().is_clean
    assert_clean(path)
    with flightlog.open(path, SETTINGS) as store:
        assert {topic for topic, _ in store.queues()} == {"single"}
        check(store, put_some(store, 0, 10))
    assert_clean(path)


def test_retention_takes_queue_files_of_batches(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        inside.queue_table(store)._batch_entries = 20  # queue files of a small life
        put_some(store, 0, 150)
        before = {key: bounds for key, bounds in store.queues().items() if key[0] == "b"}
        files = sorted((path / "batchconsumequeue" / "b" / "0").iterdir())
        store.flush()
        store.clean_up(0)
        assert sorted((path / "batchconsumequeue" / "b" / "0").iterdir()) != files
        for key, (first, end) in store.queues().items():
            if key[0] == "b":
                assert before[key][0] < first < end == before[key][1]
                assert [m.queue_offset for m in store.read(*key)] == list(range(first, end))
        assert store.verify().is_clean
        put_some(store, 150, 170)
        bounds = store.queues()
    assert_clean(path)
    with flightlog.open(path, SETTINGS) as store:
        assert store.queues() == bounds
    assert_clean(path)
