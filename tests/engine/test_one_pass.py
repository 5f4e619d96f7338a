"""Shortcuts of verify and of recovery: each finds and does what the long way finds and does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.dispatch import key_scan
from flightlog.engine.dispatch.key_scan import KeptKeys, keys_between
from flightlog.store.log import log_reader
from flightlog.tests.support import inside, keyed
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

COUNT = 60


@pytest.mark.parametrize("doubled", [False, True], ids=["each once", "one twice"])
def test_verify_of_records_with_many_keys(doubled: bool, tmp_path: Path, assert_clean: AssertClean) -> None:
    """More keys a record than are compared place by place; one that stands twice is told, wherever it stands."""
    with flightlog.open(tmp_path / "store") as store:
        for i in range(50):
            keys = [f"key-{i}-{n}" for n in range(keys_of(i))]
            if doubled and i == 7:
                keys[-1] = keys[0]
            store.put(Message("t", b"x", keys=keys))
    report = assert_clean(tmp_path / "store")
    assert report.index_entries == sum(keys_of(i) for i in range(50))
    assert sum("1 keys stand more than once" in oddity for oddity in report.oddities) == int(doubled)


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
def test_verify_of_a_log_in_many_pieces(damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are walked in another thread while the ones before them are compared: nothing else comes of it."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
    if damaged:
        segment = sorted((path / "commitlog").iterdir())[0]
        raw = bytearray(segment.read_bytes())
        raw[90] ^= 1  # in the first body
        segment.write_bytes(raw)
    with flightlog.open_read_only(path) as view:
        at_once = view.verify()
        monkeypatch.setattr(log_reader, "READ_SIZE", 256)
        in_pieces = view.verify()
    assert in_pieces == at_once and in_pieces.records >= COUNT - 1
    assert at_once.is_clean is not damaged


def keys_of(number: int) -> int:
    return 1 + number % 23


@pytest.mark.parametrize("most", [10, key_scan.MOST_KEPT], ids=["too many", "kept"])
def test_keys_that_recovery_came_by_are_those_of_the_log(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    monkeypatch.setattr(key_scan, "MOST_KEPT", most)
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
    with flightlog.open_read_only(path) as view:
        reader, end = view.log_reader, view.end_physical_offset
        starts = [message.physical_offset for key in view.queues() for message in view.read(*key)]
        for kept_from in starts[::5]:
            kept = KeptKeys()
            kept.begin(0)
            for keys in keys_between(reader, 0, end):  # of an earlier look, from further on
                kept.keep(keys)
            kept.begin(kept_from)
            for keys in keys_between(reader, kept_from, end):
                kept.keep(keys)
            for start in (*starts[::3], end):
                expected = [keys.key_hash for keys in keys_between(reader, start, end)]
                found = [keys.key_hash for keys in kept.between(reader, start, end)]
                assert np.concatenate([*found, []]).tolist() == np.concatenate([*expected, []]).tolist()
    assert_clean(path)


@pytest.mark.parametrize("filler", [b"\0", b"\xff"], ids=["zeros", "no record"])
def test_keys_behind_damage_are_found(filler: bytes, tmp_path: Path) -> None:
    """Also behind zeros, as of a page that was lost: the records behind it are in queues."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
    with flightlog.open_read_only(path) as view:
        reader, end = view.log_reader, view.end_physical_offset
        whole = np.concatenate([keys.physical_offset.copy() for keys in keys_between(reader, 0, end)])
        lost = reader.message_at(int(whole[len(whole) // 2]))
        segment = reader.segment_at(lost.physical_offset)
        assert segment is not None
        with open(segment.path, "r+b") as file:
            file.seek(lost.physical_offset - segment.base)
            file.write(filler * lost.size)
        found = np.concatenate([keys.physical_offset.copy() for keys in keys_between(reader, 0, end)])
    assert found.tolist() == whole[whole != lost.physical_offset].tolist()


@pytest.mark.parametrize("most", [10, key_scan.MOST_KEPT], ids=["too many", "kept"])
def test_a_recovery_puts_the_keys_of_what_no_queue_had(
    most: int,
    tmp_path: Path,
    copy_as_killed: Callable[[Path, Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    """Queues were synced up to one place of the log, the index up to another."""
    monkeypatch.setattr(key_scan, "MOST_KEPT", most)
    for number, flushes in enumerate((("index",), ("queues",), ("index", "queues"), ("queues", "index"), ())):
        path = tmp_path / str(number)
        with flightlog.open(path / "live", keyed.settings()) as store:
            for place, what in enumerate(flushes):
                store.put_many(keyed.messages(20 * place, 20 * place + 20))
                store.queues()
                if what == "index":
                    inside.maintenance(store).flush_index()
                else:
                    inside.maintenance(store).flush_queues()
            store.put_many(keyed.messages(20 * len(flushes), COUNT))
            killed = copy_as_killed(path / "live", path / "killed")
        with flightlog.open(killed, keyed.settings()) as store:
            keyed.check(store, COUNT)
        assert assert_clean(killed).index_entries == keyed.key_count(COUNT)


def test_verify_reads_a_sound_log_once(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Its seals, its records, and what queues and index should say: one pass."""
    path, settings = tmp_path / "store", StoreSettings.small()
    with flightlog.open(path, settings) as store:
        for i in range(40):
            store.put(Message("t", bytes(100_000), keys=f"key-{i}", queue_id=i % 3))
    disk = CountingDisk()
    with flightlog.open_read_only(path, disk=disk) as view:
        before, log_size = disk.read_size, view.end_physical_offset
        report = view.verify()
        assert report.is_clean and report.sealed_segments >= 3
        assert (report.records, report.queue_entries, report.index_entries) == (40, 40, 40)
        assert log_size <= disk.read_size - before < 1.25 * log_size
