"""Verify finds each kind of damage, says where and what to do, and finds nothing else."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.engine.verify.findings import Finding
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import TooManyFilesError
from flightlog.store.state.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from flightlog.store.state.progress import BOOT
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import keyed

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_interval_ms=3_600_000)
COUNT = 200


def message(number: int) -> Message:
    transaction = 4 if number % 17 == 16 else 0
    return Message("t", b"%05d" % number + bytes(number % 200), queue_id=number % 2, sys_flag=transaction)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of ours, cleanly closed: some ten segments, all but the last one sealed."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        store.put_many([message(i) for i in range(COUNT)])
    return tmp_path / "store"


def findings(root: Path) -> list[Finding]:
    with flightlog.open_read_only(root) as view:
        found = view.verify().findings
    for finding in found:
        assert finding.meaning and finding.mend
        for part in (str(finding.path), str(finding.offset), finding.meaning, finding.mend):
            assert part in str(finding)
    return found


def segment(root: Path, number: int) -> Path:
    return root / "commitlog" / f"{number * SEGMENT_SIZE:020d}"


def change(path: Path, position: int, content: bytes) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:position] + content + raw[position + len(content) :])
    assert path.read_bytes() != raw


def places(root: Path) -> list[int]:
    """The physical offset of every record."""
    with flightlog.open_read_only(root) as view:
        return [
            int(place)
            for part, first, stop in view.log_reader.segments_between(0, view.end_physical_offset)
            for _, rows in view.log_reader.scan(part, first, stop, check_crc=True)
            for place in rows["physical_offset"].tolist()
        ]


@pytest.mark.usefixtures("kernel")
def test_a_sound_store(root: Path, assert_clean: AssertClean) -> None:
    report = assert_clean(root)
    assert report.last_writer is LastWriter.FLIGHTLOG_CLOSED
    assert (report.path, report.records, report.queue_entries) == (root, COUNT, COUNT - 11)
    assert report.segments == len(list((root / "commitlog").iterdir())) > 8
    assert report.sealed_segments == report.segments - 1
    with flightlog.open_read_only(root) as view:
        assert report.bytes_checked == view.end_physical_offset


def test_a_store_in_use(root: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(root, SETTINGS) as store:
        for i in range(COUNT, 2 * COUNT):
            store.put(message(i))
            if i % 20 == 0:
                report = store.verify()
                assert report.is_clean and report.records == i + 1
                with flightlog.open_read_only(root) as view:
                    assert view.verify().is_clean
    assert_clean(root)


def test_a_view_that_was_opened_before_its_writer_came(root: Path) -> None:
    with flightlog.open_read_only(root) as view, flightlog.open(root, SETTINGS) as store:
        store.put_many([message(i) for i in range(COUNT, COUNT + 20)])
        store.queues()
        assert view.verify().findings == []


@pytest.mark.parametrize("count", [19, 20], ids=["within a segment", "at its end"])
def test_a_topic_that_was_deleted_and_made_anew_without_a_note(count: int, tmp_path: Path) -> None:
    """As RocketMQ does it: what was put before is in no queue. Two messages fill a segment."""
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([Message("t", bytes(1900), queue_id=0) for _ in range(count)])
        store.delete_topic("t")
        again = store.put_many([Message("t", bytes(1900), queue_id=0) for _ in range(9)])
    assert (again[0].queue_offset, again[0].physical_offset % SEGMENT_SIZE == 0) == (0, count == 20)
    for note in (tmp_path / "flightlog").glob("deleted-topics.json*"):
        note.unlink()
    assert findings(tmp_path) == []


def test_keys_of_damaged_records_are_not_called_stale(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, 60))
    victim = places(tmp_path)[30]
    change(segment(tmp_path, victim // SEGMENT_SIZE), victim % SEGMENT_SIZE, b"\xff" * 8)
    assert {f.path.parent.name for f in findings(tmp_path)} == {"commitlog"}


def test_keys_that_stand_more_than_once_are_told_of_and_harm_nothing(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        for keys in (("k", "k", "k"), ("one", "two")):
            store.put(Message("t", b"x", keys=keys))
        store.flush()
    with flightlog.open_read_only(tmp_path / "store") as view:
        [oddity] = [text for text in view.verify().oddities if "keys stand" in text]
    assert "2 keys stand more than once for a record that has them more than once" in oddity
    assert_clean(tmp_path / "store")


def test_it_changes_nothing(root: Path, fingerprint: Callable[[Path], Fingerprint]) -> None:
    change(segment(root, 2), 100, b"\xff" * 50)
    shutil.rmtree(root / "consumequeue" / "t" / "1")
    before = fingerprint(root)
    assert findings(root)
    assert fingerprint(root) == before


@pytest.mark.usefixtures("kernel")
def test_a_changed_body(root: Path) -> None:
    victim = places(root)[70]
    path = segment(root, victim // SEGMENT_SIZE)
    change(path, victim % SEGMENT_SIZE + 90, b"\xee")
    (record, block) = findings(root)
    assert (record.path, record.offset) == (path, victim) and "CRC" in record.meaning
    assert (block.path, block.offset) == (path, victim // SEGMENT_SIZE * SEGMENT_SIZE) and "seal" in block.meaning


@pytest.mark.usefixtures("kernel")
def test_a_changed_field_that_no_crc_of_rocketmqs_covers(root: Path) -> None:
    """The application's flag: the record is sound by RocketMQ's rules, only the seal knows better."""
    victim = places(root)[70]
    path = segment(root, victim // SEGMENT_SIZE)
    change(path, victim % SEGMENT_SIZE + 16, b"\xee")
    (block,) = findings(root)
    assert (block.path, block.offset) == (path, victim // SEGMENT_SIZE * SEGMENT_SIZE) and "seal" in block.meaning


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("content", [bytes(8), b"\xff" * 8, b"\0\0\0\x08\xda\xa3\x20\xa7"])
def test_a_record_without_structure(content: bytes, root: Path) -> None:
    all_places = places(root)
    victim = all_places[70]
    path = segment(root, victim // SEGMENT_SIZE)
    change(path, victim % SEGMENT_SIZE, content)
    found = findings(root)
    assert [(f.path, f.offset) for f in found if "seal" not in f.meaning] == [(path, victim)]
    with flightlog.open_read_only(root) as view:
        assert view.verify().records == COUNT - 1


def test_seals_count_while_their_segments_end_as_they_did(root: Path) -> None:
    """Also after another program had the store, as its own checkpoint shows."""
    checkpoint = read_checkpoint(RealDisk(), root)
    assert checkpoint is not None
    write_checkpoint(RealDisk(), root, replace(checkpoint, master_flushed_offset=1))
    with flightlog.open_read_only(root) as view:
        report = view.verify()
        assert report.sealed_segments > 1
    victim = places(root)[70]
    path = segment(root, victim // SEGMENT_SIZE)
    change(path, victim % SEGMENT_SIZE + 16, b"\xee")
    assert [found.path for found in findings(root) if "differs from its seal" in found.meaning] == [path]


def test_a_torn_tail(root: Path) -> None:
    with flightlog.open_read_only(root) as view:
        end = view.end_physical_offset
    path = segment(root, end // SEGMENT_SIZE)
    change(path, end % SEGMENT_SIZE, bytes.fromhex("00000fff daa320a7") + b"\1" * 20)
    (torn,) = findings(root)
    assert (torn.path, torn.offset) == (path, end)
    assert "torn tail" in torn.meaning and "open the store for writing" in torn.mend
    flightlog.open(root, SETTINGS).close()
    assert findings(root) == []


def test_a_missing_segment(root: Path) -> None:
    segment(root, 3).unlink()
    found = findings(root)
    assert any(segment(root, 3).name in f.meaning and f.path == segment(root, 4) for f in found)


def test_the_last_segment_is_missing(root: Path) -> None:
    with flightlog.open_read_only(root) as view:
        last = view.end_physical_offset // SEGMENT_SIZE
    segment(root, last).unlink()
    found = findings(root)
    assert any(f.offset == last * SEGMENT_SIZE and "before what was synced" in f.meaning for f in found)


def test_a_stray_file_and_a_segment_of_the_wrong_length(root: Path) -> None:
    (root / "commitlog" / "notes.txt").write_bytes(b"x")
    segment(root, 4).write_bytes(segment(root, 4).read_bytes()[:-1])
    named = {f.path.name for f in findings(root)}
    assert {"notes.txt", segment(root, 4).name} <= named


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_a_damaged_seal(content: bytes | None, root: Path, assert_clean: AssertClean) -> None:
    path = root / "flightlog" / "seals" / segment(root, 2).name
    if content is None:
        shutil.copy(path.with_name(segment(root, 3).name), path)
    else:
        path.write_bytes(content)
    (finding,) = findings(root)
    assert finding.path == path and "delete it" in finding.mend
    path.unlink()
    assert assert_clean(root).sealed_segments == assert_clean(root).segments - 2


def queue_file(root: Path, queue_id: int, number: int) -> Path:
    return root / "consumequeue" / "t" / str(queue_id) / f"{number * 200:020d}"


@pytest.mark.parametrize(
    ("entries", "content", "first", "meaning"),
    [
        (1, bytes(20), 33, "1 message has a wrong entry or none"),
        (2, bytes(40), 33, "2 messages have a wrong entry or none"),
        (1, bytes.fromhex("0000000000000000 7fffffff 0000000000000000"), 33, "1 message has a wrong entry or none"),
        (1, bytes.fromhex("0000000000000000 00000061 0000000000000000"), 33, "1 message has a wrong entry or none"),
        (1, bytes.fromhex("ffffffffffffffff 00000061 0000000000000000"), 33, "1 message has a wrong entry or none"),
    ],
)
def test_wrong_entries(
    entries: int, content: bytes, first: int, meaning: str, root: Path, assert_clean: AssertClean
) -> None:
    assert len(content) == entries * 20
    change(queue_file(root, 0, 3), 3 * 20, content)
    found = findings(root)
    queue = root / "consumequeue" / "t" / "0"
    assert {f.path for f in found} == {queue}
    assert any(f.offset == first and meaning in f.meaning for f in found)
    flightlog.open(root, SETTINGS).close()
    assert findings(root) == found, "an open trusts the middle of a queue"
    assert all("remove the folder consumequeue" in f.mend for f in found)
    shutil.rmtree(root / "consumequeue")
    flightlog.open(root, SETTINGS).close()
    assert_clean(root)


def test_a_wrong_tags_code(root: Path) -> None:
    change(queue_file(root, 0, 3), 3 * 20 + 12, b"\1")
    (finding,) = findings(root)
    assert (finding.path, finding.offset) == (root / "consumequeue" / "t" / "0", 33)


def test_messages_without_entries(root: Path, assert_clean: AssertClean) -> None:
    """A queue that lags."""
    last = max((root / "consumequeue" / "t" / "1").iterdir())
    entries = len(last.read_bytes().rstrip(b"\0")) // 20 + 1
    last.write_bytes(bytes(200))
    (finding,) = findings(root)
    assert finding.offset == int(last.name) // 20
    assert f"{entries} messages have no entry yet" in finding.meaning
    flightlog.open(root, SETTINGS).close()
    assert_clean(root)


@pytest.mark.usefixtures("kernel")
def test_what_a_killed_writer_did_not_dispatch_is_lag_and_no_finding(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        store.put_many([message(i) for i in range(50)])
        assert store.verify().lag == [], "it dispatches what is visible before it looks"
        store.put_many([message(i) for i in range(50, 100)])
        killed = Path(shutil.copytree(tmp_path / "store", tmp_path / "killed"))  # as a kill here would leave it
    with flightlog.open_read_only(killed) as view:
        report = view.verify()
    assert (report.is_clean, report.findings, report.last_writer) == (True, [], LastWriter.FLIGHTLOG_KILLED)
    assert sum(int(behind.meaning.split()[0]) for behind in report.lag) == 47, "all but the half messages (50, 67, 84)"
    assert all("no entry yet" in behind.meaning and "open the store" in behind.mend for behind in report.lag)
    flightlog.open(killed, SETTINGS).close()
    assert assert_clean(killed).lag == []


@pytest.mark.parametrize("is_damage", [False, True], ids=["above what was synced", "below"])
def test_entries_that_a_reboot_took_are_lag_above_the_synced_queues(
    is_damage: bool, root: Path, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(root, SETTINGS) as store:  # what is there was synced by the close
        store.put(message(COUNT))
        killed = Path(shutil.copytree(root, tmp_path / "killed"))
    progress = RealDisk().open(killed / "flightlog" / "progress", writable=True)
    progress.write(BOOT * 8, bytes(8))
    progress.close()
    if is_damage:
        shutil.rmtree(killed / "consumequeue" / "t" / "1")
    with flightlog.open_read_only(killed) as view:
        report = view.verify()
    assert [(each.path.name, each.meaning) for each in report.lag] == [("0", "1 message has no entry yet")]
    assert [each.path.name for each in report.findings] == (["1"] if is_damage else [])
    flightlog.open(killed, SETTINGS).close()
    assert assert_clean(killed).lag == []


@pytest.mark.parametrize("loss", ["a file in the middle", "the first file", "a queue", "all queues"])
def test_missing_queue_files(loss: str, root: Path, assert_clean: AssertClean) -> None:
    if loss == "a file in the middle":
        queue_file(root, 1, 3).unlink()
    elif loss == "the first file":
        queue_file(root, 1, 0).unlink()
    else:
        shutil.rmtree(root / "consumequeue" / ("t/1" if loss == "a queue" else ""))
    found = findings(root)
    assert {f.path for f in found} <= {root / "consumequeue" / "t" / "0", root / "consumequeue" / "t" / "1"}
    assert any(f.path.name == "1" for f in found)
    flightlog.open(root, SETTINGS).close()
    assert_clean(root)


def test_an_entry_whose_record_names_another_queue(tmp_path: Path, assert_clean: AssertClean) -> None:
    """No CRC covers properties: a byte changed there takes the record out of a light queue whose entry stays."""
    settings = StoreSettings(multi_dispatch=True, segment_size=64 << 10)
    path = tmp_path / "store"
    with flightlog.open(path, settings) as store:
        for number in range(9):
            store.put(Message("t", b"body", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}, keys=f"k{number}"))
        place = next(iter(store.read("%LMQ%a", 0, 4))).physical_offset
    (path / "flightlog" / "open-seal").unlink()
    segment_path = path / "commitlog" / f"{0:020}"
    at = segment_path.read_bytes().index(b"%LMQ%a", place)
    change(segment_path, at, b"%LMQ%b")
    found = [f for f in findings(path) if f.path.parts[-2] == "%LMQ%a"]
    assert [f.meaning for f in found] == ["1 entries of records that name another place"]


def test_phantom_entries(root: Path, assert_clean: AssertClean) -> None:
    last = max((root / "consumequeue" / "t" / "1").iterdir())
    used = len(last.read_bytes().rstrip(b"\0")) // 20 + 1
    assert used < 9
    change(last, used * 20, last.read_bytes()[:20])
    (finding,) = findings(root)
    assert finding.offset == int(last.name) // 20 + used and "1 phantom entries" in finding.meaning
    flightlog.open(root, SETTINGS).close()
    assert_clean(root)


def test_a_queue_of_messages_that_never_were(root: Path, assert_clean: AssertClean) -> None:
    shutil.copytree(root / "consumequeue" / "t" / "1", root / "consumequeue" / "phantom" / "0")
    (finding,) = findings(root)
    assert finding.path == root / "consumequeue" / "phantom" / "0" and "phantom" in finding.meaning
    flightlog.open(root, SETTINGS).close()
    assert_clean(root)


def test_a_queue_file_of_the_wrong_length(root: Path) -> None:
    path = queue_file(root, 1, 2)
    path.write_bytes(path.read_bytes()[:-20])
    found = findings(root)
    assert any(f.path == path and "180 bytes long, expected 200" in f.meaning for f in found)


def test_a_queue_that_cannot_be_read_hides_no_other(root: Path) -> None:
    unreadable, damaged = root / "consumequeue" / "t" / "0", queue_file(root, 1, 0)
    file = unreadable / f"{20 * 10 * 3:020d}"
    file.write_bytes(file.read_bytes()[:-20])
    change(damaged, 40, bytes(20))
    found = findings(root)
    assert any(f.path == file for f in found)
    assert any((f.path, f.offset) == (damaged.parent, 2) for f in found)


@pytest.mark.parametrize("loss", ["missing", "truncated", "zero"])
def test_a_checkpoint_that_says_nothing(loss: str, root: Path, assert_clean: AssertClean) -> None:
    if loss == "zero":
        write_checkpoint(RealDisk(), root, Checkpoint())
    elif loss == "truncated":
        (root / "checkpoint").write_bytes(b"\0" * 20)
    else:
        (root / "checkpoint").unlink()
    (finding,) = findings(root)
    assert (finding.path, finding.offset) == (root / "checkpoint", 0)
    flightlog.open(root, SETTINGS).close()
    assert_clean(root)


def test_damage_of_every_kind_at_once(root: Path) -> None:
    all_places = places(root)
    for number in (20, 60, 110):
        victim = all_places[number]
        change(segment(root, victim // SEGMENT_SIZE), victim % SEGMENT_SIZE + 95, b"\xee")
    change(queue_file(root, 0, 1), 40, bytes(20))
    (root / "flightlog" / "seals" / segment(root, 0).name).write_bytes(b"x")
    shutil.rmtree(root / "consumequeue" / "t" / "1")
    found = findings(root)
    damaged = [f.offset for f in found if "CRC" in f.meaning]
    assert damaged == [all_places[number] for number in (20, 60, 110)]
    assert {f.path for f in found if f.path.parent.name == "t"} == {root / "consumequeue" / "t" / q for q in "01"}
    assert any(f.path.parent.name == "seals" for f in found)


def test_a_store_that_never_held_anything(tmp_path: Path, assert_clean: AssertClean) -> None:
    flightlog.open(tmp_path, SETTINGS).close()
    report = assert_clean(tmp_path)
    assert (report.records, report.segments, report.last_writer) == (0, 0, LastWriter.NOBODY)


def test_a_state_file_on_a_bad_sector_is_a_finding(root: Path) -> None:
    disk = FaultyDisk()
    disk.fail("read", "config/topics.json", errno.EIO)
    with flightlog.open_read_only(root, disk=disk) as view:
        [finding] = view.verify().findings
        assert finding.path == root / "config" / "topics.json" and "Input/output error" in finding.meaning
        disk.heal()
        disk.fail("open", "config/topics.json", errno.EMFILE)
        with pytest.raises(TooManyFilesError):
            view.verify()
        disk.heal()
        assert view.verify().is_clean
