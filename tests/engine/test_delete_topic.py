"""A topic that was deleted is gone for good: from queues, queries, views, verify and whatever is rebuilt."""

from __future__ import annotations

import contextlib
import errno
import json
import random
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, GetStatus, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.store.errors import (
    ConfigFileError,
    DiskError,
    DiskFullError,
    InvalidTopicError,
    StorePoisonedError,
    SyncFailedError,
    TopicNotFoundError,
)
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

NEVER_MS = 3_600_000
SETTINGS = StoreSettings.small(
    segment_size=8192,
    queue_file_entries=10,
    index_slots=5,
    index_entries=20,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)


def message(topic: str, number: int, queue_id: int = 0) -> Message:
    body = f"{topic} {number} ".encode() + bytes(100)
    return Message(topic, body, keys=f"{topic}-{number}", uniq_key=f"u-{topic}-{number}", queue_id=queue_id)


def fill(store: Store, first: int = 0, topics: tuple[str, ...] = ("stays", "goes")) -> None:
    store.put_many([message(topic, i, i % 2) for i in range(first, first + 40) for topic in topics])


def numbers(store: Store | ReadOnlyStore, topic: str) -> list[int]:
    found = []
    for name, queue_id in store.queues():
        if name == topic:
            bodies = [m.body for m in store.read(name, queue_id)]
            found += [int(body.split()[1]) for body in bodies]
            assert all(body.startswith(topic.encode()) for body in bodies)
    return sorted(found)


def assert_gone(store: Store | ReadOnlyStore, stays: int = 40) -> None:
    assert numbers(store, "stays") == list(range(stays))
    assert not [key for key in store.queues() if key[0] == "goes"]
    assert store.topic("goes") is None and store.topic("stays") is not None
    assert not store.query("goes", "goes-3").messages and store.query("stays", "stays-3").messages
    assert store.message_by_uniq_key("goes", "u-goes-3") is None
    assert not store.was_stored("u-goes-3", "goes") and not store.was_stored("u-goes-3")
    assert store.get("goes", 0, 0).status is GetStatus.NO_MESSAGE_IN_QUEUE
    assert store.get("stays", 0, 0).status is GetStatus.FOUND


def queue_folders(path: Path) -> set[str]:
    return {folder.name for folder in (path / "consumequeue").iterdir()}


# -- gone for good


@pytest.mark.parametrize("flush_mode", FlushMode)
def test_gone_at_once_and_after_every_loss(flush_mode: FlushMode, tmp_path: Path, assert_clean: AssertClean) -> None:
    settings = StoreSettings.small(segment_size=8192, queue_file_entries=10, flush_mode=flush_mode)
    with flightlog.open(tmp_path, settings) as store:
        fill(store)
        before = store.message_by_uniq_key("goes", "u-goes-3")
        assert before is not None
        store.delete_topic("goes")
        assert_gone(store)
        assert store.message_at(before.physical_offset) == before, "the log keeps it until retention takes it"
        assert store.verify().is_clean
    assert queue_folders(tmp_path) == {"stays"}
    for lost in ("consumequeue", "index", "checkpoint", "config", "flightlog/progress"):
        path = tmp_path / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        with flightlog.open_read_only(tmp_path) as view:
            assert_gone(view)
        with flightlog.open(tmp_path, settings) as store:
            assert_gone(store)
            assert store.recovery_report.damage == []
        assert queue_folders(tmp_path) == {"stays"}
        assert_clean(tmp_path)


def test_made_anew_it_begins_at_zero(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
        store.delete_topic("goes")
        result = store.put(message("goes", 100, 1))
        assert (result.queue_id, result.queue_offset) == (1, 0)
        fill(store, 101, ("goes",))
        assert numbers(store, "goes") == list(range(100, 141))
        assert store.query("goes", "goes-100").messages and not store.query("goes", "goes-3").messages
    for _ in range(2):
        shutil.rmtree(tmp_path / "consumequeue")
        with flightlog.open(tmp_path, SETTINGS) as store:
            assert numbers(store, "goes") == list(range(100, 141))
            assert numbers(store, "stays") == list(range(40))
        assert_clean(tmp_path)
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.delete_topic("goes")
        assert store.put(message("goes", 200)).queue_offset == 0
        assert numbers(store, "goes") == [200]
    assert_clean(tmp_path)


def test_views_see_it(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
        with flightlog.open_read_only(tmp_path) as view:
            assert numbers(view, "goes") == list(range(40))
            store.delete_topic("goes")
            view.refresh()
            assert_gone(view)
            assert view.report.scanned_from == view.report.end, "nobody looks for queues that are gone"
            store.put(message("goes", 50))
            view.refresh()
            assert numbers(view, "goes") == [50]
            with flightlog.open_read_only(tmp_path) as another:
                assert numbers(another, "goes") == [50]
                assert another.verify().is_clean
    assert_clean(tmp_path)


def test_a_reader_that_is_at_it_comes_to_its_end(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([message("goes", i) for i in range(2000)])
        reader = store.read("goes")
        assert next(reader).queue_offset == 0
        store.delete_topic("goes")
        assert len(list(reader)) < 2000
        fill(store, topics=("stays",))
    assert_clean(tmp_path)


def test_calls_that_make_no_sense(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
        with pytest.raises(TopicNotFoundError, match="'other'"):
            store.delete_topic("other")
        with pytest.raises(InvalidTopicError, match="RocketMQ's own"):
            store.delete_topic("SCHEDULE_TOPIC_XXXX")
        store.create_topic("empty", 2)
        store.delete_topic("empty")
        with pytest.raises(TopicNotFoundError):
            store.delete_topic("empty")
        assert set(store.topics()) == {"goes", "stays"}
    assert_clean(tmp_path)


def test_beside_puts_of_other_threads(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Whatever comes at the same time is deleted, or begins the topic anew: queues have no hole and no leftover."""
    settings = StoreSettings.small(segment_size=65536, flush_interval_ms=1, queue_flush_interval_ms=1)
    is_over = threading.Event()
    with flightlog.open(tmp_path, settings) as store:

        def put(thread: int) -> None:
            for i in range(300):
                store.put_many([message("stays", i, thread), message("goes", i, thread)])

        def read() -> None:
            while not is_over.is_set():
                for queue_id in range(3):
                    for found in store.read("goes", queue_id):
                        assert found.topic == "goes"

        threads = [threading.Thread(target=put, args=(i,)) for i in range(3)]
        reader = threading.Thread(target=read)
        for thread in (*threads, reader):
            thread.start()
        while any(thread.is_alive() for thread in threads):
            with contextlib.suppress(TopicNotFoundError):
                store.delete_topic("goes")
        for thread in threads:
            thread.join()
        is_over.set()
        reader.join()
        for key, (first, end) in store.queues().items():
            assert first == 0
            assert [m.queue_offset for m in store.read(*key)] == list(range(end))
        assert {key: end for key, (_, end) in store.queues().items() if key[0] == "stays"} == {
            ("stays", i): 300 for i in range(3)
        }
        found = store.queues()
    shutil.rmtree(tmp_path / "consumequeue")
    with flightlog.open(tmp_path, settings) as store:
        assert store.queues() == found
    assert_clean(tmp_path)


@pytest.mark.ci
@pytest.mark.parametrize("chance", [None, 0.0, 0.5, 1.0])
def test_a_crash_at_any_step(chance: float | None, tmp_path: Path, assert_clean: AssertClean) -> None:
    """Killed (None) or cut off: either nothing happened, or it is gone, for all time; others lose nothing."""
    operations, is_over = 0, False
    outcomes = set()
    while not is_over:
        root = tmp_path / str(operations)
        disk = PowerDisk(root)
        store = flightlog.open(root, SETTINGS, disk=disk)
        fill(store)
        store.flush()
        inside.maintenance(store).flush_queues()
        disk.die_after = operations
        try:
            store.delete_topic("goes")
            is_over = True
        except Died:
            pass
        with contextlib.suppress(Died):
            kill(store)
        if chance is None:
            disk.kill()
        else:
            disk.cut(random.Random(operations), chance=chance)
        with flightlog.open_read_only(root, SETTINGS, disk=disk) as view:
            seen = numbers(view, "goes")
            assert numbers(view, "stays") == list(range(40))
        with flightlog.open(root, SETTINGS, disk=disk) as store:
            found = numbers(store, "goes")
            assert found == seen and found in ([], list(range(40)))
            assert found == [] or not is_over
            if not found:
                assert_gone(store)
            outcomes.add(bool(found))
            store.put(message("goes", 77))
            assert numbers(store, "goes") == sorted([*found, 77])
        assert_clean(root)
        shutil.rmtree(root / "consumequeue")
        with flightlog.open(root, SETTINGS) as store:
            assert numbers(store, "goes") == sorted([*found, 77]), "it does not come back"
            assert numbers(store, "stays") == list(range(40))
        assert_clean(root)
        shutil.rmtree(root)
        operations += 1
    assert operations > 8 and outcomes == {True, False}


def test_a_tail_that_is_lost_does_not_hide_what_comes_after(tmp_path: Path, assert_clean: AssertClean) -> None:
    """The note is durable, the end of the log that it names was not."""
    disk = PowerDisk(tmp_path / "store")
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    fill(store, topics=("stays",))
    store.flush()
    end = inside.log(store).end
    inside.maintenance(store)._flush_queues = lambda: None  # type: ignore[method-assign]
    fill(store)
    store.delete_topic("goes")
    kill(store)
    disk.cut(random.Random(1), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert store.recovery_report.end == end
        store.put(message("goes", 5))
        assert numbers(store, "goes") == [5]
    shutil.rmtree(disk.root / "consumequeue")
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert numbers(store, "goes") == [5]
    assert_clean(disk.root)


@pytest.mark.parametrize(
    ("operation", "part", "error", "expected"),
    [
        ("create", "deleted-topics", errno.ENOSPC, DiskFullError),
        ("write", "deleted-topics", errno.ENOSPC, DiskFullError),
        ("rename", "deleted-topics", errno.EIO, DiskError),
        ("sync", "deleted-topics", errno.EIO, SyncFailedError),
        ("remove", "consumequeue", errno.EIO, DiskError),
        ("write", "topics.json", errno.ENOSPC, DiskFullError),
        ("sync", "topics.json", errno.EIO, SyncFailedError),
        ("sync", "checkpoint", errno.EIO, SyncFailedError),
        ("write", "checkpoint", errno.EIO, DiskError),
    ],
)
def test_a_failing_disk(
    operation: str, part: str, error: int, expected: type[Exception], tmp_path: Path, assert_clean: AssertClean
) -> None:
    disk = FaultyDisk()
    happened = part != "deleted-topics"
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(flightlog.open(tmp_path, SETTINGS, disk=disk))
        fill(store)
        store.flush()
        inside.maintenance(store).flush_queues()
        disk.fail(operation, f"/{part}", error)
        with pytest.raises(expected):
            store.delete_topic("goes")
        disk.heal()
        if expected is DiskFullError:
            store.put(message("stays", 40))
            assert numbers(store, "goes") == ([] if happened else list(range(40)))
        elif operation != "rename":
            with pytest.raises(StorePoisonedError):
                store.put(message("stays", 40))
        assert numbers(store, "stays")[:40] == list(range(40))
    with flightlog.open(tmp_path, SETTINGS) as store:
        if happened:
            assert_gone(store, 41 if expected is DiskFullError else 40)
        else:
            assert numbers(store, "goes") == list(range(40))
            store.delete_topic("goes")
            assert store.topic("goes") is None
    assert_clean(tmp_path)


# -- the note


def test_the_note_is_dropped_once_the_log_has_let_go(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "flightlog" / "deleted-topics.json"
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store, topics=("goes",))
        store.delete_topic("goes")
        (below,) = json.loads(path.read_text())["deletedBelow"].values()
        assert below == inside.log(store).end
        fill(store)
    first = sorted((tmp_path / "commitlog").iterdir())[: below // 8192 + 1]
    (tmp_path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    for segment in first:
        segment.unlink()
        (tmp_path / "flightlog" / "seals" / segment.name).unlink(missing_ok=True)
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert "goes" in store.topics()
    assert json.loads(path.read_text())["deletedBelow"] == {}
    assert_clean(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"deletedBelow":[]}',
        '{"deletedBelow":{"t":-1}}',
        '{"deletedBelow":{"t":"1"}}',
        '{"pending":{}}',
        '{"known":[1]}',
        '{"othersDeletedBelow":null}',
    ],
)
def test_a_note_that_cannot_be_read_is_an_error_with_a_name(content: str, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
    path = tmp_path / "flightlog" / "deleted-topics.json"
    path.write_text(content)
    with pytest.raises(ConfigFileError, match="deleted-topics"):
        flightlog.open(tmp_path, SETTINGS)
    with flightlog.open_read_only(tmp_path) as view:
        assert numbers(view, "stays") == list(range(40))
        assert any("deleted-topics" in line for line in view.report.damage)
        assert [finding.path for finding in view.verify().findings] == [path]
    path.unlink()
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert store.verify().is_clean
