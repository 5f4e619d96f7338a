"""Random messages of every kind, small enough that a few of them fill a segment."""

from __future__ import annotations

import random
from collections.abc import Callable

from flightlog import Message

QUEUES = (("orders", 0), ("orders", 0), ("orders", 1), ("orders", 2), ("täg-テスト", 0), ("%RETRY%" + "g" * 130, 7))
"""Most go to the first topic; the last one has more than 127 bytes, which makes a record of the second version."""
TAGS = (None, "A", "Aa", "BB", "AaAa", "AaBB", "BBBB", "ä")
"""Aa and BB have one Java hash; so have those made of two of them."""
KEYS = ("Aa", "BB", "AaBB", "BBAa", "k1", "k2", "ключ", "k" * 40)
TRANSACTIONS = (0, 0, 0, 0, 0, 0, 8, 4, 12)
"""None and commit stand in queues; prepared and rollback do not."""
HOSTS = (None, ("10.0.0.7", 4711), ("::1", 65535), ("2001:db8::8:800:200c:417a", 0))


class MessageMaker:
    """Messages 0, 1, 2, … of one seed."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._number = 0
        self.uniq_keys: list[str] = []

    def message(self) -> Message:
        dice, number = self._dice, self._number
        self._number += 1
        size = dice.choice((0, 1, 30, 200)) + dice.randrange(40)
        topic, queue_id = dice.choice(QUEUES)
        return Message(
            topic=topic,
            queue_id=queue_id,
            body=b"%d " % number + dice.randbytes(size),
            tags=dice.choice(TAGS),
            keys=dice.choices(KEYS, k=dice.choice((0, 1, 1, 2, 3))),
            uniq_key=self._uniq_key(number),
            properties={"a": "ü" * dice.randrange(1, 9)} if dice.random() < 0.2 else None,
            flag=dice.choice((0, 0, -1, 1 << 30)),
            sys_flag=dice.choice(TRANSACTIONS) | dice.choice((0, 0, 1, 2)),
            born_timestamp_ms=dice.choice((None, None, 1_700_000_000_000 + number)),
            born_host=dice.choice(HOSTS),
            reconsume_times=dice.choice((0, 0, 16)),
            prepared_transaction_offset=dice.choice((0, 0, 1 << 40)),
        )

    def _uniq_key(self, number: int) -> str | None:
        dice = self._dice
        kind = dice.random()
        if kind < 0.2:
            return None
        if kind < 0.3:
            return dice.choice(KEYS)
        if kind < 0.4 and self.uniq_keys:
            return dice.choice(self.uniq_keys)  # a sender that did not wait for the answer
        self.uniq_keys.append(f"U{number:06d}")
        return self.uniq_keys[-1]

    def some_key(self) -> str:
        """A key to ask for, which some message may have or none."""
        dice = self._dice
        kind = dice.random()
        if kind < 0.1:
            return "nobody's"
        return dice.choice(self.uniq_keys) if self.uniq_keys and kind < 0.4 else dice.choice(KEYS)

    def filling(self, room: int, size_of: Callable[[Message], int]) -> Message:
        """A message whose record and the filler behind it need `room` bytes, or one less or one more, if it can be."""
        message = self.message()
        wanted = room - 8 - size_of(message) + self._dice.choice((-1, 0, 0, 1))
        if wanted >= 0:
            message.body += bytes(wanted)
        return message
