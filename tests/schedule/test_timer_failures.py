"""Timers of a store whose process is killed, whose disk fails, or whose log has lost its tail: none is lost."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.schedule.timer_checkpoint import read_timer_checkpoint
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DiskFullError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside
from flightlog.tests.support.timed_store import SetClock, TimedStore

if TYPE_CHECKING:
    from flightlog.schedule.delivered import DueMessage

    Opened = Callable[..., TimedStore]


@pytest.fixture
def clock(timer_clock: SetClock) -> SetClock:
    return timer_clock


@pytest.mark.parametrize("saves", [False, True])
def test_a_kill_repeats_only_what_was_not_saved(
    opened: Opened, clock: SetClock, saves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = opened()
    for number in range(30):
        timed.put("orders", number, clock.at_ms + 1000 * (number + 1))
    timed.run()
    if not saves:
        monkeypatch.setattr(timed.timers, "save", lambda now_ms: None)
    clock.at_ms += 10_000
    timed.run()
    clock.at_ms += 5_000
    for number in range(30, 40):
        timed.put("orders", number, clock.at_ms + 20_000)
    timed.timers._give_out(clock.at_ms)
    assert timed.delivered() == list(range(15))
    monkeypatch.undo()
    timed.kill()
    timed = opened()
    timed.run()
    again = range(10, 15) if saves else range(15)
    assert timed.delivered() == [*range(15), *again]
    clock.at_ms += 20_000
    timed.run()
    assert sorted(timed.delivered()[15 + len(again) :]) == list(range(15, 40))


def test_an_append_that_fails_is_tried_again_where_it_stopped(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    for number in range(10):
        timed.put("orders", number, clock.at_ms + 1000)
    for number in (1, 2, 5):
        timed.cancel("orders", number, clock.at_ms + 1000)
    timed.run()
    clock.at_ms += 1000
    deliver = timed.deliver
    room = [4]

    def full(deliveries: Sequence[DueMessage]) -> int:
        taken, room[0] = deliveries[: room[0]], 0
        if not taken:
            raise DiskFullError(timed.root, 100, "no room")
        return deliver(taken)

    timed.deliver = full
    for _ in range(3):
        with pytest.raises(DiskFullError):
            timed.run()
    assert timed.delivered() == [0, 3, 4, 6]
    room[0] = 100
    timed.run()
    assert timed.delivered() == [0, 3, 4, 6, 7, 8, 9]


def test_a_full_disk_under_the_timer_files_loses_nothing(opened: Opened, clock: SetClock) -> None:
    disk = FaultyDisk()
    timed = opened(disk=disk)
    timed.put("orders", 0, clock.at_ms + 5000)
    timed.run()
    for part in ("timerlog/", "timerwheel", "timercheck"):
        timed.put("orders", 1, clock.at_ms + 5000)
        disk.fail("*", part, errno.ENOSPC)
        with pytest.raises(DiskFullError):
            timed.run()
            timed.timers.save(clock.at_ms)
        disk.heal()
        timed.run()
        timed.timers.save(clock.at_ms)
    clock.at_ms += 5000
    timed.run()
    assert timed.delivered() == [0, 1, 1, 1]
    disk.fail("sync", "timerlog/", errno.EIO)
    timed.put("orders", 2, clock.at_ms + 5000)
    timed.run()
    with pytest.raises(SyncFailedError):
        timed.timers.save(clock.at_ms)
    disk.heal()


def test_units_of_records_that_a_log_lost_are_cut(opened: Opened, clock: SetClock, tmp_path: Path) -> None:
    """Else, once other records are in their places, a kill brings their times back, and those come at them."""
    timed = opened()
    places = []
    for number in range(10):
        places.append(inside.log(timed.store).end)
        timed.put("orders", number, clock.at_ms + 60_000)
    timed.run()
    timed.timers.save(clock.at_ms)
    timed.close()
    root = tmp_path / "store"
    segment = next((root / "commitlog").iterdir())
    raw = segment.read_bytes()
    segment.write_bytes(raw[: places[5] + 20].ljust(len(raw), b"\0"))
    for path in ("flightlog/progress", "checkpoint"):  # as if RocketMQ had cut it, which knows no progress page
        (root / path).unlink()
    (root / "abort").touch()
    timed = opened()
    assert timed.timers.pending == 5 and timed.timers._log.end == 0, "the others are taken in again"
    for number in range(10, 15):
        timed.put("orders", number, clock.at_ms + 600_000)
    timed.run()
    timed.kill()
    timed = opened()
    timed.run()
    clock.at_ms += 70_000
    timed.run()
    assert timed.delivered() == list(range(5))
    clock.at_ms += 600_000
    while timed.run() == clock.at_ms:
        pass
    assert timed.delivered() == [*range(5), *range(10, 15)]


@pytest.mark.parametrize("kept", [0, 52 * 7, 52 * 20 + 30])
def test_timers_whose_units_are_lost_are_read_from_the_queue_again(
    kept: int, opened: Opened, clock: SetClock, tmp_path: Path
) -> None:
    """The files of the wheel are derived. Without the timer log, every timer that waited was forgotten, silently."""
    timed = opened()
    for number in range(30):
        timed.put("orders", number, clock.at_ms + 1000 * (number + 1))
    timed.run()
    timed.timers.save(clock.at_ms)
    for _ in range(2):
        clock.at_ms += 5_000
        timed.run()
        timed.timers.save(clock.at_ms)
    delivered = timed.delivered()
    assert delivered == list(range(10))
    timed.close()
    (tmp_path / "store" / "timerwheel").unlink()
    for path in sorted((tmp_path / "store" / "timerlog").iterdir()):
        size = path.stat().st_size
        if int(path.name) >= kept:
            path.unlink()
        elif kept < int(path.name) + size:
            path.write_bytes(path.read_bytes()[:kept].ljust(size, b"\0"))
    timed = opened()
    timed.run()
    assert timed.delivered() == delivered, "what was delivered before an earlier save does not come again"
    assert timed.timers.pending == 20
    clock.at_ms += 30_000
    while timed.run() == clock.at_ms:
        pass
    assert timed.delivered() == list(range(30))


def test_a_log_that_lost_its_tail_is_delivered_again_from_the_moment_it_knows(
    opened: Opened, clock: SetClock, tmp_path: Path
) -> None:
    """RocketMQ's check file speaks of the deliveries in the tail as done: they would be lost for good."""
    timed = opened()
    for number in range(40):
        timed.put("orders", number, clock.at_ms + 1000 * (number + 1))
    timed.run()
    ends = []
    for _ in range(20):
        clock.at_ms += 1000
        timed.run()
        timed.timers.save(clock.at_ms)
        ends.append(inside.log(timed.store).end)
    timed.close()
    root = tmp_path / "store"
    checkpoint = read_timer_checkpoint(RealDisk(), root)
    assert checkpoint is not None
    assert len(checkpoint.moments) >= 20
    segment = next((root / "commitlog").iterdir())
    raw = bytearray(segment.read_bytes())
    cut = ends[11] + 20  # in the middle of the 13th delivery
    raw[cut:] = bytes(len(raw) - cut)
    segment.write_bytes(raw)
    for path in ("flightlog/progress", "checkpoint"):  # as if RocketMQ had cut it, which knows no progress page
        (root / path).unlink()
    (root / "abort").touch()
    timed = opened()
    assert timed.delivered() == list(range(12))
    timed.run()
    assert timed.delivered() == list(range(20))
    clock.at_ms += 30_000
    timed.run()
    assert timed.delivered() == list(range(40))
