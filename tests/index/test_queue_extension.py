"""Queue extensions, as RocketMQ's store `cqext` has them."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flightlog
from flightlog import StoreSettings
from flightlog.engine.read.entries import may_match_mask
from flightlog.index.filter.tag_filter import tag_filter
from flightlog.index.queue.queue_extension import ADDRESS_BASE, ExtensionUnit, QueueExtension
from flightlog.index.queue.queue_sync import Unsynced
from flightlog.index.queue.queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_DTYPE
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import GeometryMismatchError
from flightlog.store.format.java_hash import java_hash
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

FILE_SIZE = 65_536
KEY = ("T113_1", 1)
FIRST_UNIT = bytes.fromhex("0014 000000000027a808 000001a1fbdcb642 0000")


@pytest.fixture
def path(golden_copy: Callable[[str], Path]) -> Path:
    return golden_copy("cqext") / "store"


def file_of(path: Path) -> Path:
    return path / "consumequeue_ext" / KEY[0] / str(KEY[1]) / f"{0:020d}"


def test_units_by_address(path: Path) -> None:
    assert file_of(path).read_bytes()[:20] == FIRST_UNIT
    extension = QueueExtension(RealDisk(), file_of(path).parent, FILE_SIZE)
    assert extension.unit(ADDRESS_BASE) == ExtensionUnit(20, 2_598_920, 0x01A1FBDCB642)
    assert extension.unit(ADDRESS_BASE + 19) is None
    assert extension.unit(ADDRESS_BASE + (1 << 40)) is None
    assert extension.unit(2_598_920) is None


def test_a_filter_looks_at_codes_in_the_extension(path: Path) -> None:
    """Not one entry of another tag is looked up in the log."""
    with flightlog.open_read_only(path) as view:
        for key, (first, end) in view.queues().items():
            queue = inside.queue_table(view).get(key)
            assert queue is not None
            units = queue.units(first, end - first)
            assert (units["tags_code"] <= HIGHEST_EXTENSION_ADDRESS).all()
            tags = [message.tags for message in view.read(*key)]
            for tag in {tag for tag in tags if tag and "||" not in tag}:
                mask = may_match_mask(queue, units, tag_filter(tag))
                assert mask.tolist() == [t == tag for t in tags]
                assert view.estimate_count(*key, first, end, tags=tag) == sum(mask)


def test_without_its_unit_a_message_is_asked_itself(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        expected = [message.body for message in view.read(*KEY, tags="TagB")]
    with file_of(path).open("r+b") as file:
        file.write(bytes(20))
    with flightlog.open_read_only(path) as view:
        assert [message.body for message in view.read(*KEY, tags="TagB")] == expected
        (finding,) = view.verify().findings
        assert (finding.path.parent.name, finding.path.name, finding.offset) == (KEY[0], "1", 0)
    shutil.rmtree(file_of(path).parent)
    with flightlog.open_read_only(path) as view:
        assert [message.body for message in view.read(*KEY, tags="TagB")] == expected


@pytest.mark.parametrize(
    "unit",
    [
        bytes(20),
        b"\xff\xff" + bytes(18),  # filler
        b"\0\x15" + FIRST_UNIT[2:],  # its size and its bit map's differ
        b"\0\x12" + FIRST_UNIT[2:18] + b"\xff\xfe",  # a bit map of less than nothing
        FIRST_UNIT[:2] + (ADDRESS_BASE + 20).to_bytes(8, "big", signed=True) + FIRST_UNIT[10:],  # an address again
    ],
)
def test_what_is_no_unit_resolves_nothing(path: Path, unit: bytes) -> None:
    with file_of(path).open("r+b") as file:
        file.write(unit)
    extension = QueueExtension(RealDisk(), file_of(path).parent, FILE_SIZE)
    units = np.array([(0, 100, ADDRESS_BASE), (100, 100, ADDRESS_BASE + 20), (200, 100, 7)], UNIT_DTYPE)
    before = units.copy()
    codes = extension.resolved(units)["tags_code"].tolist()
    assert codes[0] == ADDRESS_BASE and codes[1] > HIGHEST_EXTENSION_ADDRESS and codes[2] == 7
    assert extension.unit(ADDRESS_BASE) is None
    assert (units == before).all()


# -- written by flightlog


def files(path: Path) -> dict[str, bytes]:
    """Everything in queues and their extensions."""
    found = [*(path / "consumequeue").rglob("*"), *(path / "consumequeue_ext").rglob("*")]
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(found) if file.is_file()}


def assert_clean(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


EXTENDED = StoreSettings(queue_file_entries=1000, queue_extension=True, queue_extension_file_size=FILE_SIZE)


def test_rebuilt_extensions_are_rocketmqs_byte_for_byte(path: Path) -> None:
    before = files(path)
    shutil.rmtree(path / "consumequeue")
    shutil.rmtree(path / "consumequeue_ext")
    flightlog.open(path, EXTENDED).close()
    assert files(path) == before
    assert_clean(path)


def test_a_store_that_has_extensions_goes_on_with_them(path: Path) -> None:
    with flightlog.open(path) as store:
        old = store.queues()[KEY][1]
        store.put_many([flightlog.Message(KEY[0], b"new", tags=f"t{i % 3}", queue_id=KEY[1]) for i in range(50)])
        assert store.queues()[KEY][1] == old + 50
        queue = inside.queue_table(store).get(KEY)
        assert queue is not None
        units = queue.units(0, queue.end)
        assert (units["tags_code"] == ADDRESS_BASE + 20 * np.arange(queue.end)).all()
        assert queue.extension is not None
        for message, unit in zip(store.read(*KEY, old), units[old:], strict=True):
            found = queue.extension.unit(int(unit["tags_code"]))
            assert found == ExtensionUnit(20, java_hash(message.tags or ""), message.store_timestamp_ms)
        assert sum(1 for _ in store.read(*KEY, old, tags="t1")) == 17
    with flightlog.open(path) as store:
        assert store.recovery_report.records_scanned == 0
        store.put(flightlog.Message(KEY[0], b"newer", queue_id=KEY[1]))
        assert store.verify().is_clean
    assert_clean(path)


def test_units_roll_into_the_next_file_and_expire(tmp_path: Path) -> None:
    """Three units a file of 83 bytes: a fourth would need the last four bytes."""
    settings = StoreSettings.small(segment_size=4096, queue_extension=True, queue_extension_file_size=83)
    with flightlog.open(tmp_path, settings) as store:
        store.put_many([flightlog.Message("orders", b"x" * 1000, tags="a") for _ in range(30)])
        folder = tmp_path / "consumequeue_ext" / "orders" / "0"
        assert store.queues()["orders", 0] == (0, 30)
        assert [file.name for file in sorted(folder.iterdir())] == [f"{i * 83:020d}" for i in range(10)]
        for file in sorted(folder.iterdir())[:-1]:
            assert len(file.read_bytes()) == 83 and file.read_bytes()[60:] == b"\xff\xff" + bytes(21)
        assert sum(1 for _ in store.read("orders", tags="a")) == 30
        store.flush()
        report = store.clean_up(0)
        first = store.queues()["orders", 0][0]
        assert first >= 24
        removed = [file for file in report.queue_files if "consumequeue_ext" in file.parts]
        assert removed == [folder / f"{i * 83:020d}" for i in range(first // 3)]
        assert [file.name for file in sorted(folder.iterdir())] == [f"{i * 83:020d}" for i in range(first // 3, 10)]
    assert_clean(tmp_path)
    with flightlog.open(tmp_path, settings) as store:
        store.put(flightlog.Message("orders", b"x", tags="b"))
        assert [message.tags for message in store.read("orders", tags="b")] == ["b"]
    assert_clean(tmp_path)


@pytest.mark.parametrize("lost", ["last unit", "last file", "folder", "some units"])
def test_lost_units_are_written_anew(path: Path, lost: str) -> None:
    flightlog.open(path).close()
    with flightlog.open_read_only(path) as view:
        end = view.queues()[KEY][1]
    file = file_of(path)
    if lost == "folder":
        shutil.rmtree(file.parent)
    elif lost == "last file":
        file.unlink()
    else:
        with file.open("r+b") as opened:
            opened.seek(20 * (end - 1 if lost == "last unit" else end - 5))
            opened.write(bytes(100))
    flightlog.open(path).close()
    assert_clean(path)
    with flightlog.open(path) as store:
        assert store.recovery_report.records_scanned == 0


def test_another_file_size_is_refused(path: Path) -> None:
    with pytest.raises(GeometryMismatchError, match="queue_extension_file_size"):
        flightlog.open(path, StoreSettings(queue_extension_file_size=FILE_SIZE * 2))
    flightlog.open(path, EXTENDED).close()
    assert_clean(path)


def test_light_queues_have_no_extension(tmp_path: Path) -> None:
    """As in RocketMQ, which dispatches to them by another way."""
    settings = StoreSettings.small(multi_dispatch=True, queue_extension=True)
    with flightlog.open(tmp_path, settings) as store:
        store.put(flightlog.Message("t", b"x", tags="a", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        assert [m.topic for m in store.get("%LMQ%a", 0, 0, tags="a").messages] == ["t"]
    assert [folder.name for folder in (tmp_path / "consumequeue_ext").iterdir()] == ["t"]
    assert_clean(tmp_path)


def test_a_deleted_topics_extension_goes_with_it(path: Path) -> None:
    with flightlog.open(path) as store:
        store.delete_topic(KEY[0])
        assert not file_of(path).parent.parent.exists()
        store.put(flightlog.Message(KEY[0], b"again", tags="TagB", queue_id=KEY[1]))
        assert [m.body for m in store.read(*KEY, tags="TagB")] == [b"again"]
        assert file_of(path).exists()
    assert_clean(path)


# -- on its own


def units_of(*codes: int) -> Any:
    return np.array([(1000 * i, 100, code) for i, code in enumerate(codes)], UNIT_DTYPE)


def times(count: int) -> Any:
    return np.arange(count, dtype=np.int64) + 1_700_000_000_000


def test_the_next_unit_comes_behind_the_last_one_that_a_queue_speaks_of(tmp_path: Path) -> None:
    """Units that no entry names any more are written over."""
    extension = QueueExtension(RealDisk(), tmp_path / "t" / "0", 1024)
    extension.begin_behind(None)
    addressed = extension.put(units_of(1, 2, 3), times(3))
    assert addressed["tags_code"].tolist() == [ADDRESS_BASE, ADDRESS_BASE + 20, ADDRESS_BASE + 40]
    extension.begin_behind(ADDRESS_BASE + 20)
    assert extension.put(units_of(9), times(1))["tags_code"].tolist() == [ADDRESS_BASE + 40]
    assert extension.resolved(addressed)["tags_code"].tolist() == [1, 2, 9]


def test_units_are_written_again_as_they_are(tmp_path: Path) -> None:
    """A file that is not there is passed over: recovery makes its units anew."""
    unsynced = Unsynced()
    extension = QueueExtension(RealDisk(), tmp_path / "t" / "0", 84, unsynced)  # four units a file
    extension.begin_behind(None)
    addressed = extension.put(units_of(*range(10)), times(10))
    unsynced.take()
    paths = sorted(extension.folder.iterdir())
    before = [path.read_bytes() for path in paths]
    assert [int(path.name) for path in paths] == [0, 84, 168]
    paths[1].unlink()
    extension.write_again(np.concatenate([units_of(5), addressed]).astype(UNIT_DTYPE))
    taken = unsynced.take()
    assert taken.files == {paths[0], paths[2]}
    assert extension.folder in taken.folders, "their maker may have died before it had synced their names"
    assert [path.read_bytes() for path in sorted(extension.folder.iterdir())] == [before[0], before[2]]


def test_a_file_that_cannot_be_read_resolves_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    extension = QueueExtension(disk, tmp_path / "t" / "0", 84)
    extension.begin_behind(None)
    addressed = extension.put(units_of(*range(10)), times(10))
    disk.fail("read", f"{84:020d}", errno.EIO)
    codes = extension.resolved(addressed)["tags_code"]
    assert codes[:4].tolist() == [0, 1, 2, 3] and codes[8:].tolist() == [8, 9]
    assert (codes[4:8] == addressed["tags_code"][4:8]).all()
    assert extension.unit(int(addressed["tags_code"][5])) is None


def test_a_removed_extension_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    folders = tmp_path / "t" / "0", tmp_path / "t" / "1"
    extensions = [QueueExtension(RealDisk(), folder, 84) for folder in folders]
    for extension in extensions:
        extension.begin_behind(None)
        extension.put(units_of(*range(10)), times(10))
    (folders[0] / "folder").mkdir()
    extensions[0].remove_all()
    assert [path.name for path in folders[0].iterdir()] == ["folder"] and len(list(folders[1].iterdir())) == 3
    (folders[0] / "folder").rmdir()
    extensions[0].remove_all()
    assert not folders[0].exists() and (tmp_path / "t").exists()
    extensions[1].remove_all()
    assert not (tmp_path / "t").exists(), "the last one takes the folder of the topic with it"
    extensions[1].remove_all()  # there is nothing to remove
    assert not (tmp_path / "t").exists()
