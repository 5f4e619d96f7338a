"""`append_atomically`: rows of many topics and segments, all of them or none, whatever ends the writer and wherever."""

from __future__ import annotations

import contextlib
import errno
import random
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import flightlog
from flightlog import FlushMode, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.engine.write.append_atomically import TopicColumns
from flightlog.store.errors import (
    DiskFullError,
    InvalidMessageError,
    StorePoisonedError,
    SyncFailedError,
    TopicPermissionError,
    UsageError,
)
from flightlog.store.log.atomic_append import AtomicRange
from flightlog.store.segments.segment import AppendSegment
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=8192,
    queue_file_entries=20,
    index_slots=50,
    index_entries=200,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)
BEFORE = [b"before %d" % i for i in range(5)]
TOPICS = ("a", "b", "a", "c")
Found = dict[tuple[str, int], list[bytes]]


def parts(rows: int = 20) -> Iterator[TopicColumns]:
    """80 rows of three topics, in two queues each: some three segments."""
    for number, topic in enumerate(TOPICS):
        bodies = [b"%d %d " % (number, row) + bytes(200) for row in range(rows)]
        queues, keys = [row % 2 for row in range(rows)], [f"k{row}" for row in range(rows)]
        yield TopicColumns(topic, {"value": bodies, "partition": queues, "keys": keys})


def expected(rows: int = 20) -> Found:
    found: Found = {("t", 0): list(BEFORE)}
    for number, topic in enumerate(TOPICS):
        for row in range(rows):
            found.setdefault((topic, row % 2), []).append(b"%d %d " % (number, row) + bytes(200))
    return found


def contents(store: Store | ReadOnlyStore) -> Found:
    queues = [key for key, (start, end) in store.queues().items() if end > start]
    return {key: [message.body for message in store.read(*key)] for key in queues}


def begun(path: Path, settings: StoreSettings = SETTINGS, **doors: Any) -> Store:
    store = flightlog.open(path, settings, **doors)
    store.put_many([Message("t", body) for body in BEFORE])
    return store


@pytest.mark.parametrize("mode", list(FlushMode))
def test_all_rows_are_there_durable_and_numbered(
    mode: FlushMode, kernel: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    told: list[AtomicRange] = []
    with begun(path, replace(SETTINGS, flush_mode=mode)) as store, flightlog.open_read_only(path) as view:
        start = inside.log(store).end

        def look(appended: AtomicRange) -> None:
            told.append(appended)
            view.refresh()
            assert contents(view) == {("t", 0): BEFORE}, "nothing of it can be seen before its commit"

        appended = store.append_atomically(parts(), look)
        assert told == [appended]
        assert (appended.start, appended.end, appended.count) == (start, inside.log(store).end, 80)
        assert inside.log(store).flushed == appended.end
        assert contents(store) == expected()
        view.refresh()
        assert contents(view) == expected()
        assert [message.queue_offset for message in store.query("c", "k7").messages] == [3]
        first = store.message_at(appended.start)
        assert first is not None
        assert (first.topic, first.queue_offset, first.size) == ("a", 0, len(appended.first_record))
        store.put(Message("a", b"behind"))
        assert contents(store)["a", 0][-1] == b"behind"
    with flightlog.open_read_only(path) as view:
        assert contents(view)["a", 0] == [*expected()["a", 0], b"behind"]
        assert view.report.records_scanned == 0
    assert len(list((path / "commitlog").iterdir())) >= 3
    assert assert_clean(path).records == 5 + 80 + 1


def test_the_same_records_as_one_by_one(kernel: str, tmp_path: Path, clock: Any, assert_clean: AssertClean) -> None:
    paths = tmp_path / "together", tmp_path / "apart"
    with begun(paths[0], clock=clock) as store:
        store.append_atomically(parts())
    with begun(paths[1], clock=clock) as store:
        for part in parts():
            store.append_columns(part.topic, part.columns)
    for folder in ("commitlog", "consumequeue"):
        first, second = (
            {str(file.relative_to(path)): file.read_bytes() for file in (path / folder).rglob("*") if file.is_file()}
            for path in paths
        )
        assert first == second
    for path in paths:
        assert_clean(path)


def test_compressed_bodies_keep_their_flag_and_nothing_else_has_one(tmp_path: Path, assert_clean: AssertClean) -> None:

    with begun(tmp_path / "store") as store:
        compressed, plain = ({"value": [body]} for body in (zlib.compress(b"body"), b"plain"))
        store.append_atomically([TopicColumns("z", compressed, 1), TopicColumns("z", plain)])
        assert [message.sys_flag for message in store.read("z")] == [1, 0]
        assert [message.body for message in store.read("z", decompress=True)] == [b"body", b"plain"]
    assert_clean(tmp_path / "store")


def test_nothing_at_all_changes_nothing(tmp_path: Path, assert_clean: AssertClean) -> None:
    with begun(tmp_path / "store") as store:
        end = inside.log(store).end
        for none in ([], [TopicColumns("a", {"value": []})]):
            appended = store.append_atomically(none, lambda appended: pytest.fail("nothing to commit"))
            assert (appended.start, appended.end, appended.count) == (end, end, 0)
        store.put(Message("t", b"on"))
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (TopicColumns("a", {"value": [b"x", None]}), InvalidMessageError, "row 1: no body"),
        (
            TopicColumns("a", {"value": [b"x"], "properties": [{"DELAY": "3"}]}),
            InvalidMessageError,
            "the property DELAY",
        ),
        (TopicColumns("SCHEDULE_TOPIC_XXXX", {"value": [b"x"]}), TopicPermissionError, "RocketMQ's own"),
    ],
)
def test_a_row_that_is_refused_takes_all_with_it(
    wrong: TopicColumns, kind: type[Exception], said: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """Before the first byte the store goes on; behind it, it is opened again."""
    path = tmp_path / "store"
    store = begun(path)
    with pytest.raises(kind, match=said):
        store.append_atomically([wrong, *parts()])
    store.append_atomically(parts())
    after = contents(store)
    assert after == expected()
    with pytest.raises(kind, match=said):
        store.append_atomically([*parts(), wrong])
    with pytest.raises(StorePoisonedError):
        store.put(Message("t", b"no more"))
    assert contents(store) == after, "reads go on, and nothing of it can be seen"
    store.close()
    with flightlog.open_read_only(path) as view:
        assert contents(view) == after
    with flightlog.open(path, SETTINGS) as store:
        assert contents(store) == after
        (line, *_) = store.recovery_report.cut
        assert "rows of an append that was never committed" in line
        assert not list((path / "flightlog").glob("cut-*"))
        store.append_atomically(parts())
    assert assert_clean(path).records == 5 + 160


def test_rows_are_not_put_where_a_put_would_change_them(tmp_path: Path, assert_clean: AssertClean) -> None:
    settings = replace(SETTINGS, append_crc_property=True)
    with (
        flightlog.open(tmp_path / "store", settings) as store,
        pytest.raises(UsageError, match="append_crc_property"),
    ):
        store.append_atomically(parts())
    assert_clean(tmp_path / "store")


def test_a_torn_tail_is_still_kept_after_such_an_append(tmp_path: Path, assert_clean: AssertClean) -> None:
    """The note of an earlier session's rows says nothing of what comes later."""
    path = tmp_path / "store"
    with begun(path) as store:
        appended = store.append_atomically(parts(1))
    store = flightlog.open(path, SETTINGS)
    last = store.put(Message("t", b"last"))
    kill(store)
    with open(path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(last.physical_offset + 8)
        file.write(b"\xff" * 8)
    assert last.physical_offset == appended.end
    with flightlog.open(path, SETTINGS) as store:
        assert "are kept in" in store.recovery_report.cut[0]
    assert_clean(path)


def test_the_note_of_an_earlier_sessions_rows_does_not_count(tmp_path: Path, assert_clean: AssertClean) -> None:
    """A record that a later session put in the same place is torn: it was part of the log, so it is kept."""
    path = tmp_path / "store"

    def die(appended: AtomicRange) -> None:
        raise InterruptedError("before the commit")

    store = begun(path)
    start = inside.log(store).end
    with pytest.raises(InterruptedError):
        store.append_atomically(parts(1), die)
    store.close()
    store = flightlog.open(path, SETTINGS)
    assert "never committed" in store.recovery_report.cut[0]
    last = store.put(Message("t", b"last"))
    assert last.physical_offset == start, "where the rows began"
    kill(store)
    with open(path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(start + 8)
        file.write(b"\xff" * 8)
    with flightlog.open(path, SETTINGS) as store:
        assert "are kept in" in store.recovery_report.cut[0]
        assert contents(store) == {("t", 0): BEFORE}
    assert b"last" in (path / "flightlog" / f"cut-{start:020d}").read_bytes()
    assert_clean(path)


# ---- wherever it ends ----


def lives(tmp_path: Path) -> Iterator[tuple[PowerDisk, bool]]:
    """Every operation on the disk of one append, as the last one of its writer; and whether that got to the end."""
    operations = 0
    while True:
        disk: PowerDisk = PowerDisk(tmp_path / f"store{operations}")
        store = begun(disk.root, disk=disk)
        store.flush()
        disk.die_after = operations
        ended = False
        with contextlib.suppress(Died):
            store.append_atomically(parts())
            ended = True
        kill(store)
        yield disk, ended
        if ended:
            return
        operations += 1


def check(disk: PowerDisk, *, is_there: bool | None, assert_clean: AssertClean) -> bool:
    """All rows or none, by a view, then by the next writer, who goes on."""
    with flightlog.open_read_only(disk.root) as view:
        seen = contents(view)
    with flightlog.open(disk.root, SETTINGS) as store:
        found = contents(store)
        assert found in (expected(), {("t", 0): BEFORE})
        assert seen in (found, {("t", 0): BEFORE}), "a view of what a killed writer left ends where that let it see"
        assert is_there is None or is_there == (found == expected())
        assert not list((disk.root / "flightlog").glob("cut-*"))
        store.append_atomically(parts(2))
        store.put(Message("t", b"on"))
    assert assert_clean(disk.root).records == 5 + (80 if found == expected() else 0) + 8 + 1
    return found == expected()


@pytest.mark.ci
def test_a_kill_at_any_operation_leaves_all_or_nothing(tmp_path: Path, assert_clean: AssertClean) -> None:
    outcomes: list[bool] = []
    for disk, ended in lives(tmp_path):
        disk.kill()
        outcomes.append(check(disk, is_there=True if ended else None, assert_clean=assert_clean))
    assert outcomes == sorted(outcomes), "there once, it is there for good"
    assert outcomes.count(False) > 10 and outcomes.count(True) > 1


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(2))
def test_a_power_cut_at_any_operation_leaves_all_or_nothing(
    seed: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    dice = random.Random(seed)
    outcomes = set()
    for disk, ended in lives(tmp_path):
        disk.cut(dice, chance=dice.choice((0.1, 0.5, 0.9)))
        outcomes.add(check(disk, is_there=True if ended else None, assert_clean=assert_clean))
    assert outcomes == {False, True}


@pytest.mark.parametrize("nth", range(4))
def test_a_sync_that_fails_ends_it_with_all_or_nothing(nth: int, tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    store = begun(path)
    store.flush()
    real, left = AppendSegment.sync, [nth]

    def sync(segment: Any, *part: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise SyncFailedError(segment.path, "Input/output error")
        real(segment, *part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AppendSegment, "sync", sync)
        with pytest.raises(SyncFailedError):
            store.append_atomically(parts())
        assert contents(store) == {("t", 0): BEFORE}
        with pytest.raises(StorePoisonedError):
            store.put(Message("t", b"no"))
        store.close()
    with flightlog.open(path, SETTINGS) as store:
        assert contents(store) in (expected(), {("t", 0): BEFORE})
    assert_clean(path)


def test_a_full_disk_ends_it_with_nothing(tmp_path: Path, assert_clean: AssertClean) -> None:

    path = tmp_path / "store"
    disk = FaultyDisk()
    store = begun(path, disk=disk)
    disk.fail("allocate", f"commitlog/{8192:020d}", errno.ENOSPC)
    with pytest.raises(DiskFullError):
        store.append_atomically(parts())
    store.close()
    disk.heal()
    with flightlog.open(path, SETTINGS) as store:
        assert contents(store) == {("t", 0): BEFORE}
        store.append_atomically(parts())
        assert contents(store) == expected()
    assert_clean(path)


def test_rows_from_a_generator_of_many_batches(tmp_path: Path, scale: Scale, assert_clean: AssertClean) -> None:
    """Rolls of segments of a size that is prepared ahead, and Arrow."""
    batches = scale.pick(ci=60, full=600)
    settings = StoreSettings(
        segment_size=16 << 20, queue_file_entries=20_000, index_slots=50_000, index_entries=200_000
    )
    with flightlog.open(tmp_path / "store", settings) as store:
        rows = pa.table({"value": [bytes(1000)] * 1000, "keys": [f"key{i}" for i in range(1000)]})
        appended = store.append_atomically(TopicColumns(f"t{i % 3}", rows) for i in range(batches))
        assert appended.count == batches * 1000
        assert sum(end for _, end in store.queues().values()) == batches * 1000
        store.append_atomically([TopicColumns("t0", rows)])
    assert assert_clean(tmp_path / "store").records == (batches + 1) * 1000
