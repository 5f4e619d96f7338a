"""Keys in memory: what no index file knows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.index.key import memory_keys
from flightlog.index.key.memory_keys import MemoryKeys
from flightlog.tests.support import plain_index

STEP = st.tuples(st.sampled_from(["put", "truncate", "search"]), st.integers(0, 60), st.integers(0, 60))


@given(steps=st.lists(STEP, max_size=20), block=st.sampled_from([1, 3, 65_536]))
def test_as_a_list(steps: list[tuple[str, int, int]], block: int) -> None:
    memory, model = MemoryKeys(), []
    offset = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_keys, "BLOCK", block)
        for step, a, b in steps:
            if step == "put":
                new = [
                    plain_index.Key((offset + i) % 5, offset + i // 2, 1_700_000_000_500 + i * 400) for i in range(a)
                ]
                offset += a
                memory.put(plain_index.key_entries_of(new))
                model += new
            elif step == "truncate":
                memory.truncate(a)
                model = [key for key in model if key.physical_offset < a]
                offset = min(offset, a)
            else:
                check(memory, model, a % 6, 1_700_000_000_500 + b * 400)
            assert len(memory) == len(model)
        for hash_ in range(6):
            check(memory, model, hash_, 1_700_000_003_000)


def check(memory: MemoryKeys, model: list[Any], hash_: int, border_ms: int) -> None:
    of_hash = [key for key in reversed(model) if key.hash == hash_]
    assert list(memory.candidates(hash_)) == [key.physical_offset for key in of_hash]
    later = list(memory.candidates(hash_, border_ms))
    earlier = list(memory.candidates(hash_, 0, border_ms))
    assert {key.physical_offset for key in of_hash if key.time_ms >= border_ms} <= set(later)
    assert {key.physical_offset for key in of_hash if key.time_ms <= border_ms} <= set(earlier)
    assert later == [key.physical_offset for key in of_hash if key.time_ms // 1000 * 1000 + 999 >= border_ms]
    assert earlier == [key.physical_offset for key in of_hash if key.time_ms // 1000 * 1000 <= border_ms]


def test_times_that_do_not_fit_exclude_nothing() -> None:
    memory = MemoryKeys()
    memory.put(
        plain_index.key_entries_of(
            [plain_index.Key(1, 0, -5), plain_index.Key(1, 1, 0), plain_index.Key(1, 2, 1 << 62)]
        )
    )
    assert list(memory.candidates(1, 1_000_000, 2_000_000)) == [2, 1, 0]


def test_a_search_goes_on_over_what_it_began_with() -> None:
    memory = MemoryKeys()
    memory.put(plain_index.key_entries_of([plain_index.Key(1, i, 5) for i in range(70)]))
    search = memory.candidates(1)
    assert next(search) == 69
    memory.put(plain_index.key_entries_of([plain_index.Key(1, i, 5) for i in range(70, 500)]))
    memory.truncate(10)
    memory.put(plain_index.key_entries_of([plain_index.Key(2, i, 5) for i in range(10, 60)]))
    assert list(search) == list(range(68, -1, -1))


def test_sixteen_bytes_a_key() -> None:
    memory = MemoryKeys()
    memory.put(plain_index.key_entries_of([plain_index.Key(1, i, 5) for i in range(1000)]))
    assert sum(column.nbytes for column in memory._columns[:3]) == 16_000
