"""Hypothesis chooses the steps of a store's life: puts of every kind, questions, topics, retention, views, disks that
fail or run full, and the ways to end. Whatever the order, the store answers as the model does, and verifies itself at
the end. Some mutants of our own code show that the machine can fail.

A life that went wrong is printed as short as Hypothesis could make it. Its steps are calls of support/machine_life.py;
what was found is kept as a named test beside the part that was at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from flightlog import FlightlogError
from flightlog.engine.services.retention import Retention
from flightlog.engine.topics.topics import TopicTable
from flightlog.store.log.column_records import ColumnRecords
from flightlog.store.state.deleted_topics import DeletedTopics
from flightlog.tests.support import machine

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

EXAMPLES_CI, EXAMPLES = 30, 80
STEPS = 50


def settings(**changes: Any) -> hypothesis.settings:
    return hypothesis.settings(stateful_step_count=STEPS, suppress_health_check=list(hypothesis.HealthCheck), **changes)


@pytest.mark.ci
def test_a_store_is_what_the_model_says(kernel: str, scale: Scale, unlogged: None, tmp_path: Path) -> None:
    here = machine.machine_in(tmp_path)
    run_state_machine_as_test(here, settings=settings(max_examples=scale.pick(ci=EXAMPLES_CI, full=5000)))
    print(kernel, here.count)


def forgets_what_is_deleted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeletedTopics, "mark", lambda self, topic, below: None)


def takes_young_segments_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "_is_old", lambda self, segment, hours, now_ms: True)


def says_that_topics_are_saved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicTable, "_save", lambda self, topics: None)


def places_a_row_in_its_neighbours_queue_offset(patch: pytest.MonkeyPatch) -> None:
    real = ColumnRecords.place

    def spoilt(self: ColumnRecords, first: int, stop: int, *where: Any) -> Any:
        found = real(self, first, stop, *where)
        if stop - first > 3:
            self.queue_offsets[first : first + 2] = self.queue_offsets[first : first + 2][::-1].copy()
        return found

    patch.setattr(ColumnRecords, "place", spoilt)


MUTANTS = (
    forgets_what_is_deleted,
    takes_young_segments_too,
    says_that_topics_are_saved,
    places_a_row_in_its_neighbours_queue_offset,
)


@pytest.mark.ci
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(mutant: Callable[[pytest.MonkeyPatch], None], unlogged: None, tmp_path: Path) -> None:
    here = machine.machine_in(tmp_path)
    once = settings(max_examples=EXAMPLES, phases=[hypothesis.Phase.generate], report_multiple_bugs=False)
    with pytest.MonkeyPatch.context() as patch, pytest.raises((AssertionError, FlightlogError)) as caught:
        mutant(patch)
        run_state_machine_as_test(here, settings=once)
    print(f"{mutant.__name__}: {here.count}: {str(caught.value)[:150]}")
