"""Lives in which the model of the state machine was at fault, and not the store: their steps, written down."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from flightlog.tests.support import inside, machine_messages
from flightlog.tests.support.machine_life import Life

OPERATIONS = (0, 1, 2, 4, 6, 8, 10, 13, 16)
"""How many of the disk's operations a deletion lives through: the first ones come before its note."""


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    geometry = machine_messages.Geometry(1, 29, 4, 5, 2, 500, 1, is_far=True)
    found = Life(tmp_path / "store", geometry, machine_messages.Opening())
    yield found
    found.release()


def delete_and_die(life: Life, name: str, operations: int) -> None:
    life.disk.die_after = operations
    life.delete_topic(name)
    if life.is_open:
        life.end_process()
    life.open(machine_messages.Opening())


@pytest.mark.parametrize("operations", OPERATIONS)
def test_a_kill_that_takes_a_topic_of_half_messages_alone_deletes_none_of_them(life: Life, operations: int) -> None:
    """Neither `topics.json` nor a queue tells of the topic; its record is found by its key, unless the deletion came as
    far as its note."""
    life.put(machine_messages.Row(("made", 0), keys=("k1",), kind="prepared"))
    life.put(machine_messages.Row(("orders", 0), keys=("k1",)))
    delete_and_die(life, "made", operations)
    assert "made" not in life.model.topics
    if not operations:
        assert len(life.model.query("made", "k1", 0, None, life.model.end)) == 1
    life.end(machine_messages.Opening())


@pytest.mark.parametrize("operations", OPERATIONS)
def test_the_note_of_an_earlier_deletion_says_nothing_of_one_that_was_not_begun(life: Life, operations: int) -> None:
    """Nothing was put between the two: both end at the same offset."""
    life.put(machine_messages.Row(("made", 0), keys=("k1",)))
    life.delete_topic("made")
    life.create_topic("made", 1)
    delete_and_die(life, "made", operations)
    if not operations:
        assert "made" in life.model.topics
    life.end(machine_messages.Opening())


def test_a_round_of_retention_that_failed_may_have_removed_segments(life: Life) -> None:
    """The store takes no puts after that, and is read from where its log now begins."""
    life.put_many([machine_messages.Row(("orders", 0), 700)] * 12)
    life.round("flush_queues")
    life.clock.at_ms += 7_200_000
    life.disk.fails_syncs_of = "flightlog/progress"
    life.clean_up(1, after_rounds=False)
    assert life.is_poisoned
    assert inside.log(life.it).reader.min_offset > life.model.start == 0
    life.ask(random.Random(0))
    life.end(machine_messages.Opening())
