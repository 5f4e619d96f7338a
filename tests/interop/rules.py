"""RocketMQ's rules of a get, worked out over a list of a queue's messages, for where its answer and ours may differ:
it matches tags by their hashes, flightlog by their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flightlog.tests.interop.asking import Get
from flightlog.tests.interop.harness import Line

SCAN_SIZE, ENTRY_SIZE = 16_000, 20
MEMORY_SIZE, MEMORY_COUNT = 256 << 10, 32
LEAST_MAX_SIZE, MOST_SIZE = 100, 128 << 20


def expected_get(
    get: Get, bounds: tuple[int, int], lines: Sequence[Line], file_entries: int, matches: Callable[[str | None], bool]
) -> Any:
    """What a get answers from a queue that starts at 0 and lies in memory as a whole, in the words of `Get.theirs`.

    `matches` says whether a tag passes.
    """
    first, end = bounds
    assert first == 0 and len(lines) == end
    offset, max_size = get.queue_offset, min(max(get.max_size or MOST_SIZE, LEAST_MAX_SIZE), MOST_SIZE)
    if end == 0:
        return ("NO_MESSAGE_IN_QUEUE", 0, first, end, [], [])
    if offset < first:
        return ("OFFSET_TOO_SMALL", first, first, end, [], [])
    if offset >= end:
        return ("OFFSET_OVERFLOW_ONE" if offset == end else "OFFSET_OVERFLOW_BADLY", end, first, end, [], [])
    found: list[Line] = []
    size, next_offset = 0, offset
    file_end = (offset // file_entries + 1) * file_entries  # a get never goes on into the next queue file
    for line in lines[offset : min(end, file_end)]:
        if (line["queueOffset"] - offset) * ENTRY_SIZE >= max(SCAN_SIZE, get.max_count * ENTRY_SIZE):
            break
        if found and (
            len(found) + 1 > min(get.max_count, MEMORY_COUNT) or size + line["size"] > min(max_size, MEMORY_SIZE)
        ):
            break
        if size >= max_size:
            break
        next_offset = line["queueOffset"] + 1
        if matches(line["tags"]):
            found.append(line)
            size += line["size"]
    status = "FOUND" if found else "NO_MATCHED_MESSAGE"
    offsets = [] if get.is_lmq else [line["queueOffset"] for line in found]
    return (status, next_offset, first, end, offsets, [line["commitLogOffset"] for line in found])
