"""`checkpoint`: five words, or nothing."""

from __future__ import annotations

from flightlog.store.state.checkpoint import CHECKPOINT, Checkpoint, decode_checkpoint


def one(data: bytes) -> None:
    found = decode_checkpoint(data)
    assert (found is None) == (len(data) < CHECKPOINT.size)
    if found is not None:
        assert found.encode()[: CHECKPOINT.size] == data[: CHECKPOINT.size]
        assert found.min_timestamp_ms >= 0


def seeds() -> list[bytes]:
    return [Checkpoint().encode(), Checkpoint(1_700_000_000_000, 1_700_000_000_500, 1, 2, 3).encode()[:64]]
