"""`flightlog.repair`: what it changes, keeps and leaves, and that it can be undone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, RepairReport, StoreSettings
from flightlog.engine.repair.placeholder import LOST_PROPERTY

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings(segment_size=64 << 10, queue_file_entries=100, index_slots=100, index_entries=400)
COUNT = 600
DAMAGED = ("abort-torn", "abort-cqlag", "abort-crcflip", "clean-cqlag", "clean-crcflip")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        store.put_many([Message("t", b"%06d" % n * 30, keys=f"k{n}", queue_id=n % 2) for n in range(COUNT)])
    return path


def bodies(path: Path) -> list[bytes]:
    with flightlog.open_read_only(path) as view:
        return [m.body for queue_id in (0, 1) for m in view.read("t", queue_id) if LOST_PROPERTY not in m.properties]


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0xFF]))


def first_segment(root: Path) -> Path:
    return sorted((root / "commitlog").iterdir())[0]


def mend(root: Path, assert_clean: AssertClean) -> RepairReport:
    """Repair; the dry run before says what the repair does first, and the store is clean afterwards."""
    shown = flightlog.repair(root)
    assert not shown.is_written and shown.after is None
    done = flightlog.repair(root, write=True)
    assert done.steps[: len(shown.steps)] == shown.steps and done.is_clean and not done.left
    assert_clean(root)
    assert not (root / "flightlog" / "rebuild").exists()
    return done


@pytest.mark.parametrize("name", DAMAGED)
def test_golden_sets_with_damage(name: str, golden_copy: Callable[[str], Path], assert_clean: AssertClean) -> None:
    folder = golden_copy(name)
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    stored = {m["commitLogOffset"]: m for m in lines if m["type"] == "msg" and m["status"] == "PUT_OK"}
    done = mend(folder / "store", assert_clean)
    found = dict[int, bool]()
    with flightlog.open_read_only(folder / "store") as view:
        for topic, queue_id in view.queues():
            for m in view.read(topic, queue_id):
                assert m.physical_offset not in found
                found[m.physical_offset] = LOST_PROPERTY in m.properties
                line = stored[m.physical_offset]
                assert (m.topic, m.queue_id, m.queue_offset) == (line["topic"], line["queueId"], line["queueOffset"])
                assert found[m.physical_offset] or m.body_crc == line["bodyCRC"]
    lost = sum(found.values())
    torn = 1 if name == "abort-torn" else 0
    assert (len(found), lost) == (len(stored) - torn, 1 if name.endswith("crcflip") else 0)
    assert len(done.lost) == lost


def test_a_sound_store_is_not_touched(root: Path) -> None:
    before = contents(root)
    for write in (False, True):
        report = flightlog.repair(root, write=write)
        assert report.is_clean and not report.steps and not report.backups
    assert contents(root) == before


def test_a_dry_run_changes_nothing(root: Path) -> None:
    flip(first_segment(root), 5_000)
    shutil.rmtree(root / "consumequeue" / "t" / "0")
    before = contents(root)
    assert flightlog.repair(root).steps
    assert contents(root) == before


def test_bodies_that_are_damaged_keep_their_places(root: Path, assert_clean: AssertClean) -> None:
    with flightlog.open_read_only(root) as view:
        bounds = view.queues()
        hit = [m for m in view.read("t", 0) if m.queue_offset in (7, 8, 290)]
    for m in hit:
        segment = next(s for s in (root / "commitlog").iterdir() if 0 <= m.physical_offset - int(s.name) < 64 << 10)
        flip(segment, m.physical_offset - int(segment.name) + 120)
    done = mend(root, assert_clean)
    assert done.lost == ["t 0 7", "t 0 8", "t 0 290"]
    with flightlog.open_read_only(root) as view:
        assert view.queues() == bounds
        messages = list(view.read("t", 0))
        assert [m.queue_offset for m in messages if m.properties.get(LOST_PROPERTY) == "body"] == [7, 8, 290]
        assert all(not any(m.body) for m in messages if LOST_PROPERTY in m.properties)
        [by_key] = view.query("t", "k14").messages
        assert by_key.queue_offset == 7 and by_key.keys == ["k14"], "keys stay"
    assert len(bodies(root)) == COUNT - 3


def test_a_repair_can_be_undone(root: Path) -> None:
    """As the README in the backup says."""
    segment = first_segment(root)
    flip(segment, 5_000)
    queue = root / "consumequeue" / "t" / "1" / f"{0:020}"
    flip(queue, 205)
    damaged, damaged_queue = segment.read_bytes(), queue.read_bytes()
    [backup] = flightlog.repair(root, write=True).backups
    assert segment.read_bytes() != damaged and queue.read_bytes() != damaged_queue
    for kept in (backup / "bytes").iterdir():
        name, _, position = kept.name.partition("-")
        with (root / "commitlog" / name).open("r+b") as file:
            file.seek(int(position))
            file.write(kept.read_bytes())
    assert segment.read_bytes() == damaged
    assert (backup / "aside" / "consumequeue" / "t" / "1" / queue.name).read_bytes() == damaged_queue
    assert "put it back" in (backup / "README.txt").read_text() or "undo" in (backup / "README.txt").read_text()


@pytest.mark.parametrize("gone", ["consumequeue", "index", "checkpoint", "consumequeue/t/0", "everything"])
def test_what_is_derived_is_rebuilt(gone: str, root: Path, assert_clean: AssertClean) -> None:
    before = bodies(root)
    for path in ("consumequeue", "index", "checkpoint") if gone == "everything" else (gone,):
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()
    mend(root, assert_clean)
    assert bodies(root) == before
    with flightlog.open_read_only(root) as view:
        assert [m.queue_offset for m in view.query("t", "k100").messages] == [50]


def test_wrong_entries_in_the_middle_of_a_queue(root: Path, assert_clean: AssertClean) -> None:
    before = bodies(root)
    flip(root / "consumequeue" / "t" / "0" / f"{0:020}", 20 * 50 + 5)
    done = mend(root, assert_clean)
    assert bodies(root) == before
    [backup] = done.backups
    assert (backup / "aside" / "consumequeue" / "t" / "0").is_dir()
    assert not (backup / "aside" / "consumequeue" / "t" / "1").exists(), "the other queue is sound"


@pytest.mark.parametrize("has_backup", [True, False])
@pytest.mark.parametrize("content", [b"", b'{"offsetTable":{'])
def test_state_files_come_from_their_backup_or_are_lost(
    content: bytes, has_backup: bool, root: Path, assert_clean: AssertClean
) -> None:
    path = root / "config" / "subscriptionGroup.json"
    path.write_bytes(content)
    if has_backup:
        path.with_name(path.name + ".bak").write_text('{"subscriptionGroupTable":{"g":{"groupName":"g"}}}')
    with flightlog.open_read_only(root) as view:
        [finding] = view.verify().findings
    assert finding.path == path and ("is lost" in finding.meaning) is not has_backup
    mend(root, assert_clean)
    with flightlog.open(root) as store:
        assert ("g" in store.groups()) is has_backup


def test_topics_and_queue_counts_come_from_the_log(root: Path, assert_clean: AssertClean) -> None:
    (root / "config" / "topics.json").write_bytes(b"{")
    for path in (root / "config").glob("*.bak"):
        path.unlink()
    shutil.rmtree(root / "consumequeue")
    mend(root, assert_clean)
    with flightlog.open_read_only(root) as view:
        topic = view.topic("t")
        assert topic is not None and topic.queue_count >= 2


def test_a_damaged_seal_is_moved_aside(root: Path, assert_clean: AssertClean) -> None:
    seal = sorted((root / "flightlog" / "seals").iterdir())[0]
    flip(seal, 30)
    [backup] = mend(root, assert_clean).backups
    assert (backup / "aside" / "flightlog" / "seals" / seal.name).exists()


def test_bytes_that_are_no_records_are_left_to_salvage(root: Path) -> None:
    with first_segment(root).open("r+b") as file:
        file.seek(5_000)
        file.write(bytes(3_000))
    shutil.rmtree(root / "index")
    before = contents(root)
    report = flightlog.repair(root, write=True)
    assert not report.is_clean and not report.steps and not report.backups
    assert {each.command for each in report.left if each.path.parent.name == "commitlog"} == {
        "repair PATH --salvage OUT --write",
        None,  # the block differs from its seal
    }
    assert contents(root) == before


def test_it_is_refused_beside_a_writer(root: Path) -> None:
    flip(first_segment(root), 5_000)
    with flightlog.open(root):
        assert flightlog.repair(root).steps, "to look is allowed"
        with pytest.raises(flightlog.StoreLockedError):
            flightlog.repair(root, write=True)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(flightlog.StoreNotFoundError):
        flightlog.repair(tmp_path / "none", write=True)
    assert not (tmp_path / "none").exists()


def test_an_interrupted_repair_is_finished_by_the_next_opening(root: Path, assert_clean: AssertClean) -> None:
    """It moved a queue whose last message is not in the newest segment, and died."""
    before = bodies(root)
    (root / "flightlog" / "rebuild").touch()
    shutil.rmtree(root / "consumequeue" / "t" / "1")
    flightlog.open(root).close()
    assert_clean(root)
    assert bodies(root) == before
