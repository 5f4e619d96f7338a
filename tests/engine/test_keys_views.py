"""Queries by key over a read-only view: what index files know, what they do not know yet, and nothing twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.tests.support import inside, keyed

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint


def in_memory(view: flightlog.ReadOnlyStore) -> int:
    """How many keys the view has gathered itself."""
    known = inside.view_keys(view)._known
    return 0 if known is None else len(known.memory)


def test_beside_a_live_writer(tmp_path: Path, assert_clean: AssertClean) -> None:
    """One view follows from before the first message on, others are opened on the way: whatever of the index is on
    disk by then, each finds everything, and keeps in memory just what no synced file has."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store, flightlog.open_read_only(path) as follower:
        count = flushed = 0
        for step in (1, 2, 1, 4, 13, 3, 20, 1, 9, 30):  # within an index file, past its end, past several
            store.put_many(keyed.messages(count, count + step))
            count += step
            if step % 2 == 0:
                store.queues()  # dispatched, so that files may have rolled; what is in the newest is not flushed
            if step % 3 == 0:
                keyed.flush_index(store)
                flushed = keyed.key_count(count)
            with flightlog.open_read_only(path) as view:
                keyed.check(view, count)
                assert in_memory(view) == keyed.key_count(count) - flushed
                assert view.verify().is_clean
            follower.refresh()
            keyed.check(follower, count)
            assert in_memory(follower) == keyed.key_count(count), "the view knows what it knew, and what is new"
            assert store.verify().is_clean
    assert_clean(path)


def test_a_view_ends_where_it_was_opened(tmp_path: Path) -> None:
    """Messages put after the view was opened are not found though their keys are in the files; after a refresh they
    are."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, 40))
        keyed.flush_index(store)
        with flightlog.open_read_only(path) as asked, flightlog.open_read_only(path) as unasked:
            keyed.check(asked, 40)
            store.put_many(keyed.messages(40, 90))
            keyed.flush_index(store)
            for view in (asked, unasked):
                keyed.check(view, 40)
                assert not view.was_stored("u50")
                view.refresh()
                keyed.check(view, 90)
                assert view.was_stored("u50")


def test_a_view_survives_close_and_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, keyed.settings())
    store.put_many(keyed.messages(0, 30))
    with flightlog.open_read_only(path) as view:
        keyed.check(view, 30)
        store.close()
        keyed.check(view, 30)
        view.refresh()
        keyed.check(view, 30)
        assert in_memory(view) == 0
        with flightlog.open(path, keyed.settings()) as store:
            store.put_many(keyed.messages(30, 60))
            view.refresh()
            keyed.check(view, 60)


@pytest.mark.parametrize("flushed", [0, 1, 25, 60])
def test_over_a_killed_store(
    flushed: int,
    tmp_path: Path,
    copy_as_killed: Callable[[Path, Path], Path],
    fingerprint: Callable[[Path], Fingerprint],
) -> None:
    with flightlog.open(tmp_path / "live", keyed.settings()) as store:
        store.put_many(keyed.messages(0, flushed))
        keyed.flush_index(store)
        store.put_many(keyed.messages(flushed, 80))
        store.queues()
        store.put_many(keyed.messages(80, 90))
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    before = fingerprint(killed)
    with flightlog.open_read_only(killed) as view:
        keyed.check(view, 90)
        assert in_memory(view) == keyed.key_count(90) - keyed.key_count(flushed)
        assert view.verify().is_clean
    assert fingerprint(killed) == before, "a view wrote something"


def test_over_a_store_without_index_files(tmp_path: Path, fingerprint: Callable[[Path], Fingerprint]) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, 60))
    shutil.rmtree(path / "index")
    before = fingerprint(path)
    with flightlog.open_read_only(path) as view:
        keyed.check(view, 60)
        assert in_memory(view) == keyed.key_count(60)
        (finding,) = view.verify().findings
        assert "index files are missing" in finding.meaning
    assert fingerprint(path) == before


def test_segments_that_are_gone_take_no_keys_of_others_along(tmp_path: Path) -> None:
    """Another process has removed them since the view was opened."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings(key_index=False)) as store:
        results = store.put_many(keyed.messages(0, 200))
    with flightlog.open_read_only(path) as view:
        *gone, rest = view.segments[:3]
        assert len(view.segments) > 4
        for segment in gone:
            segment.path.unlink()
        first = next(i for i, result in enumerate(results) if result.physical_offset >= rest.base)
        keyed.check(view, 200, first)


def test_nothing_is_read_for_keys_until_somebody_asks(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings(key_index=False)) as store:
        store.put_many(keyed.messages(0, 60))
    with flightlog.open_read_only(path) as view:
        list(view.read("t0"))
        assert in_memory(view) == 0
        view.query("t0", "u0")
        assert in_memory(view) == keyed.key_count(60)


def test_settings_of_the_reader_do_not_matter(tmp_path: Path) -> None:
    """A view takes the files as they are: another geometry, or no wish for an index, changes nothing."""
    path = tmp_path / "store"
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, 60))
    for settings in (StoreSettings(), StoreSettings(key_index=False), StoreSettings(index_slots=9, index_entries=99)):
        with flightlog.open_read_only(path, settings) as view:
            keyed.check(view, 60)
            assert in_memory(view) == 0


def test_an_index_that_was_never_flushed_is_no_finding(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path], assert_clean: AssertClean
) -> None:
    """The first file of a young store tells nothing but its length, which is that of no other store."""
    with flightlog.open(tmp_path / "live", keyed.settings()) as store:
        store.put(Message("t0", b"00000", keys=["k0", "g0"], uniq_key="u0"))
        keyed.check(store, 1)
        assert store.verify().is_clean
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    assert_clean(killed)
    with flightlog.open_read_only(killed) as view:
        keyed.check(view, 1)
    with flightlog.open(killed, keyed.settings()) as store:
        keyed.check(store, 1)
    assert_clean(killed)


def test_the_usual_geometry_is_adopted_from_a_length_alone(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path], assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path / "live", keyed.settings(index_slots=5, index_entries=20)) as store:
        store.put_many(keyed.messages(0, 3))
        store.queues()
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    assert len(list((killed / "index").iterdir())) == 1
    with flightlog.open(killed) as store:
        store.put_many(keyed.messages(3, 30))
        keyed.check(store, 30)
    assert len(list((killed / "index").iterdir())) > 3
    assert {path.stat().st_size for path in (killed / "index").iterdir()} == {40 + 5 * 4 + 20 * 20}
    assert_clean(killed)


def test_an_index_file_that_goes_in_the_middle_of_the_first_query_is_done_without(tmp_path: Path) -> None:
    """Another writer opens the store: for a moment nobody can say that the index is ours, and every header is read."""
    path, count = tmp_path / "store", 60
    with flightlog.open(path, keyed.settings()) as store:
        store.put_many(keyed.messages(0, count))
    (path / "abort").write_bytes(b"another one")
    oldest = min((path / "index").iterdir())

    class RemovingDisk(RealDisk):
        looks = 0

        def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
            if path == oldest:
                self.looks += 1
                if self.looks == 3:  # after those at its size and its last entry
                    oldest.unlink()
            return super().open(path, writable=writable, create=create)

    disk = RemovingDisk()
    with flightlog.open_read_only(path, disk=disk) as view:
        keyed.check(view, count)
    assert disk.looks > 3 and not oldest.exists()
