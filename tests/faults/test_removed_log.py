"""A commit log that is removed, moved or replaced beneath an open store: nothing more is acknowledged.

Found by deleting `commitlog/` beneath a store under sync flush: 1,000 more puts were acknowledged, none was on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import SegmentRemovedError, StorePoisonedError
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SEGMENT_SIZE = 1 << 16


def remove(segment: Path) -> None:
    shutil.rmtree(segment.parent)


def move(segment: Path) -> None:
    segment.parent.rename(segment.parent.with_name("moved"))


def replace(segment: Path) -> None:
    copied = Path(shutil.copyfile(segment, segment.with_name("copy")))
    copied.rename(segment)


def settings(mode: FlushMode) -> StoreSettings:
    # No round of the service comes in between: each test says itself when the log is flushed.
    return StoreSettings(segment_size=SEGMENT_SIZE, flush_mode=mode, flush_interval_ms=3_600_000)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("harm", [remove, move, replace])
def test_under_sync_flush_no_put_is_acknowledged(harm: Callable[[Path], None], tmp_path: Path) -> None:
    store = flightlog.open(tmp_path / "store", settings(FlushMode.SYNC))
    store.put(Message("t", b"durable"))
    assert [m.body for m in store.read("t", 0)] == [b"durable"]
    harm(tmp_path / "store" / "commitlog" / f"{0:020d}")
    with pytest.raises(SegmentRemovedError, match="removed, moved away or replaced while the store had it open"):
        store.put(Message("t", b"lost"))
    refused = Message("t", b"refused")
    for call in (lambda: store.put(refused), store.flush, lambda: store.put_many([refused])):
        with pytest.raises(StorePoisonedError) as raised:
            call()
        assert isinstance(raised.value.cause, SegmentRemovedError)
    assert [m.body for m in store.read("t", 0)] == [b"durable"], "what is not durable is never shown"
    store.close()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("harm", [remove, move, replace])
def test_under_async_flush_the_next_flush_finds_it(harm: Callable[[Path], None], tmp_path: Path) -> None:
    store = flightlog.open(tmp_path / "store", settings(FlushMode.ASYNC))
    store.put(Message("t", b"before"))
    harm(tmp_path / "store" / "commitlog" / f"{0:020d}")
    with pytest.raises(SegmentRemovedError):
        store.flush()
    with pytest.raises(StorePoisonedError, match="removed, moved away or replaced"):
        store.put(Message("t", b"refused"))
    store.close()


def test_a_future_that_waits_for_its_sync_gets_the_error(tmp_path: Path) -> None:
    store = flightlog.open(tmp_path / "store", settings(FlushMode.SYNC))
    store.put(Message("t", b"durable"))
    remove(tmp_path / "store" / "commitlog" / f"{0:020d}")
    future = store.put_async(Message("t", b"lost"))
    assert isinstance(future.exception(timeout=300), SegmentRemovedError | StorePoisonedError)
    store.close()


def test_the_service_finds_it_in_its_own_round(
    tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    quick = StoreSettings(segment_size=SEGMENT_SIZE, flush_interval_ms=1, flush_least_pages=0)
    store = flightlog.open(tmp_path / "store", quick)
    store.put(Message("t", b"before"))
    store.flush()
    remove(tmp_path / "store" / "commitlog" / f"{0:020d}")
    store.put(Message("t", b"after"))
    wait_until(lambda: inside.log(store).poison)
    assert isinstance(inside.log(store).poison, SegmentRemovedError)
    store.close()


def test_a_relative_path_survives_a_change_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    monkeypatch.chdir(tmp_path)
    store = flightlog.open("store", settings(FlushMode.SYNC))
    store.put(Message("t", b"before"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.put(Message("t", b"after"))
    monkeypatch.chdir(tmp_path)
    store.close()
    assert_clean(tmp_path / "store")
