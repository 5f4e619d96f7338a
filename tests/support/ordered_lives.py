"""Random lives of a group that receives in order: as popped_lives.py, with attempt ids and dead letters. Of each queue
only the first messages that are not acknowledged may come, to one receiver at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flightlog import Message, PopHandle
from flightlog.consume.pop.pop_errors import ExpiredHandleError
from flightlog.tests.support.popped_lives import INVISIBLE_MS, QUEUES, SETTLE_MS, Fate, PoppedLives

MAX_ATTEMPTS = 2


@dataclass
class OrderedFate(Fate):
    """What is known of one message; what a crash hid of an attempt has no `invisible_until_ms`."""

    queue_id: int = 0
    attempt_id: str = ""


@dataclass
class OrderedLives(PoppedLives):
    """One seed, one history."""

    fates: dict[int, OrderedFate] = field(default_factory=dict)  # type: ignore[assignment]
    attempt_ids: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.popped.store.update_group("g", is_ordered=True)

    # -- what is done

    def put(self) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            number, queue_id = len(self.fates), self.dice.randrange(QUEUES)
            self.popped.store.put(Message("orders", b"%d" % number, queue_id=queue_id))
            self.fates[number] = OrderedFate(queue_id=queue_id)

    def receive(self) -> list[int]:
        """With a new attempt id, or with the last one once more."""
        self.attempt_ids += self.dice.randrange(3) > 0
        return self._receive(self.dice.randrange(1, 9), self.dice.choice(INVISIBLE_MS), f"a-{self.attempt_ids}")

    def _receive(self, max_count: int, invisible_ms: int, attempt_id: str) -> list[int]:
        now_ms = self.popped.clock.at_ms
        messages = self.popped.receive(
            max_count, invisible_ms=invisible_ms, attempt_id=attempt_id, max_attempts=MAX_ATTEMPTS
        )
        dead = self._dead()
        came = {int(each.body) for each in messages}
        for each in messages:
            number = int(each.body)
            fate = self.fates[number]
            is_repeat = fate.attempt_id == attempt_id
            assert not fate.is_acked, f"{number} comes though it was acknowledged"
            assert number not in dead, f"{number} comes though it is a dead letter"
            assert is_repeat or now_ms >= fate.invisible_until_ms, f"{number} comes while it is invisible"
            first = fate.attempts - fate.hidden + (not is_repeat)
            assert first <= each.attempt <= fate.attempts + 1, f"{number}: attempt {each.attempt}, {fate}"
            assert each.attempt <= MAX_ATTEMPTS
            for before in range(number):
                earlier = self.fates[before]
                is_done = earlier.is_acked or earlier.may_be_acked or before in dead or before in came
                assert is_done or earlier.queue_id != fate.queue_id, f"{number} comes before {before}"
            fate.attempts, fate.hidden, fate.may_be_acked = each.attempt, 0, False
            fate.invisible_until_ms, fate.handle, fate.attempt_id = each.invisible_until_ms, each.handle, attempt_id
        for number, fate in self.fates.items():  # a repeated receive leaves the rest of the first one where it was
            if fate.attempt_id == attempt_id and number not in came:
                fate.handle, fate.invisible_until_ms = None, 0
        numbers = [int(each.body) for each in messages]
        for queue_id in range(QUEUES):
            of_queue = [number for number in numbers if self.fates[number].queue_id == queue_id]
            assert of_queue == sorted(of_queue)
        return numbers

    def _dead(self) -> set[int]:
        """The dead letters, each of which is there once."""
        numbers = [int(message.body) for message in self.popped.store.dead_letters("g")]
        assert len(numbers) == len(set(numbers)), f"dead letters that came twice: {numbers}"
        return set(numbers)

    def change(self) -> None:
        for fate, handle in list(self._held())[:1]:
            invisible_ms = self.dice.choice(INVISIBLE_MS)
            try:
                fate.handle = self.popped.store.change_invisible(handle, invisible_ms)
            except ExpiredHandleError:
                assert fate.may_be_acked or fate.invisible_until_ms <= self.popped.clock.at_ms
                fate.handle = None
            else:
                fate.invisible_until_ms = int(fate.handle.extra_info.split(" ")[1]) + int(
                    fate.handle.extra_info.split(" ")[2]
                )

    def _forget(self, call: Callable[[], Any], before: dict[int, tuple[PopHandle | None, bool]]) -> None:
        """What is not known after a crash in the middle of this call."""
        for number, fate in self.fates.items():
            fate.handle, was_acked = before[number]
            if call == self.receive:
                fate.attempts, fate.hidden = fate.attempts + 1, fate.hidden + 1
                if fate.attempt_id == f"a-{self.attempt_ids}":
                    fate.handle, fate.invisible_until_ms = None, 0
            elif call == self.ack:
                fate.may_be_acked = fate.may_be_acked or (fate.handle is not None and not was_acked)
                fate.is_acked = was_acked
            elif call == self.change:
                fate.handle, fate.invisible_until_ms = None, 0

    # -- what must be so in the end

    def settle(self) -> None:
        """Everything that was not acknowledged comes again, once, in order, or is a dead letter."""
        came: list[int] = []
        for _ in range(len(self.fates) + QUEUES):
            self.popped.pass_time(SETTLE_MS)
            self.attempt_ids += 1
            came += self._receive(32, 30_000, f"a-{self.attempt_ids}")
            held = [fate for fate in self.fates.values() if fate.handle is not None]
            for fate in held:
                if not fate.is_acked and fate.invisible_until_ms > self.popped.clock.at_ms:
                    assert fate.handle is not None
                    self.popped.store.ack(fate.handle)
                    fate.is_acked = True
        assert len(came) == len(set(came)), "some came twice"
        dead = self._dead()
        for number, fate in self.fates.items():
            assert fate.is_acked or fate.may_be_acked or number in dead, f"lost: {number}"
            assert not (fate.is_acked and number in dead), f"acknowledged, and a dead letter: {number}"
        self.popped.store.close()
