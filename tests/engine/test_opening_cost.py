"""What opening a store reads: of one that was closed cleanly hardly anything; of one whose writer was killed what may
be damaged, however much lies before that. Bytes are counted, over a cold page cache; times are only told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import StoreSettings
from flightlog.testing import kill
from flightlog.tests.support import inside
from flightlog.tests.support.cached import cached_size
from flightlog.tests.support.opening import OpeningCost, build, open_cold, put, settings_of
from flightlog.tools.bench.machine.page_cache import forget

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

MIB = 1 << 20
LOOK_BEHIND_SIZE = 4 * MIB
"""Behind the log's end one piece is looked at, to see that nothing lies there."""
READ_AHEAD_SIZE = 16 * MIB
"""What a kernel may bring in with it, which then looks as if something had been written there."""
SMALL_FILES_SIZE = 256 << 10
"""Checkpoint, progress page, headers of index files, the configuration."""
QUEUE_SIZE = 5000
"""Bytes that are read for a queue: a page of its entries, the first one, and its last record."""
FETCHED_SIZE = 16 << 10
"""Bytes fetched from the disk for a queue: the first and the last pages of its file, and those of its last record."""
RECORD_PAGES_SIZE = 16 << 10
"""What comes into the page cache for the last record of a queue."""
HISTORIES = (1, 4, 16)
"""Segments."""
TAIL = 3000
"""Messages after the last flush of the queues."""
QUEUES = 50
QUEUE_FILE_ENTRIES = 2000
RECORD_SIZE = 250
INDEX_SIZE = 40 + 4 * 10_000 + 20 * 40_000


def tell(what: str, cost: OpeningCost) -> None:
    print(
        f"{what}: {cost.time_s:.2f} s, {cost.asked_size:,} bytes asked for, "
        f"{cost.fetched_size:,} fetched, {cost.cached_log_size:,} bytes of a log of "
        f"{cost.log_size:,} fetched, {cost.queues} queues, {cost.records_scanned:,} records scanned"
    )


@pytest.mark.ci
@pytest.mark.timeout(3600)
def test_a_closed_store_opens_without_reading_its_log(tmp_path: Path, scale: Scale, assert_clean: AssertClean) -> None:
    count, queues = scale.pick(ci=100_000, full=5_000_000), scale.pick(ci=50, full=1000)
    settings = settings_of(scale.pick(ci=8 * MIB, full=1024 * MIB))
    print(f"built in {build(tmp_path, count, queues, settings):.0f} s")
    forget(tmp_path)
    assert cached_size(tmp_path) < MIB, "a file system in memory: name a disk's folder with --basetemp"
    for for_writing in (False, True):
        store, cost = open_cold(tmp_path, settings, for_writing=for_writing)
        with store:
            tell("for writing" if for_writing else "read-only", cost)
            assert cost.queues == queues
            assert cost.records_scanned == 0
            assert cost.asked_size < LOOK_BEHIND_SIZE + queues * QUEUE_SIZE + SMALL_FILES_SIZE
            if scale.full:  # of a small log the kernel's reading ahead may fetch all there is
                assert cost.cached_log_size < LOOK_BEHIND_SIZE + READ_AHEAD_SIZE + queues * RECORD_PAGES_SIZE
                assert cost.asked_size < cost.log_size // 100
                assert cost.cached_log_size < cost.log_size // 50
                assert cost.fetched_size < LOOK_BEHIND_SIZE + queues * FETCHED_SIZE
            assert sum(end for _, end in store.queues().values()) == count
    assert assert_clean(tmp_path).records == count


def cost_after_a_kill(path: Path, segments: int, settings: StoreSettings) -> OpeningCost:
    assert settings.segment_size is not None
    store = flightlog.open(path, settings)
    record_size = store.put(flightlog.Message("topic-000", bytes(100), "tag", "key-1")).size
    put(store, segments * settings.segment_size // (record_size + 8), QUEUES)
    inside.maintenance(store).flush_queues()
    inside.maintenance(store).flush_index()
    put(store, TAIL, QUEUES)
    kill(store)
    opened, cost = open_cold(path, settings, for_writing=True)
    opened.close()
    return cost


@pytest.mark.ci
@pytest.mark.timeout(3600)
def test_recovery_reads_what_may_be_damaged_however_long_the_log_is(
    tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    segment_size = scale.pick(ci=2 * MIB, full=64 * MIB)
    settings = settings_of(
        segment_size, queue_file_entries=QUEUE_FILE_ENTRIES, index_slots=10_000, index_entries=40_000
    )
    for segments in HISTORIES:
        cost = cost_after_a_kill(tmp_path / str(segments), segments, settings)
        tell(f"{segments} segments", cost)
        assert cost.records_scanned == TAIL
        # The tail is read thrice: by the tail scan, for queues, and for keys. Twice one looks behind it: whether the
        # log goes on there, and what there is to cut. Of every queue the last three files are searched for its end.
        tail_size = 3 * TAIL * RECORD_SIZE + 2 * LOOK_BEHIND_SIZE + READ_AHEAD_SIZE
        derived_size = QUEUES * (3 * QUEUE_FILE_ENTRIES * 20 + QUEUE_SIZE) + INDEX_SIZE
        assert cost.asked_size < tail_size + derived_size
        assert cost.cached_log_size < LOOK_BEHIND_SIZE + READ_AHEAD_SIZE + QUEUES * RECORD_PAGES_SIZE
        assert_clean(tmp_path / str(segments))
