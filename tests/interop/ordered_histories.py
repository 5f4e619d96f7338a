"""Random histories of groups that pop in order, made as those of pop_histories.py.

All pop from one queue, in one of two ways: with a message that comes again, a broker hands out all that is behind it,
also what was acknowledged, and forgets attempts; ours hands that message out alone.

- "o1", "o5", … pop one message at a time, which may come again.
- "o3", "o7", … pop several, which are invisible for longer than the history lasts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from flightlog.tests.interop.pop_histories import LONG_MS, MESSAGES, SHORT_MS, Order, Wave

PAUSE_MS = SHORT_MS + 1000


@dataclass
class OrderedModel:
    """What a group may do next."""

    name: str
    dice: random.Random
    end: int = 0
    """One past what was popped."""
    held: dict[int, int] = field(default_factory=dict)
    """For how long each is invisible."""
    late: set[int] = field(default_factory=set)
    """Visible again. Their handles are over."""
    acked: dict[int, int] = field(default_factory=dict)
    replaced: set[int] = field(default_factory=set)
    """Held, and changed in this wave: the old handle is there, too."""
    last: tuple[str | int, ...] = ()
    """The pop that has what is held, if it may be made again: nothing was acknowledged or changed since."""
    attempts: int = 0

    @property
    def is_single(self) -> bool:
        return int(self.name[1:]) % 4 == 1

    def wave(self, number: int, count: int) -> tuple[Order, ...]:
        made = tuple(Order(self.name, number, self._any()) for _ in range(count))
        self._pass_time()
        return made

    def _any(self) -> tuple[str | int, ...]:
        actions = [self._pop]
        actions += [self._pop] * (2 * (not self.held))
        actions += [self._ack, self._ack, self._ack, self._change] * bool(self.held)
        actions += [self._ack_late, self._change_late] * bool(self.late)
        actions += [self._ack_again] * bool(self.acked)
        actions += [self._ack_replaced] * bool(self.replaced)
        actions += [self._pop_again] * bool(self.last)
        return self.dice.choice(actions)()

    def _invisible_ms(self) -> int:
        return self.dice.choice((SHORT_MS, SHORT_MS, LONG_MS)) if self.is_single else LONG_MS

    def _pop(self) -> tuple[str | int, ...]:
        """Nothing comes while something is held."""
        self.attempts += 1
        count = 1 if self.is_single else self.dice.randrange(1, 6)
        words: tuple[str | int, ...] = ("pop", count, self._invisible_ms(), f"attempt-{self.attempts}")
        if self.dice.random() < 0.3:
            words = words[:3]
        if not self.held:
            taken = sorted(self.late) or range(self.end, min(self.end + count, MESSAGES))
            self.held = dict.fromkeys(taken, int(words[2]))
            self.late.clear()
            self.end = max([self.end, *(number + 1 for number in self.held)])
            self.last = words if len(words) > 3 and self.held else ()
        return words

    def _pop_again(self) -> tuple[str | int, ...]:
        """The last receive once more, as a client makes it whose answer was lost."""
        self.held = dict.fromkeys(self.held, int(self.last[2]))
        return self.last

    def _ack(self) -> tuple[str | int, ...]:
        number = self.dice.choice(sorted(self.held))
        self.acked[number] = self.held.pop(number)
        self.last = ()
        return "ack", str(number)

    def _ack_again(self) -> tuple[str | int, ...]:
        return "ack", str(self.dice.choice(sorted(self.acked)))

    def _ack_late(self) -> tuple[str | int, ...]:
        return "ack", str(self.dice.choice(sorted(self.late)))

    def _ack_replaced(self) -> tuple[str | int, ...]:
        """Its message may be acknowledged by now."""
        number = self.dice.choice(sorted(self.replaced))
        if number in self.held:
            self.acked[number] = self.held.pop(number)
        self.last = ()
        return "ack", f"{number}'"

    def _change(self) -> tuple[str | int, ...]:
        number = self.dice.choice(sorted(self.held))
        self.held[number] = self._invisible_ms()
        self.replaced.add(number)
        self.last = ()
        return "change", str(number), self.held[number]

    def _change_late(self) -> tuple[str | int, ...]:
        return "change", str(self.dice.choice(sorted(self.late))), SHORT_MS

    def _pass_time(self) -> None:
        over = {number for number, invisible_ms in self.held.items() if invisible_ms == SHORT_MS}
        for number in over:
            del self.held[number]
        self.late |= over
        self.acked = {number: ms for number, ms in self.acked.items() if ms != SHORT_MS}
        self.replaced.clear()
        if over:
            self.last = ()


def ordered_history(seed: int, groups: int, waves: int, *, restarts: float = 0.0) -> list[Wave]:
    """`restarts`: how likely one is after each wave."""
    dice = random.Random(seed)
    models = [OrderedModel(f"o{2 * number + 1}", random.Random(dice.random())) for number in range(groups)]
    made = []
    for number in range(waves):
        orders = tuple(model.wave(number, dice.randrange(4, 12)) for model in models)
        made.append(Wave(orders, {}, dice.random() < restarts, PAUSE_MS))
    made.append(Wave(tuple(model.wave(waves, 1) for model in models), {}, False))
    return made
