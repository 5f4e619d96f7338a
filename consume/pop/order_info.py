"""Who has which messages of one queue that a group pops in order: RocketMQ's `OrderInfo`, and its JSON.

    popTime  when they were popped, ms          o   queue offsets: of the first message, then distances from it
    i        invisible time, ms                 cm  bit n: the nth message is acknowledged
    l        when this was last popped, ms      oc  queue offset -> deliveries before this pop, if there were any
    a        attempt id of the receive          ot  queue offset -> when it is visible, if that is not popTime + i
    flightlogUncounted  queue offsets whose deliveries by this pop count no attempt; ours, which a broker passes over

The queue is blocked while one of the messages is invisible and not acknowledged. A message that the last pop left where
it was has the time 0 in `ot`, so that it blocks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from .json_words import json_text, json_whole

UNCOUNTED: Final = "flightlogUncounted"
NOT_HANDED_OUT: Final = 0
"""In place of a time in `ot`."""
MAX_COUNT: Final = 64
"""Bits of `cm`."""


@dataclass(frozen=True)
class OrderInfo:
    """One pop of a queue, and what became of its messages since. Immutable."""

    pop_time_ms: int
    invisible_ms: int = 0
    offsets: tuple[int, ...] = ()
    """Ascending."""
    acked: frozenset[int] = frozenset()
    visible_ms: Mapping[int, int] = field(default_factory=dict)
    delivered: Mapping[int, int] = field(default_factory=dict)
    attempt_id: str | None = None
    last_ms: int = 0
    """What the clock said at the pop. `pop_time_ms` may be ahead of it: it differs from that of every earlier pop."""
    uncounted: frozenset[int] = frozenset()
    """Offsets whose deliveries by this pop count no attempt."""

    @property
    def waiting(self) -> tuple[int, ...]:
        """Offsets that are not acknowledged."""
        return tuple(offset for offset in self.offsets if offset not in self.acked)

    @property
    def handed_out(self) -> tuple[int, ...]:
        """The offsets of `waiting` that the pop handed out."""
        return tuple(offset for offset in self.waiting if self.visible_ms.get(offset) != NOT_HANDED_OUT)

    @property
    def next_offset(self) -> int:
        """Where the group goes on."""
        return next(iter(self.waiting), self.offsets[-1] + 1 if self.offsets else 0)

    @property
    def popped_ms(self) -> int:
        """Nothing that was done about the messages of this pop has an earlier time."""
        return min(self.pop_time_ms, self.last_ms or self.pop_time_ms)

    @property
    def blocked_until_ms(self) -> int:
        return max(map(self.until_ms, self.waiting), default=0)

    def until_ms(self, offset: int) -> int:
        """When this message becomes visible."""
        return self.visible_ms.get(offset, self.pop_time_ms + self.invisible_ms)

    def deliveries(self, offset: int) -> int:
        """How many deliveries of this message count as attempts, including this pop."""
        is_counted = self.visible_ms.get(offset) != NOT_HANDED_OUT and offset not in self.uncounted
        return self.delivered.get(offset, 0) + is_counted

    def with_acked(self, offsets: Iterable[int]) -> Self:
        return replace(self, acked=self.acked.union(offsets))

    def with_visible(self, offset: int, until_ms: int, *, is_counted: bool = True) -> Self:
        uncounted = self.uncounted - {offset} if is_counted else self.uncounted | {offset}
        return replace(self, visible_ms={**self.visible_ms, offset: until_ms}, uncounted=uncounted)

    def popped_again(
        self, handed_out: Iterable[int], pop_time_ms: int, invisible_ms: int, attempt_id: str | None, last_ms: int
    ) -> OrderInfo:
        """These messages are handed out once more, and the others wait for their turn. A receive with the attempt id of
        the last one takes its place: it counts no attempt."""
        handed = frozenset(handed_out)
        is_repeat = attempt_id is not None and attempt_id == self.attempt_id
        offsets = tuple(offset for offset in self.offsets if offset >= self.next_offset)
        delivered = {
            offset: self.delivered.get(offset, 0) if is_repeat and offset in handed else self.deliveries(offset)
            for offset in self.waiting
        }
        return OrderInfo(
            pop_time_ms,
            invisible_ms,
            offsets,
            self.acked.intersection(offsets),
            {offset: NOT_HANDED_OUT for offset in self.waiting if offset not in handed},
            {offset: count for offset, count in delivered.items() if count},
            attempt_id,
            last_ms,
        )

    def cleared(self) -> OrderInfo:
        """Nothing is popped: the group goes on elsewhere. Later pops have a later time all the same."""
        return OrderInfo(self.pop_time_ms, last_ms=self.last_ms)

    def to_json(self) -> dict[str, Any]:
        first = self.offsets[0] if self.offsets else 0
        found: dict[str, Any] = {} if self.attempt_id is None else {"a": self.attempt_id}
        bits = sum(1 << number for number, offset in enumerate(self.offsets) if offset in self.acked)
        found |= {
            "cm": bits - (1 << MAX_COUNT) if bits >> (MAX_COUNT - 1) else bits,  # Java's long
            "i": self.invisible_ms,
            "l": self.last_ms,
            "o": [first, *(offset - first for offset in self.offsets[1:])] if self.offsets else [],
        }
        for name, table in (("oc", self.delivered), ("ot", self.visible_ms)):
            if table:
                found[name] = {str(offset): value for offset, value in table.items()}
        if self.uncounted:
            found[UNCOUNTED] = sorted(self.uncounted)
        return found | {"popTime": self.pop_time_ms}

    @classmethod
    def from_json(cls, found: object) -> Self:
        """Raises ValueError for what is none."""
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__}")
        given = found.get("o") or []
        if not isinstance(given, list) or len(given) > MAX_COUNT or not all(map(_is_offset, given)):
            raise ValueError(f"the offsets {str(given)[:100]}")
        offsets = (*given[:1], *(given[0] + distance for distance in given[1:]))
        if sorted(set(offsets)) != list(offsets):
            raise ValueError(f"the offsets {str(given)[:100]}")
        uncounted = found.get(UNCOUNTED) or []
        if not isinstance(uncounted, list) or not all(map(_is_offset, uncounted)):
            raise ValueError(f"{UNCOUNTED}: {str(uncounted)[:100]}")
        bits = json_whole(found, "cm")
        return cls(
            json_whole(found, "popTime"),
            json_whole(found, "i") if found.get("i") is not None else 0,
            offsets,
            frozenset(offset for number, offset in enumerate(offsets) if bits >> number & 1),
            _table_of(found, "ot", offsets),
            _table_of(found, "oc", offsets),
            json_text(found, "a") if found.get("a") else None,
            json_whole(found, "l"),
            frozenset(offsets).intersection(uncounted),
        )


def _table_of(found: Mapping[str, Any], name: str, offsets: tuple[int, ...]) -> dict[int, int]:
    """Offset -> number; what says something of other offsets is left out."""
    table = found.get(name) or {}
    if not isinstance(table, dict) or not all(key.isdecimal() and _is_offset(table[key]) for key in table):
        raise ValueError(f"{name}: {str(table)[:100]}")
    return {int(key): value for key, value in table.items() if int(key) in offsets}


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
