"""What a sync of the log asks the disk for: all of a segment for a few bytes, what is new for many."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store import native
from flightlog.store.disk.disk import MappedPart, RealDisk
from flightlog.store.errors import StorePoisonedError, SyncFailedError
from flightlog.store.segments.segment import PART_SIZE
from flightlog.tests.support import inside
from flightlog.tests.support.synced_disk import SyncedDisk

if TYPE_CHECKING:
    AssertClean = Callable[[Path], None]

SEGMENT_SIZE = 1 << 20
LONG = Message("t", bytes(PART_SIZE))
SHORT = Message("t", b"short")


class NotingDisk(SyncedDisk):
    """Notes syncs of segments."""

    def __init__(self) -> None:
        self.syncs: list[tuple[str, tuple[int, int] | None]] = []

    def synced(self, path: Path, part: MappedPart | None) -> None:
        self.syncs.append((path.name, None if part is None else (part.start, part.stop)))


def pages(start: int, stop: int) -> tuple[int, int]:
    return start // mmap.PAGESIZE * mmap.PAGESIZE, stop


@pytest.mark.parametrize("flush_mode", FlushMode)
def test_many_bytes_are_synced_by_themselves(
    flush_mode: FlushMode, kernel: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    disk, path = NotingDisk(), tmp_path / "store"
    settings = StoreSettings(
        segment_size=SEGMENT_SIZE, flush_mode=flush_mode, flush_interval_ms=3_600_000, prepare_ahead_size=0
    )
    with flightlog.open(path, settings, disk=disk) as store:

        def synced_for(message: Message) -> list[tuple[str, tuple[int, int] | None]]:
            disk.syncs.clear()
            store.put(message)
            store.flush()
            return list(disk.syncs)

        synced_for(SHORT)
        first = "0" * 20
        assert synced_for(SHORT) == [(first, None)]
        before = inside.log(store).end
        assert synced_for(LONG) == [(first, pages(before, inside.log(store).end))]
        assert synced_for(SHORT) == [(first, None)]
    assert_clean(path)


def test_of_each_segment_what_is_new(kernel: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    disk, path = NotingDisk(), tmp_path / "store"
    settings = StoreSettings(segment_size=SEGMENT_SIZE, flush_interval_ms=3_600_000, prepare_ahead_size=0)
    with flightlog.open(path, settings, disk=disk) as store:
        store.put(SHORT)
        store.flush()
        start = inside.log(store).flushed
        while inside.log(store).end < SEGMENT_SIZE + PART_SIZE:
            store.put(LONG)
        disk.syncs.clear()
        store.flush()
        assert disk.syncs == [
            ("0" * 20, pages(start, SEGMENT_SIZE)),
            (f"{SEGMENT_SIZE:020d}", (0, inside.log(store).end - SEGMENT_SIZE)),
        ]
    assert_clean(path)


def test_a_sync_of_a_part_that_fails_is_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(mapping: mmap.mmap, position: int, size: int) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(native, "sync_pages", fail)
    path = tmp_path / "store"
    settings = StoreSettings(segment_size=SEGMENT_SIZE, flush_mode=FlushMode.SYNC, prepare_ahead_size=0)
    store = flightlog.open(path, settings)
    store.put(SHORT)
    with pytest.raises(SyncFailedError, match=r"00000000000000000000: .*Input/output error"):
        store.put(LONG)
    with pytest.raises(StorePoisonedError):
        store.put(SHORT)
    store.close()


def test_where_the_system_syncs_no_parts_all_of_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def note(descriptor: int) -> None:
        if descriptor == file.descriptor:  # stores that other tests have left may sync, too
            synced.append(descriptor)
        real(descriptor)

    path, real = tmp_path / "file", os.fdatasync
    path.write_bytes(bytes(2 * mmap.PAGESIZE))
    file = RealDisk().open(path, writable=True)
    part = MappedPart(file.map_for_append(), 0, mmap.PAGESIZE)
    monkeypatch.setattr(os, "fdatasync", note)
    file.sync(part)
    assert synced == []
    monkeypatch.setattr(native, "sync_pages", lambda mapping, position, size: False)
    file.sync(part)
    assert synced == [file.descriptor]
    file.close()
