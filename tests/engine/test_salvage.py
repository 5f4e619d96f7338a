"""`flightlog.salvage`: every intact record in a new store, whatever else is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.repair.placeholder import LOST_PROPERTY
from flightlog.store.format.crc_property import CRC_PROPERTY
from flightlog.store.state.checkpoint import Checkpoint

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings(segment_size=64 << 10, queue_file_entries=100, index_slots=100, index_entries=400)
COUNT = 600
Fields = tuple[object, ...]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        store.put_many([Message("t", b"%06d" % n * 30, keys=f"k{n}", tags="a", queue_id=n % 2) for n in range(COUNT)])
    return path


def fields(path: Path) -> dict[tuple[str, int, int], Fields]:
    """Everything of every message but its place."""
    found = dict[tuple[str, int, int], Fields]()
    with flightlog.open_read_only(path) as view:
        for topic, queue_id in view.queues():
            for m in view.read(topic, queue_id, on_corrupt="skip"):
                if LOST_PROPERTY not in m.properties:
                    properties = {name: value for name, value in m.properties.items() if name != CRC_PROPERTY}
                    times = m.born_timestamp_ms, m.store_timestamp_ms, m.born_host, m.store_host
                    found[topic, queue_id, m.queue_offset] = (m.body, properties, m.flag, m.sys_flag, *times)
    return found


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}


def wipe(root: Path, start: int, size: int, content: bytes = b"\0") -> None:
    """Write over the log."""
    for at in range(start, start + size):
        segment = at // (64 << 10) * (64 << 10)
        with (root / "commitlog" / f"{segment:020}").open("r+b") as file:
            file.seek(at - segment)
            file.write(content)


@pytest.mark.parametrize(
    "name", ["v1-clean", "rollover", "v2-v6", "propcrc", "cqext", "lmq", "batch-bcq", "minoffset", "delay-tx"]
)
def test_a_sound_store_is_carried_over_whole(
    name: str, golden: Callable[[str], Path], tmp_path: Path, assert_clean: AssertClean
) -> None:
    store, out = golden(name) / "store", tmp_path / "out"
    settings = StoreSettings(check_crc_property=name == "propcrc")
    report = flightlog.salvage(store, out, settings, write=True)
    assert (report.lost, report.placeholders, report.renumbered) == ([], 0, 0)
    assert fields(out) == fields(store)
    with flightlog.open_read_only(store) as old, flightlog.open_read_only(out, settings) as new:
        assert old.queues() == new.queues()
    assert assert_clean(out).records == report.records


def test_past_damage(root: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    before = fields(root)
    wipe(root, 5_000, 3_000)
    wipe(root, (64 << 10) + 60_000, 10_000)  # across two segments
    for name in ("consumequeue", "index"):
        shutil.rmtree(root / name)
    left, untouched = fields(root), contents(root)
    dry = flightlog.salvage(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    report = flightlog.salvage(root, tmp_path / "out", write=True)
    assert contents(root) == untouched
    assert (dry.records, dry.lost) == (report.records, report.lost)
    carried = fields(tmp_path / "out")
    assert carried == left and 0 < len(before) - len(left) == report.placeholders < 60
    assert all(carried[place] == before[place] for place in carried)
    assert [lost.physical_offset <= 5_000 < lost.physical_offset + lost.size for lost in report.lost].count(True) == 1
    assert assert_clean(tmp_path / "out").records == COUNT
    with flightlog.open(tmp_path / "out") as store:
        assert store.put(Message("t", b"next", queue_id=0)).queue_offset == COUNT // 2


def test_a_checkpoint_that_is_damaged_as_well_drops_nothing(root: Path, tmp_path: Path) -> None:
    """Its time was before all records: what followed the damage was taken for what RocketMQ's recovery had dropped."""
    for newest_ms in (16384, 1_400_000_000_000):
        wipe(root, 5_000, 300, b"\1")
        checkpoint = Checkpoint(5065515237798326321, newest_ms, 4096, 4025, 18)
        (root / "checkpoint").write_bytes(checkpoint.encode())
        report = flightlog.salvage(root, tmp_path / "out")
        assert report.records > COUNT - 5 and len(report.lost) == 1 and report.dropped_size == 0
        with flightlog.open_read_only(root) as view:
            assert view.end_physical_offset > 100_000, "the log does not end at the damage"


def test_what_rocketmq_dropped_is_told(root: Path, tmp_path: Path) -> None:
    with flightlog.open_read_only(root) as view:
        first = next(iter(view.read("t", 0)))
    checkpoint = Checkpoint(first.store_timestamp_ms, first.store_timestamp_ms, 0, 0, first.physical_offset)
    (root / "checkpoint").write_bytes(checkpoint.encode())
    wipe(root, first.physical_offset + first.size, 4, b"\0")
    report = flightlog.salvage(root, tmp_path / "out")
    assert report.records == 1 and report.lost == [] and report.dropped_size > COUNT * first.size * 0.9


def test_a_segment_that_is_missing_and_one_that_is_short(root: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    segments = sorted((root / "commitlog").iterdir())
    segments[1].unlink()
    with segments[2].open("r+b") as file:
        file.truncate(10_000)
    report = flightlog.salvage(root, tmp_path / "out", write=True)
    assert [lost.found for lost in report.lost][:1] == ["no segment file"] and len(report.lost) == 2
    assert report.records + report.placeholders == assert_clean(tmp_path / "out").records
    with flightlog.open_read_only(tmp_path / "out") as view:
        messages = list(view.read("t", 0))
        assert [m.queue_offset for m in messages] == list(range(len(messages))), "no gap, up to the last one found"


def test_a_queue_offset_that_cannot_be(root: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    """No CRC covers it: a flipped bit must not make a million placeholders."""
    before = fields(root)
    with flightlog.open_read_only(root) as view:
        place = next(iter(view.read("t", 0, 5))).physical_offset
    wipe(root, place + 20 + 3, 1, b"\x7f")
    report = flightlog.salvage(root, tmp_path / "out", write=True)
    assert (report.renumbered, report.placeholders, report.records) == (1, 0, COUNT)
    assert fields(tmp_path / "out") == before
    assert_clean(tmp_path / "out")


@pytest.mark.parametrize("queue_offset", [-2, 1 << 62])
def test_a_queue_whose_first_record_has_no_possible_queue_offset(
    queue_offset: int, root: Path, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The salvaged store had no entry for it: dispatch passes over such a record."""
    with flightlog.open(root) as store:
        place = store.put(Message("u", b"the only one")).physical_offset
        store.flush()
    for at, byte in enumerate(queue_offset.to_bytes(8, "big", signed=True)):
        wipe(root, place + 20 + at, 1, bytes([byte]))
    report = flightlog.salvage(root, tmp_path / "out", write=True)
    assert (report.renumbered, report.placeholders, report.records) == (1, 0, COUNT + 1)
    with flightlog.open_read_only(tmp_path / "out") as view:
        assert [(m.queue_offset, m.body) for m in view.read("u", 0)] == [(0, b"the only one")]
    assert_clean(tmp_path / "out")


def test_deleted_topics_stay_deleted(root: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(root) as store:
        store.put(Message("u", b"stays"))
        store.delete_topic("t")
    report = flightlog.salvage(root, tmp_path / "out", write=True)
    assert (report.records, report.deleted) == (1, COUNT)
    with flightlog.open_read_only(tmp_path / "out") as view:
        assert list(view.topics()) == ["u"]
    assert_clean(tmp_path / "out")


@pytest.mark.parametrize("content", [b"{", b'{"topicConfigTable":{"t":{"topicName":"other"}}}', None])
def test_state_files_that_cannot_be_read(
    content: bytes | None, root: Path, tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = root / "config" / "topics.json"
    for backup in path.parent.glob("*.bak"):
        backup.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 33) if content is None else file.write(content)
    report = flightlog.salvage(root, tmp_path / "out", write=True)
    assert "topics.json" not in report.state_files and len(report.state_files_lost) == 1
    assert fields(tmp_path / "out") == fields(root)
    assert_clean(tmp_path / "out")


def test_it_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(flightlog.UsageError, match="empty"):
        flightlog.salvage(root, root, write=True)
    with pytest.raises(flightlog.UsageError, match="outside"):
        flightlog.salvage(root, root / "new", write=True)
    with pytest.raises(flightlog.StoreNotFoundError):
        flightlog.salvage(tmp_path / "none", tmp_path / "out", write=True)
    with flightlog.open(root), pytest.raises(flightlog.StoreLockedError):
        flightlog.salvage(root, tmp_path / "out", write=True)
    assert not (tmp_path / "out").exists()
