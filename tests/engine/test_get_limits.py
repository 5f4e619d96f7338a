"""How much one get answers: by count, by bytes, near the log's end and further back, and how far it looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import GetResult, GetStatus, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.engine.read.get_limits import GetLimits, physical_memory_size
from flightlog.engine.read.reading import QueueReader
from flightlog.index.queue.queue_table import QueueTable
from flightlog.store.disk.disk import RealDisk
from flightlog.store.log.log_reader import LogReader
from flightlog.store.segments.log_files import list_log_files

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

    Open = Callable[..., Store | ReadOnlyStore]

NEAR = StoreSettings(segment_size=8 << 20, queue_file_entries=10_000)
FAR = StoreSettings(segment_size=8 << 20, queue_file_entries=10_000, access_memory_percent=0)
MIB = 1 << 20


@pytest.fixture(params=["writer", "view"])
def opened(request: pytest.FixtureRequest) -> Open:
    """Opens with the settings given: for writing, or as a read-only view. Both answer alike."""
    return flightlog.open if request.param == "writer" else flightlog.open_read_only


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queues of records of known sizes; nobody changes them.

    `small`: 1,000 of 100 bytes. `kilo`: 600 of 1,000 bytes. `large`: 100,000 bytes, 300,000, 100, 300,000, 100.
    """
    root = tmp_path_factory.mktemp("sized") / "store"
    with flightlog.open(root, NEAR) as store:
        store.put_many([record("small", 100)] * 1000)
        store.put_many([record("kilo", 1000)] * 600)
        store.put_many([record("large", size) for size in (100_000, 300_000, 100, 300_000, 100)])
        assert {m.size for m in store.read("small")} == {100} and {m.size for m in store.read("kilo")} == {1000}
    return root


def record(topic: str, size: int) -> Message:
    """A message whose record has `size` bytes."""
    return Message(topic, bytes(size - 91 - len(topic)))


def taken(result: GetResult) -> tuple[int, int]:
    """(messages, next queue offset) of an answer that found something."""
    assert result.status is GetStatus.FOUND and result.size == sum(m.size for m in result.messages)
    return len(result.messages), result.next_queue_offset


def test_near_the_end_of_the_log(opened: Open, sized: Path) -> None:
    with opened(sized, NEAR) as store:
        assert taken(store.get("small", 0, 5)) == (32, 37)
        assert taken(store.get("small", 0, 5, 31)) == (31, 36)
        assert taken(store.get("small", 0, 5, 33)) == (32, 37)
        assert taken(store.get("small", 0, 990, 1000)) == (10, 1000)
        assert taken(store.get("kilo", 0, 0, 1000)) == (32, 32)


def test_further_back(opened: Open, sized: Path) -> None:
    with opened(sized, FAR) as store:
        assert taken(store.get("small", 0, 5)) == (8, 13)
        assert taken(store.get("small", 0, 5, 7)) == (7, 12)
        assert taken(store.get("kilo", 0, 0, 1000)) == (8, 8)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        *((StoreSettings(get_memory_max_count=1000), 262), (StoreSettings(get_memory_max_count=263), 262)),
        *((StoreSettings(get_memory_max_count=261), 261), (StoreSettings(get_memory_max_count=262), 262)),
        (StoreSettings(get_memory_max_count=1000, get_memory_max_size=262_000), 262),
        (StoreSettings(get_memory_max_count=1000, get_memory_max_size=261_999), 261),
        (StoreSettings(get_memory_max_count=1000, get_memory_max_size=1), 1),
        (StoreSettings(get_memory_max_count=1, get_disk_max_count=1000), 1),
        (StoreSettings(get_disk_max_count=1000, access_memory_percent=0), 65),
        (StoreSettings(get_disk_max_count=65, access_memory_percent=0), 65),
        (StoreSettings(get_disk_max_count=64, access_memory_percent=0), 64),
        (StoreSettings(get_disk_max_count=1000, get_disk_max_size=65_000, access_memory_percent=0), 65),
        (StoreSettings(get_disk_max_count=1000, get_disk_max_size=64_999, access_memory_percent=0), 64),
        (StoreSettings(get_disk_max_count=1, get_memory_max_count=1000, access_memory_percent=0), 1),
    ],
)
def test_bytes_and_counts_that_settings_allow(settings: StoreSettings, count: int, opened: Open, sized: Path) -> None:
    """262,144 and 65,536 bytes, unless they say otherwise; records of 1,000 bytes."""
    with opened(sized, settings) as store:
        assert taken(store.get("kilo", 0, 10, 1000)) == (count, 10 + count)


@pytest.mark.parametrize(
    ("max_size", "count"),
    [
        *((1999, 1), (2000, 2), (2999, 2), (32_000, 32), (None, 32), (1 << 40, 32)),
        *((1, 1), (0, 1), (-5, 1), (99, 1), (100, 1), (1000, 1)),
    ],
)
def test_bytes_that_the_caller_allows(max_size: int | None, count: int, opened: Open, sized: Path) -> None:
    with opened(sized, NEAR) as store:
        assert taken(store.get("kilo", 0, 3, max_size=max_size)) == (count, 3 + count)


def test_a_hundred_bytes_are_always_allowed(sized: Path) -> None:
    """So below that it makes no difference; two records of 100 bytes are more."""
    with flightlog.open_read_only(sized) as view:
        assert [len(view.get("small", 0, 0, max_size=size).messages) for size in (1, 100, 199, 200)] == [1, 1, 1, 2]


def test_no_limit_holds_back_the_first_message(opened: Open, sized: Path) -> None:
    for settings in (NEAR, FAR):
        with opened(sized, settings) as store:
            for at, expected in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5)):
                assert taken(store.get("large", 0, at, max_size=100)) == (1, expected)
    with opened(sized, NEAR) as store:
        assert [taken(store.get("large", 0, at))[0] for at in range(5)] == [1, 1, 1, 1, 1]
    with opened(sized, StoreSettings(get_memory_max_size=400_000)) as store:
        assert [taken(store.get("large", 0, at))[0] for at in range(5)] == [2, 2, 3, 2, 1]
    with opened(sized, StoreSettings(get_memory_max_size=MIB)) as store:
        assert taken(store.get("large", 0, 0)) == (5, 5)


def test_the_128_mib_that_no_answer_exceeds(tmp_path: Path) -> None:
    settings = StoreSettings(
        segment_size=256 * MIB, max_message_size=64 * MIB, get_memory_max_size=(1 << 31) - 1, allocate_step_size=MIB
    )
    limits = GetLimits.of(settings)
    assert not limits.is_full(31, 300 * MIB, 64 * MIB, 0)
    with flightlog.open(tmp_path, settings) as store:
        for _ in range(3):
            store.put(record("huge", 60 * MIB))
        assert taken(store.get("huge", 0, 0, max_size=1 << 31)) == (2, 2)


def test_what_is_near() -> None:
    """40 % of the memory that the machine has, the border included."""
    window = int(physical_memory_size() * 0.4)
    with open("/proc/meminfo", encoding="ascii") as file:
        total = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemTotal:"))
    assert physical_memory_size() == total
    limits = GetLimits.of(StoreSettings())
    assert not limits.is_full(20, 100_000, 100_000, window)
    assert limits.is_full(20, 1000, 1000, window + 1)
    assert [limits.is_full(count, 1000, 1000, window) for count in (31, 32)] == [False, True]
    assert [limits.is_full(count, 1000, 1000, window + 1) for count in (7, 8)] == [False, True]
    assert GetLimits.of(StoreSettings(access_memory_percent=100)).memory_window_size == total
    assert GetLimits.of(StoreSettings(access_memory_percent=0)).memory_window_size == 0


def test_half_near_and_half_far(tmp_path: Path) -> None:
    """Each entry is judged by its own distance: from the border on an answer may grow."""
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put_many([record("t", 100)] * 101)
    disk = RealDisk()
    log = LogReader(disk, list_log_files(disk, tmp_path / "commitlog"))
    table = QueueTable(disk, tmp_path, 1000, in_memory=True)
    table.load(thorough=True)
    end = 10_000
    limits = replace(GetLimits.of(StoreSettings()), memory_window_size=4000)
    queues = QueueReader(log, table, limits, lambda: end)
    assert taken(queues.get("t", 0, 40)) == (8, 48)
    assert taken(queues.get("t", 0, 51)) == (8, 59)
    # Entry 60 stands 4,000 bytes before the end: where the eight before it are taken, it is the ninth and near.
    assert taken(queues.get("t", 0, 52)) == (32, 84)
    assert taken(queues.get("t", 0, 60, 7)) == (7, 67)
    end = 10_100
    assert taken(queues.get("t", 0, 52)) == (8, 60)
    assert taken(queues.get("t", 0, 53)) == (32, 85)
    log.close()


@pytest.mark.parametrize(
    ("scan_size", "max_count", "entries"),
    [
        *((16_000, 1, 800), (16_000, 800, 800), (16_000, 801, 801), (16_000, 999, 999)),
        *((1, 1, 1), (20, 1, 1), (21, 1, 2), (400, 5, 20), (400, 20, 20), (400, 21, 21), (419, 1, 21)),
    ],
)
def test_how_far_a_get_looks(scan_size: int, max_count: int, entries: int, opened: Open, sized: Path) -> None:
    with opened(sized, StoreSettings(get_scan_size=scan_size)) as store:
        result = store.get("small", 0, 1, max_count, tags="nobody's")
        assert (result.status, result.next_queue_offset) == (GetStatus.NO_MATCHED_MESSAGE, 1 + entries)


def test_the_scan_ends_an_answer_that_found_something(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(queue_file_entries=5000)) as store:
        store.put_many([Message("t", b"x", tags="A" if i % 500 == 3 else "B") for i in range(2000)])
        result = store.get("t", 0, 0, tags="A")
        assert ([m.queue_offset for m in result.messages], result.next_queue_offset) == ([3, 503], 800)
        result = store.get("t", 0, 4, tags="A")
        assert ([m.queue_offset for m in result.messages], result.next_queue_offset) == ([503], 804)
    assert_clean(tmp_path)


@pytest.mark.parametrize("tags", [None, "A"])
def test_an_answer_ends_with_its_queue_file(tags: str | None, opened: Open, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(queue_file_entries=10)) as store:
        store.put_many([Message("t", b"x", tags="A" if 10 <= i < 14 else "B") for i in range(25)])
    with opened(tmp_path) as store:
        for at in range(25):
            result = store.get("t", 0, at, tags=tags)
            file_end = min(at - at % 10 + 10, 25)
            matches = [i for i in range(at, file_end) if tags is None or 10 <= i < 14]
            assert [m.queue_offset for m in result.messages] == matches and result.next_queue_offset == file_end
            assert result.status is (GetStatus.FOUND if matches else GetStatus.NO_MATCHED_MESSAGE)
