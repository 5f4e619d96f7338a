"""Index files that somebody deletes while their store is open, as a RocketMQ does that tries to start there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.index.key import index_folder
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings.small(index_slots=100, index_entries=400, flush_interval_ms=3_600_000)
COUNT = 1500
WHICH = {"all": slice(None), "the oldest": slice(3), "the newest": slice(-1, None)}


def put(store: flightlog.Store) -> None:
    store.put_many([Message("orders", b"x", keys=[f"k{i}", "all"]) for i in range(COUNT)])


def found(store: flightlog.Store) -> list[int]:
    return [message.queue_offset for message in store.query("orders", "all", max_count=10 * COUNT).messages]


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("then", ["query", "put", "close", "flush"])
def test_the_index_is_made_anew(
    which: str, then: str, tmp_path: Path, assert_clean: AssertClean, caplog: pytest.LogCaptureFixture
) -> None:
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        put(store)
        assert store.queues() == {("orders", 0): (0, COUNT)}
        files = sorted((tmp_path / "store" / "index").iterdir())
        assert len(files) > 6
        for file in files[WHICH[which]]:
            file.unlink()
        end = COUNT
        if then == "put":
            put(store)
            end += COUNT
        if then in ("put", "query"):
            assert found(store) == list(range(end))[::-1]
        if then == "flush":
            inside.maintenance(store).flush_index()
    assert sum("rebuilt" in record.getMessage() for record in caplog.records) == 1
    with flightlog.open(tmp_path / "store") as store:
        assert store.recovery_report.keys_put == 0
        assert found(store) == list(range(end))[::-1]
    assert assert_clean(tmp_path / "store").index_entries == 2 * end


@pytest.mark.parametrize("which", WHICH)
def test_the_index_is_made_anew_by_the_first_put_of_a_life(
    which: str, tmp_path: Path, assert_clean: AssertClean, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever has just opened the store has no index file open yet, and asks the newest one how far it has come."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        put(store)
    with flightlog.open(tmp_path / "store") as store:
        for file in sorted((tmp_path / "store" / "index").iterdir())[WHICH[which]]:
            file.unlink()
        put(store)
        assert found(store) == list(range(2 * COUNT))[::-1]
        put(store)
    assert sum("rebuilt" in record.getMessage() for record in caplog.records) == 1
    with flightlog.open_read_only(tmp_path / "store") as view:
        messages = view.query("orders", "all", max_count=10 * COUNT).messages
        assert [message.queue_offset for message in messages] == list(range(3 * COUNT))[::-1]
    assert assert_clean(tmp_path / "store").index_entries == 6 * COUNT


@pytest.mark.parametrize("gone", ["nothing else", "the file that is being asked"])
def test_a_query_is_answered_in_full_while_another_thread_makes_the_index_anew(
    gone: str,
    tmp_path: Path,
    assert_clean: AssertClean,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is on its way from file to file, and all of them go: it begins again with those that are made."""
    monkeypatch.setattr(index_folder, "MOST_MAPPED", 0)  # else it would not have to open the file once more
    disk, answers = FaultyDisk(), list[list[int]]()
    with flightlog.open(tmp_path / "store", SETTINGS, disk=disk) as store:
        put(store)
        assert len(found(store)) == COUNT
        files = sorted((tmp_path / "store" / "index").iterdir())
        disk.hold("open", files[3].name, times=1)
        query = threading.Thread(target=lambda: answers.append(found(store)))
        query.start()
        assert disk.held.acquire(timeout=120)
        files[0].unlink()
        if gone != "nothing else":
            files[3].unlink()
        inside.maintenance(store).flush_index()
        disk.release()
        query.join(timeout=120)
        assert answers == [list(range(COUNT))[::-1]]
    assert sum("rebuilt" in record.getMessage() for record in caplog.records) == 1
    assert assert_clean(tmp_path / "store").index_entries == 2 * COUNT


@pytest.mark.parametrize("which", [*WHICH, "one in the middle"])
@pytest.mark.parametrize("is_anew", [False, True], ids=["just gone", "made anew"])
def test_an_open_view_finds_what_the_log_has(
    is_anew: bool, which: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The index files of its first query have gone since, and retention takes none whose records stay."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        put(store)
        assert len(found(store)) == COUNT
        inside.maintenance(store).flush_index()
        with flightlog.open_read_only(tmp_path / "store") as view:
            assert len(view.query("orders", "all", max_count=10 * COUNT).messages) == COUNT
            for file in sorted((tmp_path / "store" / "index").iterdir())[WHICH.get(which, slice(-4, -3))]:
                file.unlink()
            if is_anew:
                inside.maintenance(store).flush_index()
            for offset in (0, COUNT // 2):
                [message] = view.query("orders", f"k{offset}").messages
                assert message.queue_offset == offset
            newest = view.query("orders", "all", max_count=COUNT - 10)
            assert [message.queue_offset for message in newest.messages] == list(range(10, COUNT))[::-1]
            assert newest.has_more
            put(store)
            store.flush()
            view.refresh()
            messages = view.query("orders", "all", max_count=10 * COUNT).messages
            assert [message.queue_offset for message in messages] == list(range(2 * COUNT))[::-1]
    assert_clean(tmp_path / "store")
