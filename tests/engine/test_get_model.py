"""Any get against RocketMQ's rule, written down once more as a plain loop over a list."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flightlog
from flightlog import GetStatus, Message, StoreSettings
from flightlog.engine.read.get_limits import GetLimits
from flightlog.engine.read.reading import QueueReader
from flightlog.index.queue.queue_table import QueueTable
from flightlog.store.disk.disk import RealDisk
from flightlog.store.format.java_hash import java_hash
from flightlog.store.log.log_reader import LogReader
from flightlog.store.segments.log_files import list_log_files

SEGMENT_SIZE, FILE_ENTRIES, COUNT = 8192, 50, 230
TAGS = ("A", "Aa", "BB", "B", None)
FILTERS = (None, "*", "A", "Aa", "B || A", "BB || B", "nobody's")


@dataclass(frozen=True)
class Listed:
    physical_offset: int
    size: int
    tag: str | None


@dataclass
class Scene:
    """A queue of 230 messages in five files, over a log of which the first segments may go."""

    log: LogReader
    table: QueueTable
    messages: list[Listed]

    def log_end(self) -> int:
        return self.messages[-1].physical_offset + self.messages[-1].size


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root, dice = tmp_path_factory.mktemp("scene") / "store", random.Random(7)
    with flightlog.open(
        root, StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=FILE_ENTRIES, rocketmq_strict=False)
    ) as store:
        results, tags = [], [dice.choice(TAGS) for _ in range(COUNT)]
        for tag in tags:
            size = dice.choice((0, 1, 50, 50, 200, 1000, 3000))
            results.append(store.put(Message("t", bytes(size), tags=tag)))
    disk = RealDisk()
    log = LogReader(disk, list_log_files(disk, root / "commitlog"))
    table = QueueTable(disk, root, FILE_ENTRIES, in_memory=True)
    table.load(thorough=True)
    assert len(log.segments) > 8
    yield Scene(log, table, [Listed(r.physical_offset, r.size, t) for r, t in zip(results, tags, strict=True)])
    log.close()


def by_the_rule(
    scene: Scene,
    gone_below: int,
    limits: GetLimits,
    offset: int,
    max_count: int,
    max_size: int | None,
    tags: str | None,
) -> tuple[GetStatus, int, list[int]]:
    """Status, next offset and the offsets of the messages."""
    if offset < 0:
        return GetStatus.OFFSET_TOO_SMALL, 0, []
    if offset == COUNT:
        return GetStatus.OFFSET_OVERFLOW_ONE, COUNT, []
    if offset > COUNT:
        return GetStatus.OFFSET_OVERFLOW_BADLY, COUNT, []
    wanted = None if tags in (None, "*") else {tag.strip() for tag in str(tags).split("||")}
    hashes = {java_hash(tag) for tag in wanted or ()}
    room = max(100, 128 << 20 if max_size is None else max_size)
    status, next_offset, found, total, skip_below = GetStatus.NO_MATCHED_MESSAGE, offset, list[int](), 0, -1
    for at in range(offset, COUNT):
        message = scene.messages[at]
        if at // FILE_ENTRIES != offset // FILE_ENTRIES:
            break
        if (at - offset) * 20 >= max(limits.scan_size, max_count * 20):
            break
        if found:
            is_near = scene.log_end() - message.physical_offset <= limits.memory_window_size
            most_bytes = limits.memory_max_size if is_near else limits.disk_max_size
            most = limits.memory_max_count if is_near else limits.disk_max_count
            if len(found) + 1 > max_count or total + message.size > room:
                break
            if total + message.size > most_bytes or len(found) > most - 1:
                break
        next_offset = at + 1
        if message.physical_offset < skip_below:
            continue
        if wanted is not None and java_hash(message.tag or "") not in hashes:
            if not found:
                status = GetStatus.NO_MATCHED_MESSAGE
            continue
        if message.physical_offset < gone_below:
            if not found:
                status = GetStatus.MESSAGE_WAS_REMOVING
            skip_below = message.physical_offset - message.physical_offset % SEGMENT_SIZE + SEGMENT_SIZE
            continue
        if wanted is not None and message.tag not in wanted:
            if not found:
                status = GetStatus.NO_MATCHED_MESSAGE
            continue
        found.append(at)
        total += message.size
        status, skip_below = GetStatus.FOUND, -1
    return status, next_offset, found


SIZES = st.sampled_from((1, 200, 1000, 5000, 20_000, 1 << 20))
LIMITS = st.builds(
    GetLimits,
    memory_max_size=SIZES,
    memory_max_count=st.integers(1, 60),
    disk_max_size=SIZES,
    disk_max_count=st.integers(1, 20),
    memory_window_size=st.sampled_from((0, 10_000, 40_000, 1 << 30)),
    scan_size=st.sampled_from((1, 99, 200, 16_000)),
)


@settings(max_examples=1000, deadline=None)
@given(
    gone=st.sampled_from((0, 0, 1, 4)),
    limits=LIMITS,
    offset=st.integers(-2, COUNT + 2),
    max_count=st.sampled_from((1, 2, 3, 7, 32, 100, 1000)),
    max_size=st.sampled_from((None, -1, 0, 99, 100, 300, 1000, 10_000)),
    tags=st.sampled_from(FILTERS),
)
def test_any_get(
    scene: Scene, gone: int, limits: GetLimits, offset: int, max_count: int, max_size: int | None, tags: str | None
) -> None:
    segments = scene.log.segments
    try:
        scene.log.segments = segments[gone:]
        queues = QueueReader(scene.log, scene.table, limits, scene.log_end)
        result = queues.get("t", 0, offset, max_count, tags=tags, max_size=max_size)
        expected = by_the_rule(scene, gone * SEGMENT_SIZE, limits, offset, max_count, max_size, tags)
    finally:
        scene.log.segments = segments
    assert (result.status, result.next_queue_offset, [m.queue_offset for m in result.messages]) == expected
    assert (result.min_queue_offset, result.max_queue_offset) == (0, COUNT)
    assert result.size == sum(scene.messages[i].size for i in expected[2])


@pytest.mark.parametrize("tags", FILTERS)
@pytest.mark.parametrize("limits", [GetLimits(900, 5, 900, 5, 0, 1), GetLimits(1 << 20, 99, 1 << 20, 99, 0, 16_000)])
def test_going_on_where_a_get_says_reaches_every_message_once(
    limits: GetLimits, tags: str | None, scene: Scene
) -> None:
    queues, found, at = QueueReader(scene.log, scene.table, limits, scene.log_end), list[int](), 0
    while (result := queues.get("t", 0, at, 9, tags=tags)).status is not GetStatus.OFFSET_OVERFLOW_ONE:
        assert result.next_queue_offset > at
        found += [m.queue_offset for m in result.messages]
        at = result.next_queue_offset
    wanted = None if tags in (None, "*") else {tag.strip() for tag in str(tags).split("||")}
    assert found == [i for i, m in enumerate(scene.messages) if wanted is None or m.tag in wanted]
