"""The orders of the demo, and the check that the messages of each are in order.

An order has a key and three steps: create, pay, deduct. All its messages go to the same queue, which keeps them in
order among those of other orders. A finished order is shipped: one message to a second topic.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...store.message import Message
from ...store.stored_message import StoredMessage

TOPIC = "orders"
SHIPPED_TOPIC = "parcels"
STEPS = ("create", "pay", "deduct")
SHIP = "ship"
QUEUES = 4
ORDERS_IN_FLIGHT = 8

Step = tuple[str, str]
"""(key, step)."""


def order_messages(thread: int, threads: int) -> Iterator[tuple[Step, Message]]:
    """The orders of one thread, endless, several in flight at a time. The thread's number is the random seed."""
    draw = random.Random(thread)
    next_order = thread
    in_flight: list[list[int]] = []
    while True:
        while len(in_flight) < ORDERS_IN_FLIGHT:
            in_flight.append([next_order, 0])
            next_order += threads
        order = draw.choice(in_flight)
        number, done = order
        yield _message(number, STEPS[done])
        order[1] += 1
        if order[1] == len(STEPS):
            in_flight.remove(order)
            yield _message(number, SHIP)


def _message(number: int, step: str) -> tuple[Step, Message]:
    key = f"order-{number:08d}"
    topic = SHIPPED_TOPIC if step == SHIP else TOPIC
    body = json.dumps({"order": number, "step": step, "amount_cents": 100 + number * 7 % 100_000}).encode()
    return (key, step), Message(topic, body, tags=step, keys=key, queue_id=zlib.crc32(key.encode()) % QUEUES)


@dataclass
class OrderCheck:
    """Receives every message, queue by queue, and then knows which orders are complete and which are out of order."""

    steps: dict[str, list[str]] = field(default_factory=dict)
    """Key -> its steps, in queue order."""
    queues: dict[str, int] = field(default_factory=dict)
    """Key -> queue id."""
    strays: set[str] = field(default_factory=set)
    """Keys that were seen in two queues."""
    messages: Counter[str] = field(default_factory=Counter)
    """Number of messages in each topic."""

    def feed(self, messages: Iterable[StoredMessage]) -> None:
        """Add the messages of one queue, in order of their queue offsets."""
        for message in messages:
            self.messages[message.topic] += 1
            if message.topic != TOPIC:
                continue
            [key] = message.keys
            self.steps.setdefault(key, []).append(str(message.tags))
            if self.queues.setdefault(key, message.queue_id) != message.queue_id:
                self.strays.add(key)

    @property
    def out_of_order(self) -> list[str]:
        """Keys whose steps are not the first of create, pay, deduct in this order, or are in several queues."""
        wrong = {key for key, steps in self.steps.items() if tuple(steps) != STEPS[: len(steps)]}
        return sorted(wrong | self.strays)

    @property
    def whole(self) -> int:
        """Number of orders with all steps."""
        return sum(len(steps) == len(STEPS) for steps in self.steps.values())
