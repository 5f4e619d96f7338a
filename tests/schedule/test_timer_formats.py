"""The bytes of RocketMQ's timer log, wheel and check file."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from flightlog.schedule.timer_checkpoint import (
    MAX_MOMENTS,
    Moment,
    TimerCheckpoint,
    decode_timer_checkpoint,
    read_timer_checkpoint,
    write_timer_checkpoint,
)
from flightlog.schedule.timer_log import (
    BLANK_MAGIC,
    MAGIC_CANCEL,
    NO_POSITION,
    UNIT,
    UNIT_SIZE,
    TimerLog,
    TimerUnit,
)
from flightlog.schedule.timer_wheel import SLOT_COUNT, SLOT_SIZE, TimerWheel
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import SegmentLengthError, StrayFileError, SyncFailedError
from flightlog.store.format.java_hash import java_hash
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tools.counting_disk import CountingDisk

WRITTEN_MS = 1_700_000_000_000
FILE_SIZE = 52 * 10 + 40
"""Size of a file of ten units and a blank tail of 40 bytes."""


def unit(number: int, *, previous: int = NO_POSITION, magic: int = 1, delay_ms: int = 60_000) -> TimerUnit:
    return TimerUnit(UNIT_SIZE, previous, magic, WRITTEN_MS, delay_ms, 1000 + number, 174, java_hash("TopicTest"))


def fill(timer_log: TimerLog, count: int, first: int = 0) -> list[int]:
    positions = []
    for number in range(first, first + count):
        positions.append(timer_log.place())
        timer_log.add(unit(number))
    return positions


def opened(root: Path, file_size: int = FILE_SIZE) -> TimerLog:
    timer_log = TimerLog(RealDisk(), root, file_size)
    timer_log.open()
    return timer_log


def offsets(timer_log: TimerLog) -> list[int]:
    return [int(offset) for _, units in timer_log.scan() for offset in units["physical_offset"]]


def test_units_are_read_once_on_each_way_through_a_chain(tmp_path: Path) -> None:
    """Back to the first timer of a second, and forwards as they are given out: else a second of many would read much
    of the file for each of them."""
    disk, count = CountingDisk(may_write=True), 5000
    timer_log = TimerLog(disk, tmp_path, UNIT_SIZE * (2 * count) + 40)
    timer_log.open()
    positions = fill(timer_log, count)
    timer_log.write()
    there_and_back = positions[::-1] + positions
    assert [found and found.physical_offset for found in map(timer_log.unit, there_and_back)] == [
        1000 + position // UNIT_SIZE for position in there_and_back
    ]
    assert disk.read_size < 3 * count * UNIT_SIZE
    timer_log.close()


def test_a_unit_is_rocketmqs() -> None:
    made = UNIT.pack(52, -1, 1, WRITTEN_MS, 60_000, 1024, 174, java_hash("TopicTest"), 0)
    assert made.hex(" ", 4).replace(" ", "") == (
        "00000034ffffffffffffffff000000010000018bcfe568000000ea600000000000000400000000ae8e9876410000000000000000"
    )
    assert BLANK_MAGIC & 0xFFFFFFFF == 0xBBCCDDEE ^ (1880681586 + 8)


def test_a_slot_is_rocketmqs(tmp_path: Path) -> None:
    wheel = TimerWheel(RealDisk(), tmp_path)
    wheel.add((WRITTEN_MS + 60_000) // 1000, 0, 1)
    wheel.flush()
    wheel.close()
    with (tmp_path / "timerwheel").open("rb") as file:
        assert file.seek(0, 2) == SLOT_COUNT * SLOT_SIZE == 38_707_200
        file.seek(512_060 * SLOT_SIZE)
        assert file.read(32).hex() == "000000006553f13c0000000000000000000000000000000000000001" + "00000000"


def test_files_end_as_rocketmqs_do(tmp_path: Path) -> None:
    timer_log = opened(tmp_path)
    positions = fill(timer_log, 25)
    timer_log.sync()
    per_file = (FILE_SIZE - 16) // UNIT_SIZE
    assert positions == [n // per_file * FILE_SIZE + n % per_file * UNIT_SIZE for n in range(25)]
    names = sorted(path.name for path in (tmp_path / "timerlog").iterdir())
    assert names == [f"{n * FILE_SIZE:020d}" for n in range(len(names))]
    raw = (tmp_path / "timerlog" / names[0]).read_bytes()
    assert len(raw) == FILE_SIZE
    tail = FILE_SIZE - per_file * UNIT_SIZE
    assert raw[-tail:][:16] == tail.to_bytes(4) + bytes(8) + bytes.fromhex("cbd43194")
    assert offsets(timer_log) == [1000 + n for n in range(25)]
    timer_log.close()
    again = opened(tmp_path, file_size=100)
    assert again.file_size == FILE_SIZE, "the size of the files that are there"
    assert offsets(again) == [1000 + n for n in range(25)]
    assert again.unit(positions[13]) == unit(13)
    again.close()


def test_the_last_unit_of_a_file_of_100_mib() -> None:
    timer_log = TimerLog(RealDisk(), Path("/nowhere"))
    assert (timer_log.file_size - 16) // UNIT_SIZE * UNIT_SIZE - UNIT_SIZE == 104_857_532


def test_a_cut_that_a_death_ends_leaves_files_that_load(tmp_path: Path) -> None:
    timer_log = opened(tmp_path)
    fill(timer_log, 25)
    timer_log.sync()
    timer_log.close()
    disk: FaultyDisk = FaultyDisk()
    disk.fail("sync", "timerlog", errno.EIO)
    timer_log = TimerLog(disk, tmp_path, FILE_SIZE)
    timer_log.open()
    with pytest.raises(SyncFailedError):
        timer_log.cut(UNIT_SIZE * 3)
    timer_log.close()
    assert disk.count("resize", "timerlog") == 0, "a death may come at any moment"
    assert offsets(opened(tmp_path)) == [1000, 1001, 1002]


@pytest.mark.parametrize("keep", [0, 1, 4, 10, 11, 20, 24, 25])
def test_what_is_cut_off_leaves_zeros_and_is_written_anew(tmp_path: Path, keep: int) -> None:
    timer_log = opened(tmp_path)
    positions = fill(timer_log, 25)
    timer_log.sync()
    timer_log.cut(positions[keep] if keep < 25 else timer_log.end)
    assert offsets(timer_log) == [1000 + n for n in range(keep)]
    raw = b"".join(path.read_bytes() for path in sorted((tmp_path / "timerlog").glob("*")))
    assert not any(raw[timer_log.end :])
    assert fill(timer_log, 25 - keep, keep) == positions[keep:]
    assert timer_log.unit(positions[24]) == unit(24), "also before it is written"
    timer_log.sync()
    assert [timer_log.unit(position) for position in positions] == [unit(n) for n in range(25)]
    timer_log.close()


def test_a_scan_ends_at_the_first_unit_that_is_not_sound(tmp_path: Path) -> None:
    timer_log = opened(tmp_path)
    positions = fill(timer_log, 25)
    timer_log.sync()
    timer_log.close()
    path = tmp_path / "timerlog" / f"{FILE_SIZE:020d}"
    raw = bytearray(path.read_bytes())
    raw[positions[13] - FILE_SIZE + 15] = 0x10  # a bit that no magic has
    path.write_bytes(raw)
    again = opened(tmp_path)
    assert offsets(again) == [1000 + n for n in range(13)]
    assert again.unit(positions[13]) is None
    again.close()


def test_files_that_are_no_timer_log_are_refused(tmp_path: Path) -> None:
    timer_log = opened(tmp_path)
    fill(timer_log, 15)
    timer_log.sync()
    timer_log.close()
    (tmp_path / "timerlog" / "notes").write_bytes(bytes(FILE_SIZE))
    with pytest.raises(StrayFileError, match="notes"):
        opened(tmp_path)
    (tmp_path / "timerlog" / "notes").unlink()
    (tmp_path / "timerlog" / f"{FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE - 1))
    with pytest.raises(SegmentLengthError):
        opened(tmp_path)


def test_an_empty_last_file_is_removed(tmp_path: Path) -> None:
    timer_log = opened(tmp_path)
    fill(timer_log, 3)
    timer_log.sync()
    timer_log.close()
    (tmp_path / "timerlog" / f"{FILE_SIZE:020d}").touch()
    again = opened(tmp_path)
    assert offsets(again) == [1000, 1001, 1002]
    again.close()


def test_old_files_go_and_positions_stay(tmp_path: Path) -> None:
    timer_log = opened(tmp_path)
    positions = fill(timer_log, 25)
    timer_log.sync()
    assert timer_log.remove_before(WRITTEN_MS) == 0
    assert timer_log.remove_before(WRITTEN_MS + 1) == 2, "not the last one"
    assert timer_log.unit(positions[0]) is None
    assert timer_log.unit(positions[24]) == unit(24)
    timer_log.close()
    again = opened(tmp_path)
    assert again.start == 2 * FILE_SIZE
    assert offsets(again) == [1000 + n for n in range(20, 25)]
    again.close()


def test_chains_and_counts_of_the_wheel() -> None:
    wheel = TimerWheel(RealDisk(), Path("/nowhere"), 1000)
    assert wheel.next_second(5_000) is None
    assert wheel.add(5_500, 0, 1) == NO_POSITION
    assert wheel.add(5_500, 52, 1) == 0
    assert wheel.add(5_500, 104, -1) == 52
    assert wheel.count(5_500) == 1
    assert wheel.count(6_500) == 0, "the same slot, another second"
    assert wheel.get(6_500) is None
    assert wheel.next_second(5_000) == 5_500
    assert wheel.next_second(5_500) == 5_500
    assert wheel.next_second(5_501) is None
    assert wheel.next_second(4_000) == 5_500, "more than a turn ahead"
    assert wheel.holder(6_500) == 5_500
    wheel.add(5_999, 156, 1)
    assert wheel.next_second(5_501) == 5_999
    assert wheel.pending(5_000) == 2
    assert wheel.pending(5_501) == 1
    assert wheel.add(6_500, 208, 1) == NO_POSITION, "the slot is another second's now"
    assert wheel.get(5_500) is None


def test_only_pages_that_have_changed_are_written(tmp_path: Path) -> None:
    wheel = TimerWheel(RealDisk(), tmp_path, 1000)
    wheel.add(128, 0, 1)
    wheel.flush()
    path = tmp_path / "timerwheel"
    assert path.stat().st_size == 32_000
    path.write_bytes(bytes(32_000))
    wheel.flush()
    assert not any(path.read_bytes()), "nothing has changed"
    wheel.add(999, 52, 1)
    wheel.flush()
    assert {at // 4096 for at, byte in enumerate(path.read_bytes()) if byte} == {7}
    wheel.close()
    again = TimerWheel(RealDisk(), tmp_path, 1000)
    again.load()
    assert again.get(999) == (999, 52, 52, 1, 0)
    again.clear()
    again.flush()
    assert not any(path.read_bytes())
    again.close()


def test_many_units_at_once_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    timer_log, one, many = opened(tmp_path, 1 << 16), *(TimerWheel(RealDisk(), tmp_path, 1000) for _ in range(2))
    first = WRITTEN_MS // 1000
    for number in range(2000):
        second = first + number * number % 700
        position = timer_log.place()
        magic = MAGIC_CANCEL | 1 if number % 7 == 0 else 1
        previous = one.add(second, position, -1 if magic & MAGIC_CANCEL else 1)
        timer_log.add(unit(number, previous=previous, magic=magic, delay_ms=(second - first) * 1000))
    timer_log.sync()
    for position, units in timer_log.scan():
        many.add_all(position, units, first)
    assert [many.get(first + n) for n in range(700)] == [one.get(first + n) for n in range(700)]
    assert many.pending(first) == one.pending(first)
    later = TimerWheel(RealDisk(), tmp_path, 1000)
    for position, units in timer_log.scan():
        later.add_all(position, units, first + 300)
    assert later.next_second(first) == one.next_second(first + 300)
    timer_log.close()


def test_the_check_file(tmp_path: Path) -> None:
    disk = RealDisk()
    assert read_timer_checkpoint(disk, tmp_path) is None
    made = TimerCheckpoint(state_version=3).next(Moment(4096, WRITTEN_MS, 17), 520, WRITTEN_MS + 5)
    write_timer_checkpoint(disk, tmp_path, made)
    raw = (tmp_path / "config" / "timercheck").read_bytes()
    assert len(raw) == 4096
    words = (WRITTEN_MS, 520, 17, 17, 3, WRITTEN_MS + 5, 1)
    assert raw[:56] == b"".join(word.to_bytes(8) for word in words)
    assert read_timer_checkpoint(disk, tmp_path) == made
    rocketmqs = bytearray(raw)
    rocketmqs[7] ^= 1
    found = decode_timer_checkpoint(bytes(rocketmqs))
    assert found is not None
    assert (found.read_time_ms, found.moments) == (WRITTEN_MS ^ 1, ())
    assert decode_timer_checkpoint(raw[:55]) is None
    assert decode_timer_checkpoint(raw[:56]) == TimerCheckpoint(*words)


def test_moments_reach_back_and_grow_sparse() -> None:
    made = TimerCheckpoint()
    for number in range(1, 20_001):
        made = made.next(Moment(number * 100, WRITTEN_MS + number * 1000, number), 0, 0)
    assert len(made.moments) <= MAX_MOMENTS
    assert len(made.encode()) == 4096
    assert decode_timer_checkpoint(made.encode()) == made
    ends = [moment.log_end for moment in made.moments]
    assert ends == sorted(ends, reverse=True)
    assert ends[:40] == [2_000_000 - 100 * n for n in range(40)], "the newest are all there"
    assert made.moment_within(2_000_050) == made.moments[0]
    assert made.moment_within(ends[-1]) == made.moments[-1]
    assert made.moment_within(ends[-1] - 1) is None
    assert ends[-1] == 100, "and the oldest are old"
    assert max(b / a for a, b in zip(ends[1:], ends, strict=False) if a > 1_000_000) < 1.5
