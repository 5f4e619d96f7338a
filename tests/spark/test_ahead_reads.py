"""Blocks that are fetched ahead: the right bytes, each once where reads go forward, none behind the range."""

from __future__ import annotations

import os
import random

import pytest

from flightlog.spark.remote.remote_disk import AheadReads
from flightlog.store.errors import DiskError

CONTENT = bytes(random.Random(7).randbytes(10_000))


class Source:
    """A file that notes what was fetched of it."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.fetched: list[tuple[int, int]] = []

    def read(self, position: int, size: int) -> bytes:
        self.fetched.append((position, size))
        return self.content[position : position + size]


@pytest.mark.parametrize("block_size", [1, 7, 100, 4096, 20_000])
@pytest.mark.parametrize("stop", [0, 1, 99, 5000, 10_000])
def test_reads_forward_fetch_each_byte_once(block_size: int, stop: int) -> None:
    draw = random.Random(f"{block_size} {stop} {os.environ['FLIGHTLOG_SEED']}")
    source = Source()
    ahead = AheadReads(source.read, stop, block_size)
    start = position = min(draw.randrange(50), stop)
    while position < stop:
        size = draw.randrange(1, 700)
        assert ahead.read(position, size) == CONTENT[position : min(position + size, stop)]
        position += draw.randrange(1, size + 1)  # a scan looks at the last, cut record once more
    ahead.close()
    places = [at for first, size in source.fetched for at in range(first, first + size)]
    assert places == list(range(start, stop))


def test_a_jump_begins_anew_and_drops_what_was_ahead() -> None:
    source = Source()
    ahead = AheadReads(source.read, 10_000, 100)
    assert ahead.read(0, 10) == CONTENT[:10]
    assert ahead.read(5000, 300) == CONTENT[5000:5300]
    assert ahead.read(20, 10) == CONTENT[20:30]
    ahead.close()


def test_a_file_that_is_shorter_than_its_range_ends_there() -> None:
    ahead = AheadReads(Source(CONTENT[:250]).read, 10_000, 100)
    assert ahead.read(0, 200) == CONTENT[:200]
    assert ahead.read(200, 200) == CONTENT[200:250]
    ahead.close()


def test_what_goes_wrong_ahead_is_raised_where_it_is_needed() -> None:
    def read(position: int, size: int) -> bytes:
        if position >= 100:
            raise DiskError("cut")
        return CONTENT[position : position + size]

    ahead = AheadReads(read, 1000, 100)
    assert ahead.read(0, 100) == CONTENT[:100]
    with pytest.raises(DiskError, match="cut"):
        ahead.read(100, 1)
    ahead.close()
