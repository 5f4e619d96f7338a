"""Queries by key: what is found, in which order, and what never is."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.index.key.index_file import IndexGeometry, key_hash
from flightlog.store.errors import CorruptRecordError, UsageError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import keyed

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock


def bodies(result: flightlog.QueryResult) -> list[bytes]:
    return [message.body for message in result.messages]


@pytest.mark.parametrize("mode", FlushMode)
def test_every_key_finds_its_messages(mode: FlushMode, tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", keyed.settings(flush_mode=mode)) as store:
        for i in range(60):
            store.put(keyed.message(i))
            if keyed.is_keyed(i) and keyed.sys_flag(i) != keyed.ROLLBACK:
                assert keyed.query(store, keyed.TOPICS[i % 2], f"k{i}") == [i], "not found right after its put"
        keyed.check(store, 60)
        store.put_many(keyed.messages(60, 200))
        keyed.check(store, 200)
        assert len(list((tmp_path / "store" / "index").iterdir())) == -(-keyed.key_count(200) // (keyed.ENTRIES - 1))
    assert assert_clean(tmp_path / "store").index_entries == keyed.key_count(200)


def test_newest_first_and_whether_there_are_more(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", keyed.settings()) as store:
        store.put_many([Message("t", b"%d" % i, keys=["same", f"other-{i}"]) for i in range(40)])
        newest_first = [b"%d" % i for i in reversed(range(40))]
        for count in (1, 2, 32, 39, 40, 41, 1000):
            result = store.query("t", "same", max_count=count)
            assert bodies(result) == newest_first[:count]
            assert result.has_more == (count < 40)
        assert bodies(store.query("t", "same")) == newest_first[:32], "32 is what is answered unless told otherwise"
        for count in (0, -1):
            with pytest.raises(UsageError, match="max_count"):
                store.query("t", "same", max_count=count)
    assert_clean(tmp_path / "store")


def test_more_counts_only_what_is_an_answer(tmp_path: Path) -> None:
    """Behind the last answer lie keys of the same hash: none of them makes a `has_more`."""
    with flightlog.open(tmp_path / "store", keyed.settings()) as store:
        store.put_many([Message("t", b"x", keys="BB")] * 5)
        store.put_many([Message("t", b"x", keys="Aa")] * 3)
        assert not store.query("t", "Aa", max_count=3).has_more
        assert store.query("t", "Aa", max_count=2).has_more


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("t", "Aa"), ("t", "BB")),
        (("Aa", "k"), ("BB", "k")),
        (("Aa", "BB"), ("BB", "Aa")),
        (("t#x", "y"), ("t", "x#y")),
    ],
)
def test_collisions_never_answer(
    one: tuple[str, str], other: tuple[str, str], tmp_path: Path, assert_clean: AssertClean
) -> None:
    assert key_hash(*one) == key_hash(*other)
    with flightlog.open(tmp_path / "store", keyed.settings(rocketmq_strict=False)) as store:
        for i in range(30):
            topic, key = one if i % 3 else other
            store.put(Message(topic, b"%d" % i, keys=key, uniq_key=f"{key}-{i}"))
        for wanted, (topic, key) in ((True, one), (False, other)):
            expected = [b"%d" % i for i in reversed(range(30)) if bool(i % 3) is wanted]
            assert bodies(store.query(topic, key)) == expected
        assert not store.query("nobody", one[1]).messages and not store.query(one[0], "nobody").messages
    assert_clean(tmp_path / "store")


def test_times_are_inclusive_to_the_millisecond(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    """Over many index files, in none of which a time is kept to more than a second."""
    start_ms = clock.at_ms
    times: list[int] = []
    with flightlog.open(tmp_path / "store", keyed.settings(), clock=clock) as store:
        for i in range(80):
            clock.at_ms += (1, 0, 999, 1000, 1, 61_000, 3)[i % 7]
            times.append(store.put(Message("t", b"%d" % i, keys=["k"])).store_timestamp_ms)
        store.queues()
        assert len(list((tmp_path / "store" / "index").iterdir())) > 5
        borders = sorted({time + d for time in times[::3] for d in (-1, 0, 1)} | {0, start_ms, times[-1]})
        for begin_ms in borders[::5]:
            for end_ms in (*borders[::7], None):
                expected = [
                    b"%d" % i
                    for i, time in reversed(list(enumerate(times)))
                    if begin_ms <= time and (end_ms is None or time <= end_ms)
                ]
                assert bodies(store.query("t", "k", begin_ms, end_ms, max_count=100)) == expected
        with flightlog.open_read_only(tmp_path / "store") as view:
            for time in times:
                expected = [b"%d" % i for i in reversed(range(80)) if times[i] == time]
                assert bodies(view.query("t", "k", time, time)) == expected == bodies(store.query("t", "k", time, time))
    assert_clean(tmp_path / "store")


def test_without_a_key_index(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", keyed.settings(key_index=False)) as store:
        store.put_many(keyed.messages(0, 50))
        for ask in (store.query, store.message_by_uniq_key):
            with pytest.raises(UsageError, match="key_index=True"):
                ask("t0", "u0")
        with pytest.raises(UsageError, match="key_index=True"):
            store.was_stored("u0")
        with flightlog.open_read_only(tmp_path / "store") as view:
            keyed.check(view, 50)
            assert view.was_stored("u0") and not view.was_stored("u4")
    assert not (tmp_path / "store" / "index").exists()
    with flightlog.open_read_only(tmp_path / "store") as view:
        keyed.check(view, 50)
    assert_clean(tmp_path / "store")


def test_uniq_keys(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", keyed.settings()) as store:
        store.put(Message("t", b"old", uniq_key="u"))
        store.put(Message("t", b"new", uniq_key="u"))
        store.put(Message("t", b"key", keys="u"))
        store.put(Message("s", b"elsewhere", uniq_key="v", keys="w"))
        found = store.message_by_uniq_key("t", "u")
        assert found is not None and found.body == b"new"
        assert bodies(store.query("t", "u")) == [b"key", b"new", b"old"]
        assert store.message_by_uniq_key("t", "v") is None and store.message_by_uniq_key("s", "w") is None
        assert store.was_stored("v") and store.was_stored("v", "s") and store.was_stored("u", "t")
        assert not store.was_stored("v", "t") and not store.was_stored("w") and not store.was_stored("v", "nobody")
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("kind", ["level", "timer"])
def test_was_stored_knows_what_waits_for_its_time(kind: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    disk: FaultyDisk = FaultyDisk()
    late = Message("t", b"late", uniq_key="late", delay_level=18)
    if kind == "timer":
        late.deliver_after_ms(7_200_000)

    def check(store: flightlog.Store | flightlog.ReadOnlyStore) -> None:
        assert store.was_stored("late") and store.was_stored("late", "t")
        assert not store.was_stored("late", "other") and not store.was_stored("never", "t")
        assert store.message_by_uniq_key("t", "late") is None, "nobody who reads the topic has it yet"

    with flightlog.open(
        tmp_path / "store", keyed.settings(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000), disk=disk
    ) as store:
        store.put(Message("t", b"before", uniq_key="before"))
        disk.hold("sync", "commitlog/")
        put = threading.Thread(target=store.put, args=(late,))
        put.start()
        try:
            assert disk.held.acquire(timeout=60)
            assert store.was_stored("late", "t") and not store.was_stored("late", "other")
        finally:
            disk.release()
            put.join(60)
        check(store)
    with flightlog.open_read_only(tmp_path / "store") as view:
        check(view)
    assert_clean(tmp_path / "store")


def test_was_stored_knows_what_cannot_be_read_yet(tmp_path: Path, assert_clean: AssertClean) -> None:
    disk: FaultyDisk = FaultyDisk()
    with flightlog.open(
        tmp_path / "store", keyed.settings(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000), disk=disk
    ) as store:
        store.put(Message("t", b"before", uniq_key="before"))
        disk.hold("sync", "commitlog/")
        put = threading.Thread(target=store.put, args=(Message("t", b"held", uniq_key="held"),))
        put.start()
        try:
            assert disk.held.acquire(timeout=60)
            assert store.message_by_uniq_key("t", "held") is None and not store.query("t", "held").messages
            assert store.was_stored("held") and store.was_stored("held", "t")
            assert not store.was_stored("held", "other") and not store.was_stored("never")
            assert store.was_stored("before")
        finally:
            disk.release()
            put.join(60)
        assert store.was_stored("held") and store.message_by_uniq_key("t", "held") is not None
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("on", ["store", "view"])
def test_damaged_records(on: str, tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", keyed.settings()) as store:
        places = [store.put(Message("t", b"%d" % i * 50, keys=["k", f"k{i}"])).physical_offset for i in range(9)]
        raw = bytearray((tmp_path / "store" / "commitlog" / f"{0:020d}").read_bytes())
        at = raw.index(b"4" * 50, places[4])
        with open(tmp_path / "store" / "commitlog" / f"{0:020d}", "r+b") as file:
            file.seek(at)
            file.write(b"!")
        store.queues()
        with flightlog.open_read_only(tmp_path / "store") as view:
            reading = store if on == "store" else view
            for key in ("k", "k4"):
                with pytest.raises(CorruptRecordError, match=f"{places[4]}"):
                    reading.query("t", key)
            assert bodies(reading.query("t", "k", max_count=3)) == [b"%d" % i * 50 for i in (8, 7, 6)]
            assert bodies(reading.query("t", "k3")) == [b"3" * 50]
            before = reading.corrupt_skipped
            assert bodies(reading.query("t", "k", on_corrupt="skip")) == [
                b"%d" % i * 50 for i in (8, 7, 6, 5, 3, 2, 1, 0)
            ]
            assert reading.corrupt_skipped == before + 1


@pytest.mark.parametrize("aim", ["the middle of a record", "behind the end", "far behind", "below zero", "a blank"])
def test_stale_entries_answer_nothing(aim: str, tmp_path: Path) -> None:
    """What an index names that is no record of this key, or no record at all, is passed over."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings(index_entries=100)) as store:
        results = store.put_many([Message("t", bytes(700), keys="k") for _ in range(9)])
        blank = results[4].physical_offset + results[4].size
        assert results[5].physical_offset == 4096
    target = {
        "the middle of a record": results[2].physical_offset + 40,
        "behind the end": results[-1].physical_offset + results[-1].size,
        "far behind": 1 << 40,
        "below zero": -8,
        "a blank": blank,
    }[aim]
    (file,) = (path / "index").iterdir()
    with open(file, "r+b") as index:
        index.seek(IndexGeometry(keyed.SLOTS, 100).entry_position(4) + 4)
        index.write(struct.pack(">q", target))
    expected = [result.physical_offset for i, result in enumerate(results) if i != 3][::-1]
    with flightlog.open_read_only(path) as view:
        assert [message.physical_offset for message in view.query("t", "k").messages] == expected
        assert not view.verify().is_clean
    with flightlog.open(path) as store:
        assert [message.physical_offset for message in store.query("t", "k").messages] == expected
        assert not store.verify().is_clean


@pytest.mark.ci
def test_four_threads_beside_a_writer(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Everything that was put before a question is in its answer, while files roll and are flushed."""
    count = 1500
    done, errors = [0], []
    with flightlog.open(
        tmp_path / "store", keyed.settings(segment_size=1 << 16, flush_interval_ms=1, index_flush_interval_ms=1)
    ) as store:

        def ask(seed: int) -> None:
            try:
                i = seed
                while done[0] < count:
                    known = done[0]
                    i = (i * 31 + 7) % max(known, 1)
                    if known and keyed.is_keyed(i) and keyed.sys_flag(i) != keyed.ROLLBACK:
                        assert keyed.query(store, keyed.TOPICS[i % 2], f"u{i}") == [i]
                        newest = store.query(keyed.TOPICS[i % 2], f"g{i % 4}", max_count=3).messages
                        numbers = [keyed.number_of(message) for message in newest]
                        assert numbers == sorted(numbers, reverse=True) and numbers[0] >= i
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for i in range(count):
            store.put(keyed.message(i))
            done[0] = i + 1
        for thread in threads:
            thread.join(60)
        assert not errors, errors
    assert assert_clean(tmp_path / "store").index_entries == keyed.key_count(count)


def test_expired_messages_are_not_returned(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Segments that the log has let go of: their keys answer nothing, and a writer removes files that hold no other."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        results = store.put_many(keyed.messages(0, 120))
    (path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    for base in (0, 4096):
        (path / "commitlog" / f"{base:020d}").unlink()
    first = next(i for i, result in enumerate(results) if result.physical_offset >= 8192)
    files = sorted((path / "index").iterdir())
    with flightlog.open_read_only(path) as view:
        keyed.check(view, 120, first)
        assert not view.was_stored("u0")
    with flightlog.open(path) as store:
        keyed.check(store, 120, first)
        store.put_many(keyed.messages(120, 150))
        keyed.check(store, 150, first)
        assert not files[0].exists() and files[-1].exists()
    assert_clean(path)
    with flightlog.open_read_only(path) as view:
        keyed.check(view, 150, first)


def test_default_settings_find_keys_too(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=1 << 20)) as store:
        store.put(Message("t", b"a", keys=["x", "y"], uniq_key="z"))
        assert [bodies(store.query("t", key)) for key in "xyz"] == [[b"a"]] * 3
    (file,) = (tmp_path / "store" / "index").iterdir()
    assert file.stat().st_size == 420_000_040 and file.stat().st_blocks * 512 < 1 << 20
    assert_clean(tmp_path / "store")
