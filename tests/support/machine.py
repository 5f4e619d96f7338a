"""The state machine: Hypothesis chooses the steps of a life, and makes a life that went wrong as short as it can."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flightlog.tests.support import machine_messages as messages
from flightlog.tests.support.machine_life import Life
from flightlog.tests.support.machine_messages import Geometry, Opening, Row

Dice = st.randoms(use_true_random=False)
SYNCED = ("commitlog", "consumequeue", "index", "checkpoint", "flightlog/progress", "deleted-topics", "topics.json")
ROUNDS = ("flush", "dispatch", "flush_queues", "flush_index")
CLOCK_STEPS_MS = (1, 999, 60_000, 3_600_000, 7_200_000, -700)


class StoreMachine(RuleBasedStateMachine):
    """One store and its life. Preconditions keep the rules to what makes sense in the mood that the store is in."""

    folder: Path
    """Where stores are made; set by whoever runs it."""
    count: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self._root = Path(tempfile.mkdtemp(dir=self.folder))
        self._life: Life | None = None
        self._went_wrong = False
        self.count["examples"] += 1

    @property
    def life(self) -> Life:
        assert self._life is not None
        return self._life

    def _do(self, step: Callable[[], None], *, opens: bool = False) -> None:
        """A step, which `opens` the store first if the last one left it shut."""
        self.count["steps"] += 1
        try:
            if opens and not self.life.is_open:
                self.life.open(self._opening)
            step()
        except BaseException:
            self._went_wrong = True
            raise

    def teardown(self) -> None:
        try:
            if self._life is not None and not self._went_wrong:
                self._life.end(Opening())
        finally:
            if self._life is not None:
                self._life.release()
            shutil.rmtree(self._root)

    def is_open(self) -> bool:
        return self._life is not None and self._life.is_open

    def is_shut(self) -> bool:
        return self._life is not None and not self._life.is_open

    def is_well(self) -> bool:
        return self.is_open() and self.life.is_well

    def is_full(self) -> bool:
        return self.is_open() and self.life.disk.full_after is not None

    @initialize(geometry=messages.geometries, opening=messages.openings)
    def begin(self, geometry: Geometry, opening: Opening) -> None:
        self._opening = opening
        self._life = Life(self._root / "store", geometry, opening)

    # -- writing

    @rule(row=messages.rows)
    def put(self, row: Row) -> None:
        self._do(lambda: self.life.put(row), opens=True)

    @rule(row=messages.rows, less=st.sampled_from((0, 1, -1)))
    def put_filling(self, row: Row, less: int) -> None:
        self._do(lambda: self.life.put_filling(row, less), opens=True)

    @rule(rows=st.lists(messages.rows, min_size=1, max_size=4), times=st.sampled_from((1, 1, 2, 8)))
    def put_many(self, rows: list[Row], times: int) -> None:
        self._do(lambda: self.life.put_many(rows * times), opens=True)

    @rule(rows=st.lists(messages.rows, min_size=1, max_size=3))
    def put_async(self, rows: list[Row]) -> None:
        self._do(lambda: self.life.put_async(rows), opens=True)

    @rule(
        topic=st.sampled_from(("orders", "made")),
        rows=st.lists(messages.rows, max_size=4),
        times=st.sampled_from((1, 1, 8)),
    )
    def append_columns(self, topic: str, rows: list[Row], times: int) -> None:
        self._do(lambda: self.life.append_columns(topic, rows * times), opens=True)

    @rule(rows=st.lists(messages.batch_rows, min_size=1, max_size=5))
    def put_batch(self, rows: list[Row]) -> None:
        self._do(lambda: self.life.put_batch(rows), opens=True)

    @rule(rows=st.lists(messages.rows, max_size=2))
    def put_what_does_not_fit(self, rows: list[Row]) -> None:
        large = Row(("orders", 0), size=5000 * self.life.geometry.segment_pages)
        self._do(lambda: self.life.put_many([*rows, large]), opens=True)

    # -- asking

    @rule(dice=Dice)
    def ask(self, dice: random.Random) -> None:
        self._do(lambda: self.life.ask(dice), opens=True)

    @precondition(is_well)
    @rule(key=st.sampled_from((("orders", 0), ("orders", 1), ("made", 0), ("nobody", 0))))
    def read_on(self, key: tuple[str, int]) -> None:
        self._do(lambda: self.life.read_on(key))

    @rule(dice=Dice, how=st.sampled_from(("look", "look", "ask_view", "close_view")))
    def look(self, dice: random.Random, how: str) -> None:
        self._do(lambda: self.life.close_view() if how == "close_view" else getattr(self.life, how)(dice))

    @precondition(is_well)
    @rule()
    def verify(self) -> None:
        self._do(self.life.verify)

    # -- rounds, topics, retention

    @rule(which=st.sampled_from(ROUNDS))
    def a_round(self, which: str) -> None:
        self._do(lambda: self.life.round(which), opens=True)

    @rule(by_ms=st.sampled_from(CLOCK_STEPS_MS))
    def time_goes_by(self, by_ms: int) -> None:
        self.life.clock.at_ms += by_ms

    @precondition(is_well)
    @rule(name=st.sampled_from(messages.TOPICS), queues=st.integers(1, 4))
    def create_topic(self, name: str, queues: int) -> None:
        self._do(lambda: self.life.create_topic(name, queues))

    @precondition(is_well)
    @rule(
        name=st.sampled_from(messages.TOPICS),
        read_queues=st.integers(0, 4),
        write_queues=st.integers(0, 4),
        perm=st.sampled_from((6, 6, 2, 4)),
    )
    def update_topic(self, name: str, read_queues: int, write_queues: int, perm: int) -> None:
        self._do(lambda: self.life.update_topic(name, read_queues, write_queues, perm))

    @precondition(is_well)
    @rule(name=st.sampled_from(messages.TOPICS))
    def delete_topic(self, name: str) -> None:
        self._do(lambda: self.life.delete_topic(name))

    @precondition(is_well)
    @rule(hours=st.sampled_from((0, 1, 2)), after_rounds=st.booleans())
    def clean_up(self, hours: int, *, after_rounds: bool) -> None:
        self._do(lambda: self.life.clean_up(hours, after_rounds=after_rounds))

    # -- disks and ends

    @precondition(is_well)
    @rule(trouble=st.sampled_from(("full", "dying", *SYNCED)), count=st.integers(0, 25))
    def get_into_trouble(self, trouble: str, count: int) -> None:
        """The disk has room for so many more allocations, or the process for so many operations, or syncs fail."""
        if trouble == "full":
            self.life.disk.full_after = count // 3
        elif trouble == "dying":
            self.life.disk.die_after = count
        else:
            self.life.disk.fails_syncs_of = trouble

    @precondition(is_full)
    @rule()
    def make_room(self) -> None:
        self._do(self.life.make_room)

    @precondition(is_open)
    @rule(seed=st.integers(0, 1 << 16))
    def write_back(self, seed: int) -> None:
        """The kernel writes some sectors of some file."""
        self.life.disk.write_back(random.Random(seed))

    @precondition(is_open)
    @rule(how=st.sampled_from(("close", "end_process")), opening=messages.openings)
    def end_session(self, how: str, opening: Opening) -> None:
        self._opening = opening
        self._do(getattr(self.life, how))

    @rule(seed=st.integers(0, 1 << 16))
    def cut_the_power(self, seed: int) -> None:
        self._do(lambda: self.life.cut(seed))

    @precondition(is_shut)
    @rule(opening=messages.openings, die_after=st.sampled_from((None, None, None, 3, 7, 15, 30, 50)))
    def open(self, opening: Opening, die_after: int | None) -> None:
        """As what it is opened from now on, until another one comes."""
        self._opening = opening
        self._do(lambda: self.life.open(opening, die_after))


def machine_in(folder: Path, **changes: Any) -> type[StoreMachine]:
    """A machine whose stores are made in this folder."""
    count = {"examples": 0, "steps": 0}
    return type("StoreMachineHere", (StoreMachine,), {"folder": folder, "count": count, **changes})
