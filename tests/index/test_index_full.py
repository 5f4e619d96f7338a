"""Files of RocketMQ's default size: 5,000,000 slots and 19,999,999 entries in 420,000,040 bytes, filled and rolled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flightlog.index.key.index_check import check_index
from flightlog.index.key.index_file import DEFAULT_INDEX_ENTRIES, IndexGeometry, IndexState
from flightlog.index.key.index_geometry import find_index_geometry
from flightlog.index.key.key_entries import KeyEntries
from flightlog.index.key.key_index import KeyIndex
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import RealDisk

BATCH = 1 << 16
BEGIN_MS = 1_700_000_000_000
MULTIPLIER = 1_640_531_527
"""Odd: the lowest 31 bits of its multiples are each number once."""


def keys(start: int, stop: int) -> KeyEntries:
    """Keys start, start + 1, …, each with a hash of its own."""
    numbers = np.arange(start, stop, dtype=np.int64)
    hashes = (numbers * MULTIPLIER) & 0x7FFFFFFF
    return KeyEntries(hashes.astype(np.int32), numbers * 100, BEGIN_MS + numbers // 50)


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_file_of_default_size_fills_and_rolls(tmp_path: Path) -> None:
    index = KeyIndex(RealDisk(), tmp_path, IndexGeometry(), SystemClock())
    index.load()
    full = DEFAULT_INDEX_ENTRIES - 1
    count = full + 1_000_000
    for start in range(0, count, BATCH):
        index.put(keys(start, min(start + BATCH, count)))
    state = index.flush()
    first, second = index.files
    assert (first.header().next_entry, state) == (full + 1, IndexState(second.number, 1_000_001))
    assert first.path.stat().st_size == second.path.stat().st_size == 420_000_040
    assert index.full_timestamp_ms == int(keys(full - 1, full).store_timestamp_ms[0])
    for number in (0, 1, full // 2, full - 1, full, count - 1):
        [hash_] = keys(number, number + 1).key_hash.tolist()
        assert list(index.candidates(hash_)) == [number * 100]
        time_ms = BEGIN_MS + number // 50
        assert list(index.candidates(hash_, time_ms, time_ms)) == [number * 100]
    assert list(index.candidates(int(keys(count, count + 1).key_hash[0]))) == []
    assert find_index_geometry(RealDisk(), tmp_path) == IndexGeometry()
    assert [check.problems for check in check_index(index, count * 100)] == [[], []]

    # Back into the full file, and forward again.
    assert index.truncate((full - 500_000) * 100)
    assert index.state == IndexState(first.number, full - 500_000 + 1)
    for start in range(full - 600_000, count, BATCH):
        index.put(keys(start, min(start + BATCH, count)))
    index.flush()
    assert [check.problems for check in check_index(index, count * 100)] == [[], []]
    for number in (0, full - 500_001, full - 500_000, full - 1, full, count - 1):
        assert list(index.candidates(int(keys(number, number + 1).key_hash[0]))) == [number * 100]
    index.close()
