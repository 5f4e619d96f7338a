"""Stores that another program has written since flightlog did: our own notes about them are distrusted."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.open import boot, recovery
from flightlog.engine.open.shutdown_state import LastWriter, read_shutdown_state
from flightlog.store.disk.disk import RealDisk
from flightlog.store.state.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet, ManualClock

    GetSet = Callable[[str], GoldenSet]

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_interval_ms=3_600_000)
OURS = ("flightlog/progress", "abort")


def message(number: int) -> Message:
    return Message("t", b"%05d" % number + bytes(number % 200), queue_id=number % 2)


def numbers(store: flightlog.Store | flightlog.ReadOnlyStore) -> list[int]:
    found = sorted((m for key in store.queues() for m in store.read(*key)), key=lambda m: m.physical_offset)
    return [int(m.body[:5]) for m in found]


def put(root: Path, clock: ManualClock, *ids: int) -> None:
    with flightlog.open(root, SETTINGS, clock=clock) as store:
        store.put_many([message(i) for i in ids])


def notes(root: Path) -> dict[str, bytes]:
    """What flightlog knows of the store, as of now."""
    return {name: (root / name).read_bytes() for name in OURS if (root / name).exists()}


def make_foreign(root: Path, old_notes: dict[str, bytes], *, killed: bool) -> None:
    """As if RocketMQ had written what came after `old_notes`: our page is as we left it, its files say otherwise."""
    for name in OURS:
        (root / name).unlink(missing_ok=True)
    for name, content in old_notes.items():
        (root / name).write_bytes(content)
    if killed:
        (root / "abort").write_bytes(b"4711")
    else:
        (root / "abort").unlink(missing_ok=True)
        found = read_checkpoint(RealDisk(), root)
        assert found is not None
        theirs = Checkpoint(found.physic_timestamp_ms - 1, found.logics_timestamp_ms, 0, 0, 77)
        write_checkpoint(RealDisk(), root, theirs)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("with_queues", ["all", "old", "none"])
def test_what_another_program_appended_is_there(
    with_queues: str, killed: bool, clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    put(tmp_path, clock, *range(100))
    known = notes(tmp_path)
    shutil.copytree(tmp_path / "consumequeue", tmp_path / "old")
    put(tmp_path, clock, *range(100, 200))
    make_foreign(tmp_path, known, killed=killed)
    if with_queues != "all":
        shutil.rmtree(tmp_path / "consumequeue")
    if with_queues == "old":
        (tmp_path / "old").rename(tmp_path / "consumequeue")
    expected = LastWriter.ROCKETMQ_KILLED if killed else LastWriter.ROCKETMQ_CLOSED
    with flightlog.open_read_only(tmp_path) as view:
        assert view.shutdown_state.last_writer is expected
        assert numbers(view) == list(range(200))
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert store.recovery_report.last_writer is expected
        assert store.recovery_report.records_scanned > 0
        assert numbers(store) == list(range(200))
        assert store.put(message(200)).queue_offset == 100
    assert_clean(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
def test_what_another_program_cut_off_is_not_missed(
    killed: bool, clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """RocketMQ's recovery cuts at a bad record, and what it writes then stands where ours were. Our page still says
    that more was durable, and our seals tell of segments that are others now."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    put(ours, clock, *range(100))
    put(theirs, clock, *range(40), *range(500, 520))
    (theirs / "flightlog" / "progress").unlink()
    shutil.rmtree(theirs / "flightlog" / "seals")
    shutil.copytree(ours / "flightlog", theirs / "flightlog", dirs_exist_ok=True)
    known = notes(ours)
    assert len(list((theirs / "flightlog" / "seals").iterdir())) == 3
    make_foreign(theirs, known, killed=killed)
    expected = [*range(40), *range(500, 520)]
    with flightlog.open_read_only(theirs) as view:
        assert numbers(view) == expected
    with flightlog.open(theirs, SETTINGS, clock=clock) as store:
        assert numbers(store) == expected
    assert_clean(theirs)
    put(theirs, clock, *range(600, 700))
    assert_clean(theirs)


@pytest.mark.parametrize("ours", ["closed", "killed"])
@pytest.mark.parametrize("theirs", ["closed", "killed"])
def test_a_view_notices_that_another_program_took_over(
    ours: str, theirs: str, clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    store = flightlog.open(tmp_path, SETTINGS, clock=clock)
    store.put_many([message(i) for i in range(100)])
    store.queues()
    known = notes(tmp_path)
    store.close()
    if ours == "closed":
        known = notes(tmp_path)
    for name, content in known.items():
        (tmp_path / name).write_bytes(content)
    with flightlog.open_read_only(tmp_path) as view:
        assert numbers(view) == list(range(100))
        put(tmp_path, clock, *range(100, 150))
        make_foreign(tmp_path, known, killed=theirs == "killed")
        view.refresh()
        assert numbers(view) == list(range(150))
        assert view.shutdown_state.last_writer in (LastWriter.ROCKETMQ_CLOSED, LastWriter.ROCKETMQ_KILLED)
    put(tmp_path, clock, 150)
    assert_clean(tmp_path)


def test_a_tail_that_another_program_left_behind_its_end_is_cut(
    clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """RocketMQ truncates in memory alone. Its checkpoint tells that the records there are not part of the log."""
    put(tmp_path, clock, *range(50))
    with flightlog.open_read_only(tmp_path) as view:
        end = view.end_physical_offset
    clock.at_ms += 60_000
    put(tmp_path, clock, *range(50, 60))
    segment = tmp_path / "commitlog" / f"{end // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    raw = bytearray(segment.read_bytes())
    raw[end % SEGMENT_SIZE + 4] ^= 0xFF  # the first of them is damaged, which is why RocketMQ cut there
    segment.write_bytes(raw)
    shutil.rmtree(tmp_path / "flightlog")
    write_checkpoint(RealDisk(), tmp_path, Checkpoint(clock.at_ms - 60_000, clock.at_ms - 60_000))
    with flightlog.open_read_only(tmp_path) as view:
        assert numbers(view) == list(range(50))
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert store.recovery_report.end == end
        assert numbers(store) == list(range(50))
        assert (tmp_path / "flightlog" / f"cut-{end:020d}").exists()
        assert store.put(message(777)).physical_offset == end
    assert_clean(tmp_path)


def test_a_quiet_queue_is_not_forgotten_with_all_queues_gone(
    clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The checkpoint would let the scan begin in the middle: behind the only messages of that queue."""
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put(Message("quiet", b"00000"))
        for number in range(100):
            clock.at_ms += 5000
            store.put(message(number))
        known = notes(tmp_path)
    make_foreign(tmp_path, known, killed=True)
    write_checkpoint(RealDisk(), tmp_path, Checkpoint(clock.at_ms - 10_000, clock.at_ms - 10_000))
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert store.recovery_report.scanned_from > 0, "with its queues there, the store is scanned from the middle"
        assert store.queues()["quiet", 0] == (0, 1)
    make_foreign(tmp_path, known, killed=True)
    shutil.rmtree(tmp_path / "consumequeue")
    with flightlog.open_read_only(tmp_path) as view:
        assert view.queues()["quiet", 0] == (0, 1)
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert store.queues() == {("quiet", 0): (0, 1), ("t", 0): (0, 50), ("t", 1): (0, 50)}
    assert_clean(tmp_path)


# What RocketMQ really wrote, with damage to what can be derived.


def lines_of(golden: GoldenSet) -> list[tuple[int, str, int, int]]:
    found = [m for m in golden.put if m["sysFlag"] & 0xC in (0, 8)]
    return [(m["commitLogOffset"], m["topic"], m["queueId"], m["queueOffset"]) for m in found]


def places(store: flightlog.Store | flightlog.ReadOnlyStore) -> list[tuple[int, str, int, int]]:
    found = (m for key in store.queues() for m in store.read(*key))
    return sorted((m.physical_offset, m.topic, m.queue_id, m.queue_offset) for m in found)


@pytest.mark.parametrize("name", ["abort-late", "abort-reopen", "rollover"])
@pytest.mark.parametrize("loss", ["a queue", "a topic", "all queues", "first file", "last file", "zeroed tails"])
def test_a_store_of_rocketmqs_without_some_queues(
    loss: str,
    name: str,
    golden_set: GetSet,
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    """abort-late is scanned from the middle first; what a queue lacks from before is found by its gap."""
    monkeypatch.setattr(recovery, "ROCKETMQ_QUEUES_LAG_MS", 0)  # these stores lived for less than two minutes
    golden, path = golden_set(name), golden_copy(name) / "store"
    folder = min(p for p in (path / "consumequeue").glob("T*/0") if len(list(p.iterdir())) >= 2 or loss != "first file")
    files = sorted(folder.iterdir())
    if loss == "a queue":
        shutil.rmtree(folder)
    elif loss == "a topic":
        shutil.rmtree(folder.parent)
    elif loss == "all queues":
        shutil.rmtree(path / "consumequeue")
    elif loss == "first file":
        files[0].unlink()
    elif loss == "last file":
        files[-1].unlink()
    else:
        for file in files[1:]:
            file.write_bytes(bytes(file.stat().st_size))
    expected = lines_of(golden)
    with flightlog.open_read_only(path) as view:
        assert places(view) == expected
    with flightlog.open(path, clock=clock) as store:
        assert places(store) == expected
    assert_clean(path)


FILLER = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
"""What stands for entries that never were, as behind RocketMQ's own recovery."""


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("loss", ["nothing", "first file", "last entry"])
def test_from_where_a_store_that_rocketmq_closed_is_scanned(
    loss: str, expired: bool, golden_copy: Callable[[str], Path]
) -> None:
    """A queue's first file may have gone with the messages of its entries, but not while the log has them still; a last
    entry that is none is not that of an expired message."""
    path = golden_copy("rollover") / "store"
    segments = sorted((path / "commitlog").iterdir())
    for segment in segments[:2] if expired else ():
        segment.unlink()
    queue = min(p for p in (path / "consumequeue").glob("T*/0") if len(list(p.iterdir())) >= 2)
    with flightlog.open_read_only(path) as view:
        end = view.queues()[queue.parent.name, 0][1]
    if loss == "first file":
        min(queue.iterdir()).unlink()
    elif loss == "last entry":
        size = min(queue.iterdir()).stat().st_size
        file, position = queue / f"{end * 20 // size * size:020d}", (end - 1) * 20 % size
        assert (end * 20) % size, "the last entry is in the last file"
        raw = file.read_bytes()
        file.write_bytes(raw[:position] + FILLER + raw[position + 20 :])
    first = int(segments[2].name) if expired else 0
    if loss == "last entry":
        expected = (first, f"queue {queue.parent.name} 0: its last entry {end - 1} is none")
    elif loss == "first file" and not expired:
        expected = (0, "a queue begins above 0 over a log that still has everything")
    else:
        expected = (int(segments[-1].name), "the segment of the highest queue entry")
    with flightlog.open_read_only(path) as view:
        assert (view.report.scanned_from, view.report.reason) == expected


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_writer_that_dies_between_its_abort_file_and_its_progress_page(
    is_ours: bool, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """The page is still that of the session before: it counts if flightlog wrote last until then, and not otherwise."""
    put(tmp_path, clock, *range(100))
    known = notes(tmp_path)
    put(tmp_path, clock, *range(100, 150))
    if not is_ours:
        make_foreign(tmp_path, known, killed=False)

    def die(*_: object, **__: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(boot, "ProgressPage", die)
        flightlog.open(tmp_path, SETTINGS, clock=clock)
    found = read_shutdown_state(RealDisk(), tmp_path, tolerant=False)
    assert found.last_writer is (LastWriter.FLIGHTLOG_KILLED if is_ours else LastWriter.ROCKETMQ_KILLED)
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert numbers(store) == list(range(150))
    assert_clean(tmp_path)
