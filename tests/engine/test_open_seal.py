"""The segment that is being filled is sealed as it grows: every bit below the durable mark that changes is found, by
verify and, where `check_blocks` asks for it, by reads; and nothing is found that is not there."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoredMessage, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptRecordError
from flightlog.store.seal import open_seal
from flightlog.store.seal.open_seal import SLOT, open_seal_path, read_slots
from flightlog.store.seal.seal import BLOCK_SIZE, make_seal, read_seal
from flightlog.store.segments.segment import Segment
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean, Scale

NEVER_MS = 3_600_000
SIZE = 2 * BLOCK_SIZE + 65536
SETTINGS = StoreSettings(
    segment_size=SIZE,
    queue_file_entries=100,
    key_index=False,
    flush_mode=FlushMode.ASYNC,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
)
"""Rounds come when a test asks for them."""
CHECKED = StoreSettings(check_blocks=True)
FIELDS = {
    "size": 0,
    "magic": 4,
    "body CRC": 8,
    "queue id": 12,
    "flag": 16,
    "queue offset": 20,
    "physical offset": 28,
    "sys flag": 36,
    "born time": 40,
    "born host": 48,
    "store time": 56,
    "store host": 64,
    "reconsume count": 72,
    "prepared offset": 76,
    "body": 88,
}
"""Where each field of a record lies in it, with hosts of IPv4."""


def fill(store: Store, count: int, size: int = 1000) -> None:
    for i in range(count):
        store.put(Message("t", b"%06d" % i + bytes(size), keys=f"key-{i}", tags="A", properties={"color": "red"}))


def segment_of(path: Path, base: int = 0) -> Segment:
    return Segment(RealDisk(), path / "commitlog" / f"{base:020d}", base, SIZE)


def flip(path: Path, position: int, base: int = 0, bit: int = 0) -> None:
    with open(segment_of(path, base).path, "r+b") as file:
        byte = os.pread(file.fileno(), 1, position)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), position)


def color_of(path: Path, message: StoredMessage) -> int:
    """Where the value of a property lies that nothing but a seal covers."""
    return message.physical_offset + segment_of(path).read(message.physical_offset, message.size).index(b"red")


def covered(path: Path, base: int = 0) -> int:
    return sum(size for size, _ in read_slots(RealDisk(), path, segment_of(path, base)).values())


@pytest.fixture
def path(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Path]:
    """Path of a closed store with 100 messages, in one block."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        fill(store, 100)
    assert_clean(tmp_path / "store")
    yield tmp_path / "store"


@pytest.mark.parametrize("field", [*FIELDS, "topic", "properties"])
def test_any_bit_of_a_record_is_found(field: str, path: Path, scale: Scale) -> None:
    with flightlog.open_read_only(path) as view:
        one = next(iter(view.read("t", 0, 50)))
        end = view.end_physical_offset
    assert covered(path) == end, "a clean close covers everything"
    behind_body = one.physical_offset + FIELDS["body"] + len(one.body)
    places = {"topic": behind_body + 1, "properties": behind_body + 4}
    at = places.get(field) or one.physical_offset + FIELDS[field]
    for bit in scale.pick(ci=(random.Random(field).randrange(8),), full=tuple(range(8))):
        flip(path, at, bit=bit)
        with flightlog.open_read_only(path, CHECKED) as view:
            assert not view.verify().is_clean
            with pytest.raises((CorruptRecordError, flightlog.FlightlogError)):
                list(view.read("t", 0, 50))
            assert [
                finding.offset for finding in view.verify().findings if "differ from what was put" in finding.meaning
            ]
        flip(path, at, bit=bit)


def test_only_reads_that_are_asked_to_meet_a_flipped_property(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        one = next(iter(view.read("t", 0, 50)))
    flip(path, color_of(path, one))
    with flightlog.open_read_only(path) as view:
        assert len(list(view.read("t", 0))) == 100, "RocketMQ's CRC says nothing of properties"
        [finding] = view.verify().findings
        assert (finding.path, finding.offset) == (segment_of(path).path, 0)
    with (
        flightlog.open_read_only(path, CHECKED) as view,
        pytest.raises(CorruptRecordError, match="differs from its seal"),
    ):
        list(view.read("t", 0))
    with flightlog.open(path, StoreSettings(check_blocks=True, key_index=False)) as store:
        with pytest.raises(CorruptRecordError, match="differs from its seal"):
            store.get("t", 0, 50)
        assert [finding.offset for finding in store.verify().findings] == [0]


def test_reads_that_ask_seals_read_what_others_read(path: Path, kernel: str) -> None:
    with flightlog.open_read_only(path) as view, flightlog.open_read_only(path, CHECKED) as checked:
        assert [m.body for m in checked.read("t", 0)] == [m.body for m in view.read("t", 0)]
        assert checked.read_batch("t", max_count=1000) == view.read_batch("t", max_count=1000)


def test_what_lies_behind_the_durable_mark_is_not_covered(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Beside a live writer, round by round: views of then and now agree with it."""
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        fill(store, 10)
        assert covered(path) == 0
        inside.maintenance(store).flush_queues()
        assert covered(path) == inside.log(store).flushed
        with flightlog.open_read_only(path, CHECKED) as view:
            fill(store, 1500)  # into the next blocks
            assert covered(path) < inside.log(store).end
            view.refresh()
            assert len(list(view.read("t", 0))) == 1510 and view.verify().is_clean
            inside.maintenance(store).flush_queues()
            assert covered(path) == inside.log(store).flushed == inside.log(store).end
            view.refresh()
            assert len(list(view.read("t", 0))) == 1510 and view.verify().is_clean
    assert_clean(path)


def test_a_full_segment_takes_over_what_was_seen_while_it_was_filled(tmp_path: Path) -> None:
    """A byte that rotted before the segment was full is found by its seal."""
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        fill(store, 500)
        inside.maintenance(store).flush_queues()
    with flightlog.open(path, SETTINGS) as store:  # goes on from the file
        fill(store, 100)
        inside.maintenance(store).flush_queues()
        fill(store, 2000)
        inside.maintenance(store).flush_queues()
        segment = segment_of(path)
        seal = read_seal(RealDisk(), path, segment)
        assert seal is not None and seal == make_seal(inside.log(store).reader, inside.log(store).reader.segments[0])
        assert covered(path) == 0, "the next segment has the file"
        assert covered(path, SIZE) == inside.log(store).flushed - SIZE
        fill(store, 100)
    path2 = tmp_path / "rotten"
    with flightlog.open(path2, SETTINGS) as store:
        fill(store, 500)
        inside.maintenance(store).flush_queues()
        flip(path2, color_of(path2, next(iter(store.read("t", 0, 200)))))
        fill(store, 2100)
        inside.maintenance(store).flush_queues()
        assert read_seal(RealDisk(), path2, segment_of(path2)) is not None
    with flightlog.open_read_only(path2) as view:
        assert [finding.meaning for finding in view.verify().findings] == ["a block that differs from its seal"]


def test_a_killed_writers_coverage_holds_and_goes_on(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, SETTINGS)
    fill(store, 100)
    inside.maintenance(store).flush_queues()
    before = covered(path)
    fill(store, 100)
    kill(store)
    with flightlog.open(path, SETTINGS) as store:
        assert covered(path) == before
        fill(store, 100)
    assert covered(path) > 2 * before
    assert_clean(path)
    flip(path, 76 + 3)
    with flightlog.open_read_only(path) as view:
        assert not view.verify().is_clean


@pytest.mark.parametrize("how", ["wrote last", "cut the log"])
def test_it_does_not_bind_once_another_program_wrote(how: str, path: Path, assert_clean: AssertClean) -> None:
    kept = (path / "flightlog" / "open-seal").read_bytes()
    flip(path, 76 + 3)  # its prepared offset, which no CRC of RocketMQ's covers
    (path / "checkpoint").write_bytes((1).to_bytes(8, "big") + bytes(4088))  # as a broker leaves it
    with flightlog.open_read_only(path, CHECKED) as view:
        assert not [finding for finding in view.verify().findings if "differ" in finding.meaning]
        assert len(list(view.read("t", 0))) == 100
    with flightlog.open(path, SETTINGS):
        assert not open_seal_path(path).exists()
    if how == "cut the log":  # and what a file says that came back speaks of more than there is
        shutil.rmtree(path)
        with flightlog.open(path, SETTINGS) as store:
            fill(store, 10)
        open_seal_path(path).write_bytes(kept)
        with flightlog.open(path, SETTINGS):
            assert not open_seal_path(path).exists()
    assert_clean(path)


@pytest.mark.parametrize("harm", ["torn", "of another segment", "older", "empty", "garbage", "longer"])
def test_a_slot_that_is_not_whole_covers_nothing(harm: str, path: Path, assert_clean: AssertClean) -> None:
    file = open_seal_path(path)
    raw = file.read_bytes()
    if harm == "torn":
        file.write_bytes(raw[:5] + bytes([raw[5] ^ 1]) + raw[6:])
    elif harm == "of another segment":
        with flightlog.open(path, SETTINGS) as store:
            fill(store, 2600)
            inside.maintenance(store).flush_queues()
        assert covered(path, SIZE) > 0
        file.write_bytes(raw)
    elif harm == "older":
        with flightlog.open(path, SETTINGS) as store:
            fill(store, 100)
        file.write_bytes(raw)
        assert covered(path) > 0
    else:
        file.write_bytes({"empty": b"", "garbage": bytes(range(64)), "longer": raw + bytes(range(100))}[harm])
    if harm in ("torn", "empty", "garbage"):
        assert covered(path) == 0
    assert_clean(path)
    with flightlog.open(path, SETTINGS) as store:
        fill(store, 10)
    assert_clean(path)
    with flightlog.open_read_only(path, CHECKED) as view:
        list(view.read("t", 0))


@pytest.mark.parametrize("operation", ["create", "write", "open"])
def test_a_disk_that_refuses_it_costs_coverage_alone(
    operation: str, tmp_path: Path, assert_clean: AssertClean, caplog: pytest.LogCaptureFixture
) -> None:
    disk: FaultyDisk = FaultyDisk()
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS, disk=disk) as store:
        fault = disk.fail(operation, "flightlog/open-seal", errno.ENOSPC)
        for _ in range(3):
            fill(store, 400)  # into the second block
            inside.maintenance(store).flush_queues()
        assert fault.hits and covered(path) < inside.log(store).flushed
        assert len([record for record in caplog.records if "is not sealed as it grows" in record.message]) == 1
        disk.heal()
        fill(store, 10)
        inside.maintenance(store).flush_queues()
        assert covered(path) == inside.log(store).flushed
    assert_clean(path)


def test_a_slot_has_the_documented_bytes(path: Path) -> None:
    from crc32c import crc32c

    size = covered(path)
    data = segment_of(path).read(0, size)
    crc = crc32c(data)
    check = crc32c((0).to_bytes(8, "big") + (0).to_bytes(4, "big") + size.to_bytes(4, "big") + crc.to_bytes(4, "big"))
    assert open_seal_path(path).read_bytes() == SLOT.pack(size, crc, check)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_seal_that_cannot_be_opened_stops_nothing(code: int, tmp_path: Path, assert_clean: AssertClean) -> None:
    """It once ended the round, so that the next put found the store poisoned; and kept the store from opening."""
    disk: FaultyDisk = FaultyDisk()
    path = tmp_path / "store"
    fault = disk.fail("open", "flightlog/open-seal", code)
    for _ in range(2):
        with flightlog.open(path, SETTINGS, disk=disk) as store:
            fill(store, 2600)  # more than a segment
            inside.maintenance(store).flush_queues()
            fill(store, 10)
        with flightlog.open_read_only(path, CHECKED, disk=disk) as view:
            assert view.verify().is_clean
            assert sum(1 for _ in view.read("t", 0)) == view.queues()["t", 0][1]
    assert fault.hits
    disk.heal()
    assert assert_clean(path).sealed_segments == 2


def test_the_work_of_a_round_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean) -> None:
    open_seal_path(path).unlink()
    monkeypatch.setattr(open_seal, "ROUND_SIZE", 10_000)
    with flightlog.open(path, SETTINGS) as store:
        for expected in (10_000, 20_000, 30_000):
            inside.maintenance(store).flush_queues()
            assert covered(path) == expected
    assert covered(path) == 40_000
    assert_clean(path)
