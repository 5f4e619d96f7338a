"""The window of ids that were seen: what it remembers, for how long, and of whom."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import DeduplicationWindow, EffectInProgressError, FlushMode, Message, StoreSettings
from flightlog.consume.deduplication import deduplication_window
from flightlog.consume.deduplication.seen_file import HEADER, RECORD
from flightlog.testing import FaultyDisk, ManualClock
from flightlog.tests.support import process

WAIT_S = process.LIMIT_S


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "window"


def fill(window: DeduplicationWindow, *ids: str) -> list[bool]:
    return [window.first_time(id) for id in ids]


def test_an_id_is_new_once(folder: Path) -> None:
    with DeduplicationWindow(folder) as window:
        assert fill(window, "a", "b", "a") == [True, True, False]
        assert window.first_time(b"a") is False, "a text and its UTF-8 bytes are one id"
        assert ("a" in window, "c" in window, len(window)) == (True, False, 2)
        assert repr(window) == f"DeduplicationWindow('{folder}')"
        assert window.first_time("\ud800"), "half a surrogate pair, as JSON may hold"
        assert window.first_time("x" * 1_000_000)
    with DeduplicationWindow(folder) as window:
        assert fill(window, "a", "b", "c") == [False, False, True]


def test_an_effect_that_fails_is_not_noted(folder: Path) -> None:
    with DeduplicationWindow(folder) as window:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), window.once("a") as is_first:
                assert is_first and "a" not in window
                raise ZeroDivisionError
        with window.once("a") as is_first:
            assert is_first
        with window.once("a") as is_first:
            assert not is_first
        with pytest.raises(ZeroDivisionError), window.once("a"):
            raise ZeroDivisionError
        assert "a" in window


def test_an_id_that_was_forgotten_is_new(folder: Path) -> None:
    with DeduplicationWindow(folder) as window:
        assert window.first_time("a")
        assert (window.forget("a"), window.forget("a"), "a" in window) == (True, False, False)
        assert fill(window, "a", "a") == [True, False]
        window.forget("a")
    with DeduplicationWindow(folder) as window:
        assert fill(window, "a", "a") == [True, False]


def test_ids_leave_by_age(folder: Path) -> None:
    clock = ManualClock()
    with DeduplicationWindow(folder, max_age_s=10, clock=clock) as window:
        fill(window, "a")
        clock.advance(9_999)
        assert fill(window, "a", "b") == [False, True]
        clock.advance(1)
        assert ("a" in window, "b" in window, len(window)) == (False, True, 1)
    clock.advance(9_998)
    with DeduplicationWindow(folder, max_age_s=10, clock=clock) as window:
        assert fill(window, "b") == [False], "an age is counted from the first note, also across a restart"
        clock.advance(1)
        assert fill(window, "b") == [True]


def test_a_clock_that_is_set_back_ends_nothing_early(folder: Path) -> None:
    clock = ManualClock()
    with DeduplicationWindow(folder, max_age_s=10, clock=clock) as window:
        fill(window, "a")
        clock.at_ms -= 3_600_000
        fill(window, "b")
        clock.advance(9_999)
    with DeduplicationWindow(folder, max_age_s=10, clock=clock) as window:
        assert fill(window, "a", "b") == [False, False]
        clock.advance(3_600_000)
        assert fill(window, "a", "b") == [False, False]
        clock.advance(10_000)
        assert fill(window, "a", "b") == [True, True]


def test_ids_leave_by_count(
    folder: Path, caplog: pytest.LogCaptureFixture, told: Callable[[], list[logging.LogRecord]]
) -> None:
    with caplog.at_level(logging.WARNING, "flightlog.consume"):
        with DeduplicationWindow(folder, max_count=3, max_age_s=float("inf")) as window:
            assert fill(window, *"abc", "a", *"de") == [True, True, True, False, True, True]
            assert [id in window for id in "abcde"] == [False, False, True, True, True]
        with DeduplicationWindow(folder, max_count=2) as window:
            assert [id in window for id in "cde"] == [False, True, True]
    assert [record.getMessage().split(": ")[1] for record in told()] == [
        "ids leave by max_count=3 before max_age_s",
        "ids leave by max_count=2 before max_age_s",
    ]


def test_the_file_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication_window, "SLACK", 8)
    disk, sizes = FaultyDisk(), set()
    with DeduplicationWindow(folder, max_count=10, disk=disk, flush_mode=FlushMode.ASYNC) as window:
        for number in range(400):
            window.first_time(str(number))
            sizes.add((folder / "seen").stat().st_size)
            window.forget(str(number - 1))
            sizes.add((folder / "seen").stat().st_size)
        assert "399" in window and len(window) == 1
    assert max(sizes) == len(HEADER) + RECORD.size * (2 * 10 + 8)
    assert disk.count("rename") < 800 / (10 + 8)
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "seen"]


def test_two_at_once(folder: Path) -> None:
    with DeduplicationWindow(folder) as window, window.once("a") as is_first:
        assert is_first
        calls = (window.first_time, window.forget, lambda id: window.once(id).__enter__())
        for call in calls:
            with pytest.raises(EffectInProgressError, match="it comes again"):
                call("a")
        assert window.first_time("b")


def test_many_threads_do_each_effect_once(folder: Path) -> None:
    done: Counter[int] = Counter()
    start = threading.Barrier(8)

    def work() -> None:
        start.wait(WAIT_S)
        for number in range(50):
            while True:
                try:
                    with window.once(str(number)) as is_first:
                        done[number] += is_first
                    break
                except EffectInProgressError:
                    continue

    with DeduplicationWindow(folder, flush_mode=FlushMode.ASYNC) as window:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert done == dict.fromkeys(range(50), 1)


def test_one_sync_serves_all_that_wait(folder: Path) -> None:
    disk = FaultyDisk()
    with DeduplicationWindow(folder, disk=disk) as window:
        before = disk.count("sync", "/seen")
        threads = [threading.Thread(target=window.first_time, args=(str(number),)) for number in range(8)]
        with disk.held_syncs("/seen") as held:
            threads[0].start()
            assert held.acquire(timeout=WAIT_S)
            for thread in threads[1:]:
                thread.start()
            while len(window) < 8:
                threads[-1].join(0.001)
            assert "0" not in window, "it is not durable yet"
        for thread in threads:
            thread.join(WAIT_S)
        assert disk.count("sync", "/seen") == before + 2
        assert all(str(number) in window for number in range(8))


def test_async_notes_wait_for_no_sync(folder: Path) -> None:
    disk = FaultyDisk()
    with DeduplicationWindow(folder, disk=disk, flush_mode=FlushMode.ASYNC) as window:
        before = disk.count("sync", "/seen")
        fill(window, *"abc")
        assert disk.count("sync", "/seen") == before
        window.flush()
        window.flush()
        assert disk.count("sync", "/seen") == before + 1
        fill(window, "d")
    assert disk.count("sync", "/seen") == before + 2


@pytest.mark.parametrize(("ids", "part"), [("ab", "/seen"), ("abcd", "/seen.tmp")], ids=["append", "rewrite"])
def test_a_full_disk_takes_nothing_down(folder: Path, ids: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication_window, "SLACK", 0)
    disk = FaultyDisk()
    with DeduplicationWindow(folder, max_count=2, disk=disk) as window:
        fill(window, *ids)
        disk.fail("write", part, errno.ENOSPC)
        for _ in range(2):
            with pytest.raises(flightlog.DiskFullError), window.once("x"):
                pass
            assert "x" not in window and ids[-1] in window
        disk.heal()
        assert fill(window, "x", "x") == [True, False]
    with DeduplicationWindow(folder, max_count=2) as window:
        assert [id in window for id in (ids[-2], ids[-1], "x")] == [False, True, True]


@pytest.mark.parametrize(("operation", "part"), [("sync", "/seen"), ("rename", "seen"), ("sync_folder", "window")])
def test_after_a_failure_it_is_opened_again(
    folder: Path, operation: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication_window, "SLACK", 0)
    disk = FaultyDisk()
    window = DeduplicationWindow(folder, max_count=2, disk=disk)
    fill(window, *"ab" if operation == "sync" else "abcd")
    disk.fail(operation, part, errno.EIO, times=1)
    with pytest.raises(flightlog.DiskError):
        window.first_time("x")
    for call in (window.first_time, window.__contains__, window.forget):
        with pytest.raises(flightlog.StorePoisonedError):
            call("b")
    window.close()
    with DeduplicationWindow(folder, max_count=2, disk=disk) as window:
        assert "b" in window or "d" in window


def test_damage_costs_the_record_alone(
    folder: Path, caplog: pytest.LogCaptureFixture, told: Callable[[], list[logging.LogRecord]]
) -> None:
    with DeduplicationWindow(folder) as window:
        fill(window, *"abc")
    content = bytearray((folder / "seen").read_bytes())
    content[len(HEADER) + RECORD.size + 20] ^= 1
    (folder / "seen").write_bytes(content + bytes(RECORD.size) + b"torn")
    with caplog.at_level(logging.WARNING, "flightlog.consume"), DeduplicationWindow(folder) as window:
        assert [id in window for id in "abc"] == [True, False, True]
    assert "left out 68 bytes" in caplog.text
    caplog.clear()
    with DeduplicationWindow(folder) as window:
        assert len(window) == 2
    assert not told()


@pytest.mark.parametrize("content", [b"", HEADER[:-1], b"x" * 64, HEADER.replace(b"format 1", b"format 2")])
def test_another_file_is_refused(folder: Path, content: bytes) -> None:
    folder.mkdir()
    (folder / "seen").write_bytes(content)
    with pytest.raises(flightlog.DamagedStoreError, match="every id is new then"):
        DeduplicationWindow(folder)
    assert (folder / "seen").read_bytes() == content
    (folder / "seen").unlink()
    DeduplicationWindow(folder).close()


def test_one_at_a_time(folder: Path, tmp_path: Path) -> None:
    with DeduplicationWindow(folder) as window:
        with pytest.raises(flightlog.StoreLockedError):
            DeduplicationWindow(folder)
        pid = os.fork()
        if pid == 0:
            try:
                window.first_time("a")
            except flightlog.ForkedStoreError:
                window.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert window.first_time("a")
    with DeduplicationWindow(folder):
        pass
    flightlog.open(tmp_path / "store", StoreSettings.small()).close()
    with pytest.raises(flightlog.InvalidArgumentError, match="a folder of its own"):
        DeduplicationWindow(tmp_path / "store")


def test_a_message_that_comes_twice_has_one_effect(tmp_path: Path) -> None:
    """A consumer that dies between the note and the acknowledgement, and a producer that sends twice."""
    charged = []
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        for order in ("1", "2", "1"):
            store.put(Message("orders", b"x", keys=order))
        for is_acknowledged in (False, True):
            with (
                DeduplicationWindow(tmp_path / "charged") as window,
                store.subscribe("orders", "billing", idle_s=0) as member,
            ):
                for message in member:
                    with window.once(message.keys[0]) as is_first:
                        if is_first:
                            charged.append(message.keys[0])
                    if is_acknowledged:
                        message.ack()
    assert sorted(charged) == ["1", "2"]
