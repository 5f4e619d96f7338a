"""The statuses of a get that looked at entries: what did not match, what is gone from the log, what the file lacks.

The rest of the table stands in test_reading.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import GetStatus, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.engine.read.get_limits import GetLimits
from flightlog.engine.read.reading import QueueReader
from flightlog.index.queue.queue_table import QueueTable
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptRecordError
from flightlog.store.log.log_reader import LogReader
from flightlog.store.segments.log_files import list_log_files

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet

    Open = Callable[[Path], Store | ReadOnlyStore]

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=100)
NO_MATCH, REMOVING, FOUND = GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.FOUND


@pytest.fixture(params=["writer", "view"])
def opened(request: pytest.FixtureRequest) -> Open:
    """What is asked: the store that is open for writing, or a read-only view. Both answer alike."""
    return flightlog.open if request.param == "writer" else flightlog.open_read_only


def put_tagged(root: Path, tags: str) -> None:
    """One message a letter: its tag. Ten fit into a segment."""
    with flightlog.open(root, SETTINGS) as store:
        results = store.put_many([Message("t", bytes(290), tags=tag) for tag in tags])
        assert [result.physical_offset // SEGMENT_SIZE for result in results] == [i // 10 for i in range(len(tags))]


def test_nothing_matches(opened: Open, tmp_path: Path, assert_clean: AssertClean) -> None:
    put_tagged(tmp_path, "A" * 25 + "B")
    with opened(tmp_path) as store:
        for queue_offset in (0, 24, 25):
            result = store.get("t", 0, queue_offset, tags="C || D")
            assert (result.status, result.next_queue_offset, result.messages) == (NO_MATCH, 26, [])
            assert (result.min_queue_offset, result.max_queue_offset, result.size) == (0, 26, 0)
        result = store.get("t", 0, 26, tags="C")
        assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 26)
        result = store.get("t", 0, 0, tags="B")
        assert (result.status, result.next_queue_offset, len(result.messages)) == (FOUND, 26, 1)
    assert_clean(tmp_path)


class RemovedUnderQueues:
    """Queues over a log that lets its first segments go after they were loaded. A get looks at 50 entries at most."""

    def __init__(self, root: Path) -> None:
        disk = RealDisk()
        self.log = LogReader(disk, list_log_files(disk, root / "commitlog"))
        table = QueueTable(disk, root, 100, in_memory=True)
        table.load(thorough=True)
        limits = GetLimits.of(StoreSettings(get_scan_size=1000))
        self._queues = QueueReader(self.log, table, limits, lambda: self.log.files_end)

    def get(self, queue_offset: int, tags: str | None = None) -> tuple[GetStatus, int, list[int]]:
        result = self._queues.get("t", 0, queue_offset, 32, tags=tags)
        assert (result.min_queue_offset, result.max_queue_offset) == (0, 60)
        return result.status, result.next_queue_offset, [m.queue_offset for m in result.messages]


@pytest.fixture
def removed(tmp_path: Path) -> Iterator[RemovedUnderQueues]:
    put_tagged(tmp_path, "A" * 10 + "B" * 10 + "A" * 10 + "BBBBBABBBB" + "C" * 10 + "D" * 10)
    queues = RemovedUnderQueues(tmp_path)
    yield queues
    queues.log.close()


def test_gone_messages_are_passed(removed: RemovedUnderQueues) -> None:
    assert removed.get(3) == (FOUND, 35, list(range(3, 35)))
    removed.log.segments = removed.log.segments[2:]
    assert removed.get(3) == (FOUND, 52, list(range(20, 52)))
    assert removed.get(19) == (FOUND, 52, list(range(20, 52)))
    assert removed.get(30) == (FOUND, 60, list(range(30, 60)))
    assert removed.get(3, "A") == (FOUND, 53, [*range(20, 30), 35])
    assert removed.get(3, "B") == (FOUND, 53, [*range(30, 35), *range(36, 40)])
    assert removed.get(30, "A") == (FOUND, 60, [35])


def test_nothing_is_left_of_what_a_get_looks_at(removed: RemovedUnderQueues) -> None:
    removed.log.segments = removed.log.segments[5:]
    assert removed.get(0) == (REMOVING, 50, [])
    assert removed.get(1) == (FOUND, 51, [50])
    assert removed.get(45) == (FOUND, 60, list(range(50, 60)))


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        # What matches is gone with its segment, whose other entries are passed over; what does not match is judged.
        ("A", NO_MATCH),  # gone, no match, gone, gone after five that do not match, no match
        ("B", NO_MATCH),
        ("C", REMOVING),
        ("D", NO_MATCH),
        ("A || B", NO_MATCH),
        ("A || C", REMOVING),
        ("B || D", NO_MATCH),
        (None, REMOVING),
    ],
)
def test_the_status_is_that_of_the_last_entry_judged(
    tags: str | None, status: GetStatus, removed: RemovedUnderQueues
) -> None:
    removed.log.segments = removed.log.segments[5:]
    assert removed.get(0, tags) == (status, 50, [])


def test_the_rest_of_a_gone_segment_is_not_judged(removed: RemovedUnderQueues) -> None:
    """Entry 35, an A, tells that its segment is gone: the Bs behind it do not change that."""
    removed.log.segments = removed.log.segments[5:]
    few = GetLimits.of(StoreSettings(get_scan_size=200))
    table = QueueTable(RealDisk(), removed.log.folder.parent, 100, in_memory=True)
    table.load(thorough=True)
    queues = QueueReader(removed.log, table, few, lambda: removed.log.files_end)
    for queue_offset, status in ((25, NO_MATCH), (26, REMOVING), (30, REMOVING), (31, NO_MATCH), (36, NO_MATCH)):
        result = queues.get("t", 0, queue_offset, 1, tags="A")
        assert (result.status, result.next_queue_offset) == (status, queue_offset + 10)


def test_segments_that_expire_under_an_open_view(
    golden_set: Callable[[str], GoldenSet], golden_copy: Callable[[str], Path]
) -> None:
    """583 messages of this store had expired before; RocketMQ's retention now removes one more segment."""
    golden, root = golden_set("minoffset"), golden_copy("minoffset") / "store"
    places = {(m["topic"], m["queueId"], m["queueOffset"]): m["commitLogOffset"] for m in golden.put}
    with flightlog.open_read_only(root) as view:
        assert view.min_physical_offset == 262_144
        (root / "commitlog" / f"{262_144:020d}").unlink()
        kept_from = 262_144 + golden.spec("cl")
        statuses = set()
        for key, (first, end) in view.queues().items():
            kept = [i for i in range(first, end) if places[(*key, i)] >= kept_from]
            for queue_offset in range(first, end):
                stop = min(queue_offset - queue_offset % 50 + 50, end)
                result = view.get(*key, queue_offset)
                found = [m.queue_offset for m in result.messages]
                if found != [i for i in kept if queue_offset <= i < stop]:
                    assert len(found) >= 30 and found == [i for i in kept if i >= queue_offset][: len(found)]
                else:
                    assert result.next_queue_offset == stop
                assert result.status is (FOUND if found else REMOVING)
                statuses.add(result.status)
            assert [m.queue_offset for m in view.read(*key)] == kept
            # What is gone counts as older than any time.
            assert view.offset_at(*key, 0) == kept[0]
            assert view.offset_at(*key, 0, "upper") == kept[0] - 1 or kept[0] == first
            assert view.message_at(places[(*key, first)]) is None or first in kept
        assert statuses == {FOUND, REMOVING}


def test_a_segment_that_is_missing_from_the_middle_is_damage(tmp_path: Path) -> None:
    put_tagged(tmp_path, "A" * 35)
    with flightlog.open_read_only(tmp_path) as view:
        (tmp_path / "commitlog" / f"{SEGMENT_SIZE:020d}").unlink()
        result = view.get("t", 0, 7)
        assert (result.status, result.next_queue_offset, len(result.messages)) == (FOUND, 10, 3)
        with pytest.raises(CorruptRecordError, match="no file any more"):
            view.get("t", 0, 10)
        with pytest.raises(CorruptRecordError, match="no file any more"):
            view.message_at(SEGMENT_SIZE)
        assert [m.queue_offset for m in view.read("t", on_corrupt="skip")] == [*range(10), *range(20, 35)]


def test_a_missing_queue_file(opened: Open, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10)) as store:
        store.put_many([Message("t", b"x", tags="A")] * 45)
    with opened(tmp_path) as store:
        (tmp_path / "consumequeue" / "t" / "0" / f"{200:020d}").unlink()
        for tags in (None, "A", "B"):
            for queue_offset in (10, 13, 19):
                result = store.get("t", 0, queue_offset, tags=tags)
                assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_FOUND_NULL, 20)
                assert (result.min_queue_offset, result.max_queue_offset, result.messages) == (0, 45, [])
        (tmp_path / "consumequeue" / "t" / "0" / f"{800:020d}").unlink()
        result = store.get("t", 0, 43)  # the very last entry is kept in memory
        assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_FOUND_NULL, 50)
