"""What fuzzing and looking for it found, by name: files that once broke a reader, or made it take without bound."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.dispatch.dispatching import dispatch_rules
from flightlog.index.key.index_geometry import find_index_geometry, usual_geometry
from flightlog.index.queue.batch_queue import READ_SIZE, BatchQueue
from flightlog.index.queue.batch_unit import BATCH_UNIT_DTYPE, BATCH_UNIT_SIZE
from flightlog.index.queue.queue_sync import Unsynced
from flightlog.index.queue.queue_table import BATCH_QUEUE_FOLDER
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import ConfigFileError, StrayFileError
from flightlog.store.format.light_queues import light_places
from flightlog.store.scan.salvage import next_intact
from flightlog.store.seal.seal import CRC, Seal, decode_seal, read_seal, seal_path
from flightlog.store.segments.log_files import list_log_files
from flightlog.store.segments.segment import Segment, segment_name
from flightlog.store.state.deleted_topics import deleted_path
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside
from flightlog.tests.support.limited_disk import LimitedDisk

SIZE = 1 << 40
"""Bytes of a file that is one large hole."""


@pytest.fixture
def disk() -> Any:
    """It fails a test that reads much."""
    return LimitedDisk(1000, 64 << 20, 8 << 20)


def hole(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.truncate(path, SIZE)
    return path


def test_a_light_queue_offset_of_thousands_of_digits_is_none() -> None:
    digits = "1" * 5000
    raw = f"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x01{digits},7\x02".encode()
    assert light_places("orders", raw) == [(("%LMQ%b", 0), 7)]


def test_a_delay_level_of_thousands_of_digits_is_none() -> None:
    rules = dispatch_rules(StoreSettings())
    assert rules.tags_code(SCHEDULE_TOPIC, f"DELAY\x01{'1' * 5000}\x02".encode(), 1000) == 0
    assert rules.tags_code(SCHEDULE_TOPIC, b"DELAY\x019999999999\x02", 1000) == 1000 + 2 * 3_600_000


def test_a_time_of_delivery_fits_its_entry() -> None:
    """No CRC covers a record's store time."""
    latest = (1 << 63) - 1
    assert dispatch_rules(StoreSettings()).tags_code(SCHEDULE_TOPIC, b"DELAY\x011\x02", latest) == latest


@pytest.mark.parametrize("name", ["../elsewhere", "..", "", "a/b", "a\\u0000"])
def test_a_deleted_topic_is_no_way_out_of_the_folder(name: str, tmp_path: Path) -> None:
    """What is left of a deleted topic's queues is removed: an empty folder beside them went, too."""
    root, beside = tmp_path / "store", tmp_path / "store" / "elsewhere"
    with flightlog.open(root, StoreSettings.small()) as store:
        store.put(Message("orders", b"body"))
    beside.mkdir()
    deleted_path(root).write_text(f'{{"deletedBelow": {{"{name}": 100}}}}')
    with pytest.raises(ConfigFileError, match=r"deleted-topics\.json.*name"):
        flightlog.open(root)
    assert beside.is_dir()
    with flightlog.open_read_only(root) as view:
        assert [m.body for m in view.read("orders")] == [b"body"]
        assert not view.verify().is_clean


def test_a_segment_named_beyond_what_offsets_can_be_is_a_stray(tmp_path: Path) -> None:
    name = f"{10**20 // 4096 * 4096 - 4096:020d}"
    (tmp_path / name).write_bytes(bytes(4096))
    with pytest.raises(StrayFileError, match=name):
        list_log_files(RealDisk(), tmp_path)
    found = list_log_files(RealDisk(), tmp_path, tolerant=True)
    assert found.bases == [] and len(found.notes) == 1


def test_a_seal_of_any_length_is_read_only_as_far_as_one_can_be(disk: Any, tmp_path: Path) -> None:
    hole(seal_path(tmp_path, 0), b"FLSEAL01")
    assert read_seal(disk, tmp_path, Segment(disk, tmp_path / "none", 0, 4096)) is None


@pytest.mark.parametrize("boundaries", [(-5,), (0, 0), (7, 3)])
def test_boundaries_of_a_seal_ascend_from_the_segments_start(boundaries: tuple[int, ...]) -> None:
    assert decode_seal(Seal(0, 4096, 4000, 2, 1, 2, (5,), boundaries, {"t": 2}).encode()) is None
    sound = Seal(0, 4096, 4000, 2, 1, 2, (5,), (0, 7), {"t": 2})
    assert decode_seal(sound.encode()) == sound


def test_a_seal_with_bytes_behind_it_is_none() -> None:
    body = Seal(0, 4096, 4000, 2, 1, 2, (5,), (0, 7), {"t": 2}).encode()[: -CRC.size] + b"more"
    assert decode_seal(body + CRC.pack(crc32c(body))) is None


def test_a_batch_queue_is_read_as_far_as_it_was_written(disk: Any, tmp_path: Path) -> None:
    file_entries = SIZE // BATCH_UNIT_SIZE
    os.truncate(hole(tmp_path / "q" / segment_name(0)), file_entries * BATCH_UNIT_SIZE)
    queue = BatchQueue(disk, tmp_path / "q", file_entries, Unsynced(), in_memory=True)
    queue.load()
    assert (queue.end, len(queue.batches)) == (0, 0)
    assert disk.read_size <= READ_SIZE


def test_an_index_file_larger_than_rocketmq_maps_has_no_geometry(disk: Any, tmp_path: Path) -> None:
    size = 40 + 84 * (SIZE // 84)
    os.truncate(hole(tmp_path / "index" / "20231114221320123", b"\0" * 35 + b"\1\0\0\0\2"), size)
    assert usual_geometry(size) is None
    assert find_index_geometry(disk, tmp_path) is None


def test_looking_for_a_record_behind_damage_reads_what_resembles_one_once(tmp_path: Path) -> None:
    """Every twelve bytes claim to begin a record that reaches to the segment's end."""
    disk = LimitedDisk(100_000, 4 << 20, 1 << 20)
    size = 1 << 18
    path = tmp_path / segment_name(0)
    claims = ((size - at).to_bytes(4, "big") + b"\xda\xa3\x20\xa7    " for at in range(0, size, 12))
    path.write_bytes(b"".join(claims))
    assert next_intact(Segment(disk, path, 0, size), 0, size) is None
    assert disk.read_size < 5 * size


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    """A store with an inner batch of two messages ten times; its queue is gone and is told from the log again."""
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        for number in range(10):
            store.put_batch([Message("batches", b"%d" % number), Message("batches", b"more")])
    shutil.rmtree(tmp_path / "store" / BATCH_QUEUE_FOLDER)
    return tmp_path / "store"


def test_a_flipped_bit_in_the_queue_offset_of_a_batch_makes_no_endless_queue(batches: Path) -> None:
    """No CRC covers it. A reader that skips damage went through four thousand million places, one by one."""
    path = batches / "commitlog" / segment_name(0)
    raw = path.read_bytes()
    at = raw.index(b"\0\0\0\0\0\0\0\x12") + 3  # 18, where the last one belongs
    path.write_bytes(raw[:at] + b"\1" + raw[at + 1 :])
    with flightlog.open_read_only(batches) as view:
        assert view.queues()["batches", 0] == (0, 18)
        assert len(list(view.read("batches"))) == 18
        assert any("queue offset 4294967314" in damage for damage in view.report.damage)
    with flightlog.open(batches) as store:
        assert len(list(store.read("batches"))) == 18


def test_a_batch_queue_that_leaves_out_more_than_can_be_counted(batches: Path) -> None:
    with flightlog.open(batches):
        pass
    path = batches / BATCH_QUEUE_FOLDER / "batches" / "0" / segment_name(0)
    units = np.frombuffer(bytearray(path.read_bytes()), BATCH_UNIT_DTYPE)
    units["base"][5:10] += 1 << 50
    path.write_bytes(units.tobytes())
    with flightlog.open_read_only(batches) as view:
        queue = inside.queue_table(view).get(("batches", 0))
        assert isinstance(queue, BatchQueue)
        queue.load()  # past whatever looks at a queue's last entry
        assert queue.end == (1 << 50) + 20
        assert len(list(view.read("batches", on_corrupt="skip"))) == 10
        assert view.corrupt_skipped == (1 << 50) + 10


def test_a_seal_on_a_bad_sector_is_written_anew(tmp_path: Path) -> None:
    """It is a shortcut; a store that had one could not be closed."""
    settings = StoreSettings(segment_size=4096, allocate_step_size=4096)
    with flightlog.open(tmp_path, settings) as store:
        store.put_many([Message("orders", bytes(1000)) for _ in range(9)])
    bad = FaultyDisk()
    bad.fail("read", "seals/", errno.EIO)
    with flightlog.open_read_only(tmp_path, disk=bad) as view:
        assert sum("a seal that is damaged" in finding.meaning for finding in view.verify().findings) == 2
    with flightlog.open(tmp_path, settings, disk=bad) as store:
        store.put(Message("orders", b"goes on"))
    with flightlog.open_read_only(tmp_path) as view:
        assert view.verify().is_clean and view.verify().sealed_segments >= 2
