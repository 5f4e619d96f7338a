"""Dead letters that come back: each once, as new messages, whatever fails or dies in between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import (
    ConfigFileError,
    FlushMode,
    InvalidArgumentError,
    Message,
    Store,
    StoredMessage,
    StoreSettings,
    TopicNotFoundError,
    UsageError,
)
from flightlog.consume.retry import redrive
from flightlog.consume.retry.send_back import send_to_dead_letters
from flightlog.store.errors import DiskFullError, StorePoisonedError
from flightlog.store.format import property_names as props
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.killed_copy import copy_as_killed

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SMALL = StoreSettings.small(prepare_ahead_size=0, allocate_step_size=4096)


@pytest.fixture
def store(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Store]:
    with flightlog.open(tmp_path / "store", SMALL, clock=ManualClock()) as store:
        yield store
    assert_clean(store.path)


def bury(store: Store, count: int, topic: str = "orders", **fields: Any) -> list[StoredMessage]:
    """Put messages, and have them fail for good. Returns the dead letters of group g."""
    for number in range(count):
        put = store.put(replace(Message(topic, b"%d" % number, queue_id=number % 4), **fields))
        failed = store.message_at(put.physical_offset)
        assert failed is not None
        send_to_dead_letters(inside.engine(store), "g", failed, 3)
    if store.settings.flush_mode is FlushMode.SYNC:
        store.flush()  # dead letters do not wait for their sync, and are not visible before it
    return list(store.dead_letters("g"))


def copies(store: Store, topic: str = "orders") -> list[StoredMessage]:
    queues = [queue_id for name, queue_id in store.queues() if name == topic]
    return [
        found for queue_id in queues for found in store.read(topic, queue_id) if props.REDRIVEN_FROM in found.properties
    ]


def test_dead_letters_come_back_once(store: Store) -> None:
    letters = bury(store, 10) + bury(store, 5, "bills")[10:]
    planned = store.redrive("g", dry_run=True)
    assert planned.by_topic == {"orders": 10, "bills": 5} and len(planned) == 15
    assert planned.message_ids == tuple(letter.message_id for letter in letters)
    assert copies(store) == [] and not (store.path / "flightlog" / "redriven.json").exists()
    assert store.redrive("g") == planned
    found = copies(store) + copies(store, "bills")
    assert Counter(copy.body for copy in found) == Counter(letter.body for letter in letters)
    assert {copy.properties["REDRIVEN_FROM"] for copy in found} == set(planned.message_ids)
    assert len(store.redrive("g")) == 0 == len(store.redrive("g", to="bills", dry_run=True))
    assert list(store.dead_letters("g")) == letters, "they stay as they are"
    bury(store, 1)
    assert store.redrive("g").by_topic == {"orders": 1}
    assert len(store.redrive("nobody")) == 0


def test_a_copy_is_a_new_message(store: Store) -> None:
    store.create_topic("orders", 4)
    fields: dict[str, Any] = {"tags": "paid", "keys": ["k", "l"], "uniq_key": "u", "flag": 7, "born_timestamp_ms": 5}
    fields |= {"born_host": ("10.1.2.3", 99), "properties": {"colour": "red", "TIMER_OUT_MS": "3"}, "sys_flag": 8}
    letters = bury(store, 3, **fields)
    store.redrive("g")
    for letter, copy in zip(letters, sorted(copies(store), key=lambda copy: copy.body), strict=True):
        assert (copy.body, copy.tags, copy.keys, copy.uniq_key) == (letter.body, "paid", ["k", "l"], "u")
        assert (copy.flag, copy.born_timestamp_ms, copy.born_host) == (7, 5, ("10.1.2.3", 99))
        assert (copy.reconsume_times, copy.sys_flag, copy.topic) == (0, 0, "orders")
        assert copy.queue_id == int(letter.body) % 4, "the queue that it was in first"
        kept = {"TAGS": "paid", "KEYS": "k l", "UNIQ_KEY": "u", "colour": "red"}
        assert copy.properties == {**kept, "REDRIVEN_FROM": letter.message_id}
    with store.subscribe("orders", "g", idle_s=0) as member:
        received = list(member)
        assert [message.attempt for message in received] == [1] * 6
        assert received[-1].send_back() and received[-1].message.properties.get("REDRIVEN_FROM")


def test_they_are_chosen_and_sent_elsewhere(store: Store) -> None:
    bury(store, 10)
    store.create_topic("quarantine", 2)
    assert store.redrive("g", to="quarantine", where=lambda letter: letter.body < b"3").by_topic == {"quarantine": 3}
    assert sorted(copy.body for copy in copies(store, "quarantine")) == [b"0", b"1", b"2"]
    assert {copy.queue_id for copy in copies(store, "quarantine")} == {0, 1}
    bury(store, 2, properties={"amount": "500"})
    assert len(store.redrive("g", where=flightlog.sql("amount > 100"))) == 2
    assert len(store.redrive("g", where=flightlog.sql("amount > 100"))) == 0
    assert len(store.redrive("g")) == 7, "those in between"
    assert len(copies(store)) == 9 and len(store.redrive("g")) == 0


def test_the_group_alone_has_them_again(store: Store) -> None:
    bury(store, 2)
    store.commit_offset("other", "orders", 0, 1)
    assert store.redrive("g", to="%RETRY%g").by_topic == {"%RETRY%g": 2}
    with store.subscribe("orders", "g", start=flightlog.StartFrom.LAST, idle_s=0) as member:
        again = list(member)
    assert [(message.topic, message.body, message.attempt) for message in again] == [
        ("orders", b"0", 1),
        ("orders", b"1", 1),
    ]
    assert copies(store) == []


def test_what_cannot_go_anywhere_is_told_before_anything_is_put(store: Store) -> None:
    bury(store, 2)
    with pytest.raises(TopicNotFoundError, match="there is no topic 'ordres'; make it with create_topic"):
        store.redrive("g", to="ordres")
    with pytest.raises(InvalidArgumentError, match="another topic than that of the dead letters"):
        store.redrive("g", to="%DLQ%g")
    store.put(Message("%DLQ%g", b"by hand"))
    with pytest.raises(UsageError, match="does not say which topic it was first put to: pass to="):
        store.redrive("g", dry_run=True)

    def boom(letter: StoredMessage) -> bool:
        raise LookupError(letter.body)

    with pytest.raises(LookupError):
        store.redrive("g", where=boom)
    assert copies(store) == []
    assert len(store.redrive("g", where=lambda letter: letter.body != b"by hand")) == 2
    store.delete_topic("orders")
    with pytest.raises(TopicNotFoundError, match="'orders'"):
        bury(store, 1, "bills")
        store.delete_topic("bills")
        store.redrive("g", to="orders")


def test_a_topic_of_dead_letters_that_is_made_again_has_new_ones(store: Store) -> None:
    bury(store, 4)
    assert len(store.redrive("g")) == 4
    store.commit_offset("g", "orders", 0, 0)
    store.delete_group("g", with_topics=True)
    bury(store, 3)
    assert len(store.redrive("g")) == 3


def test_a_copy_that_fails_is_a_new_dead_letter(store: Store) -> None:
    bury(store, 1)
    store.commit_offset("g", "orders", 0, 1)
    assert len(store.redrive("g")) == 1
    with store.subscribe("orders", "g", idle_s=0, max_attempts=1, on_dead_letter=lambda _: None) as member:
        (copy,) = list(member)
        assert copy.send_back()
    assert len(list(store.dead_letters("g"))) == 2 and len(store.redrive("g")) == 1 and len(store.redrive("g")) == 0


def test_without_its_notes_all_are_redriven(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SMALL) as store:
        bury(store, 3)
        assert len(store.redrive("g")) == 3
    for notes in list((path / "flightlog").glob("redriven.json*")):
        notes.unlink()
    with flightlog.open(path, SMALL) as store:
        assert len(store.redrive("g")) == 3
    assert_clean(path)


def test_copies_that_were_removed_before_their_note_are_put_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    bury(store, 3)
    engine, killed = inside.engine(store), tmp_path / "killed"
    put_many = engine.put_many

    def put_and_die(messages: list[Message]) -> Any:
        results = put_many(messages)
        copy_as_killed(store.path, killed)
        return results

    monkeypatch.setattr(engine, "put_many", put_and_die)
    assert len(store.redrive("g")) == 3
    with flightlog.open(killed, SMALL) as later:
        assert len(copies(later)) == 3
        later.delete_topic("orders")
        later.create_topic("orders", 4)
        assert len(later.redrive("g")) == 3 == len(copies(later))
    assert_clean(killed)


def test_many_are_put_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive, "BATCH_COUNT", 7)
    bury(store, 20)
    bury(store, 3, body=b"x" * 3000)
    monkeypatch.setattr(redrive, "BATCH_SIZE", 2000)
    assert len(store.redrive("g")) == 23 and len(store.redrive("g")) == 0
    assert len(copies(store)) == 23


def test_damaged_notes_are_told(store: Store) -> None:
    bury(store, 1)
    for content in (b"{", b'{"redriven": []}', b'{"redriven": {"%DLQ%g": {"0": [[1]]}}}', b'{"underWay": 5}'):
        (store.path / "flightlog" / "redriven.json").write_bytes(content)
        with pytest.raises(ConfigFileError, match="redriven.json"):
            store.redrive("g")
    assert copies(store) == []
    (store.path / "flightlog" / "redriven.json").unlink()


def test_a_full_disk_in_the_middle_leaves_the_rest_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    monkeypatch.setattr(redrive, "BATCH_COUNT", 4)
    disk = FaultyDisk()
    with flightlog.open(tmp_path / "store", SMALL, disk=disk, clock=ManualClock()) as store:
        bury(store, 12)
        engine = inside.engine(store)
        put_many, calls = engine.put_many, []

        def full(messages: list[Message]) -> Any:
            calls.append(len(messages))
            if len(calls) == 2:
                put_many(messages[:2])
                raise DiskFullError(store.path, 1, "no space left")
            return put_many(messages)

        monkeypatch.setattr(engine, "put_many", full)
        with pytest.raises(DiskFullError):
            store.redrive("g")
        assert len(copies(store)) == 6 and len(store.redrive("g", dry_run=True)) == 6
        assert len(store.redrive("g")) == 6 and len(store.redrive("g")) == 0
        assert sorted(int(copy.body) for copy in copies(store)) == list(range(12))
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("mode", FlushMode)
def test_each_is_redriven_once_wherever_the_process_dies_or_the_power_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: FlushMode
) -> None:
    """At every step of the disk: a kill, a cut that leaves what was synced alone, and a random one."""
    monkeypatch.setattr(redrive, "BATCH_COUNT", 3)
    settings = replace(SMALL, flush_mode=mode, flush_interval_ms=3_600_000, sync_flush_timeout_ms=240_000)
    step, is_over = 0, False
    while not is_over:
        for way in ("kill", "cut", "random"):
            disk, clock = PowerDisk(tmp_path / f"{step}-{way}"), ManualClock()
            disk.root.mkdir()
            store = flightlog.open(disk.root, settings, disk=disk, clock=clock)
            bury(store, 7)
            disk.die_after = step
            try:
                store.redrive("g", where=lambda letter: letter.body != b"4")
                is_over = disk.left is None
            except (Died, StorePoisonedError):
                is_over = False  # a thread of the store may take a step, or none
            kill(store)
            if way == "kill":
                disk.kill()
            else:
                disk.cut(None if way == "cut" else random.Random(step))
            disk.die_after = None
            store = flightlog.open(disk.root, settings, disk=disk, clock=clock)
            there = [letter.body for letter in store.dead_letters("g")]
            if is_over:
                assert len(there) == 7 and len(store.redrive("g", where=lambda letter: letter.body != b"4")) == 0
            store.redrive("g")
            found = Counter(copy.body for copy in copies(store))
            assert found == Counter(there), (step, way)
            assert len(store.redrive("g")) == 0
            store.close()
        step += 1
    assert step > 20
