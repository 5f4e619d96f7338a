"""RocketMQ's checkpoint file: five words in a page of 4096 bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.disk.disk import RealDisk
from flightlog.store.state.checkpoint import Checkpoint, decode_checkpoint, read_checkpoint, write_checkpoint

S = 1_700_000_000_123
VECTOR = Checkpoint(S, S - 123, 1_699_999_990_000, 0, 1024)
WORD = st.integers(-(1 << 63), (1 << 63) - 1)


def test_vector() -> None:
    raw = bytes.fromhex("0000018bcfe5687b 0000018bcfe56800 0000018bcfe540f0 0000000000000000 0000000000000400")
    assert VECTOR.encode() == raw + bytes(4096 - 40)
    assert decode_checkpoint(raw) == VECTOR
    assert VECTOR.min_timestamp_ms == 1_699_999_997_000


def test_min_timestamp_is_never_negative() -> None:
    assert Checkpoint().min_timestamp_ms == 0
    assert Checkpoint(2_999, 5_000).min_timestamp_ms == 0
    assert Checkpoint(5_000, 0).min_timestamp_ms == 0
    assert Checkpoint(5_000, 4_000).min_timestamp_ms == 1_000


@given(st.tuples(WORD, WORD, WORD, WORD, WORD))
def test_round_trip(words: tuple[int, int, int, int, int]) -> None:
    found = decode_checkpoint(Checkpoint(*words).encode())
    assert found is not None and found.words == words


@pytest.mark.parametrize("size", [0, 8, 39])
def test_a_truncated_file_says_nothing(size: int, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(VECTOR.encode()[:size])
    assert read_checkpoint(RealDisk(), tmp_path) is None


def test_a_missing_file_says_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(RealDisk(), tmp_path) is None


def test_the_file_is_made_and_overwritten_in_place(tmp_path: Path) -> None:
    write_checkpoint(RealDisk(), tmp_path, VECTOR)
    first = (tmp_path / "checkpoint").stat()
    assert first.st_size == 4096
    write_checkpoint(RealDisk(), tmp_path, Checkpoint())
    assert (tmp_path / "checkpoint").stat().st_ino == first.st_ino
    assert read_checkpoint(RealDisk(), tmp_path) == Checkpoint()
    assert (tmp_path / "checkpoint").read_bytes() == bytes(4096)


def test_what_rocketmq_wrote(golden: Callable[[str], Path]) -> None:
    halted = read_checkpoint(RealDisk(), golden("abort") / "store")
    assert halted == Checkpoint(), "halted in its first second"
    closed = read_checkpoint(RealDisk(), golden("v1-clean") / "store")
    assert closed is not None
    assert closed.words == (1_795_226_771_036, 1_795_226_771_214, 0, 0, 0)
