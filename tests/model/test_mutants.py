"""Proof that the comparison with the model sees what it is there to see: each mutant spoils one function of the store,
as a slip of ours might, and some life among the first few notices. Without the mutant the same lives go well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flightlog import FlightlogError, GetStatus
from flightlog.engine.read.reading import QueueReader
from flightlog.index.dispatch import dispatch
from flightlog.index.key.key_index import KeyIndex
from flightlog.index.queue.consume_queue import ConsumeQueue
from flightlog.store.state import progress
from flightlog.store.state.progress import ProgressPage

if TYPE_CHECKING:
    from flightlog.tests.model.conftest import Live

SEEDS = 40
STEPS = 200

Spoil = Callable[[pytest.MonkeyPatch], None]


def swaps_two_queue_entries(patch: pytest.MonkeyPatch) -> None:
    real = dispatch.queue_entries

    def spoilt(*arguments: Any) -> Any:
        found = real(*arguments)
        for entries in found.values():
            if len(entries.units) > 2:
                entries.units[[0, 1]] = entries.units[[1, 0]]
        return found

    patch.setattr(dispatch, "queue_entries", spoilt)


def drops_an_index_key(patch: pytest.MonkeyPatch) -> None:
    real = KeyIndex.put

    def spoilt(self: KeyIndex, keys: Any) -> None:
        real(self, keys.part(0, len(keys) - 1) if len(keys) > 5 else keys)

    patch.setattr(KeyIndex, "put", spoilt)


def says_a_next_offset_that_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    real = QueueReader.get

    def spoilt(*arguments: Any, **how: Any) -> Any:
        found = real(*arguments, **how)
        is_later = found.status is GetStatus.FOUND and found.next_queue_offset == found.max_queue_offset
        return replace(found, next_queue_offset=found.next_queue_offset + is_later)

    patch.setattr(QueueReader, "get", spoilt)


def says_a_wrong_status(patch: pytest.MonkeyPatch) -> None:
    real = QueueReader.get

    def spoilt(*arguments: Any, **how: Any) -> Any:
        found = real(*arguments, **how)
        is_one = found.status is GetStatus.OFFSET_OVERFLOW_ONE
        return replace(found, status=GetStatus.OFFSET_OVERFLOW_BADLY) if is_one else found

    patch.setattr(QueueReader, "get", spoilt)


def dispatches_an_entry_again(patch: pytest.MonkeyPatch) -> None:
    real = ConsumeQueue.put

    def spoilt(self: ConsumeQueue, index: int, units: Any, *times: Any) -> None:
        real(self, index, units, *times)
        if len(units) > 2:
            real(self, self.end, units[-1:])

    patch.setattr(ConsumeQueue, "put", spoilt)


def _runs_ahead(patch: pytest.MonkeyPatch, word: int, of: int) -> None:
    """One word is published with the value of another one, which it must only follow after a sync."""
    real = ProgressPage.publish

    def spoilt(self: ProgressPage, number: int, value: int) -> None:
        real(self, number, value)
        if number == of:
            real(self, word, value)

    patch.setattr(ProgressPage, "publish", spoilt)


def notes_queues_as_flushed_too_early(patch: pytest.MonkeyPatch) -> None:
    _runs_ahead(patch, progress.QUEUES_FLUSHED, progress.DISPATCHED)


def notes_the_index_as_flushed_too_early(patch: pytest.MonkeyPatch) -> None:
    _runs_ahead(patch, progress.INDEX_FLUSHED, progress.DISPATCHED)


def notes_the_log_as_flushed_too_early(patch: pytest.MonkeyPatch) -> None:
    _runs_ahead(patch, progress.FLUSHED, progress.APPENDED)


MUTANTS = (
    swaps_two_queue_entries,
    drops_an_index_key,
    says_a_next_offset_that_is_off_by_one,
    says_a_wrong_status,
    dispatches_an_entry_again,
    notes_queues_as_flushed_too_early,
    notes_the_index_as_flushed_too_early,
    notes_the_log_as_flushed_too_early,
)


@pytest.mark.ci
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(mutant: Spoil, live: Live) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        noticed, seed = None, -1
        while noticed is None and seed < SEEDS:
            seed += 1
            try:
                live(seed, STEPS)
            except AssertionError as e:
                noticed = e
    assert noticed is not None, f"{SEEDS} lives went well with a store that {mutant.__name__}"
    cause = noticed.__cause__
    assert isinstance(cause, AssertionError | FlightlogError), "the mutant itself is broken"
    print(f"{mutant.__name__}: life {seed}: {type(cause).__name__}: {str(cause)[:150]}")
    for sound in range(seed + 1):
        live(sound, STEPS)
