"""A store with everything in it that a broker may have to take over, one turn at a time.

`python everything.py FOLDER TURN small|default [--kill] [--49]` adds a turn's messages, groups and debts, and closes
the store, or dies. Bodies are `TURN KIND NUMBER`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import flightlog
from flightlog import CompressionType, Message, Producer, Store, StoreSettings

SETTINGS = {"small": StoreSettings.small(), "default": StoreSettings()}
QUEUES = 4
ORDERS, READ, READ_IN_ORDER = 120, 50, 30
STEPS = 20
FAILED, DOOMED = 3, 2
POPPED, TAKEN, ACKNOWLEDGED = 24, 10, 4
INVISIBLE_MS = 20_000
DUE_MS = 15_000
"""So long after the put timers are due: at the broker."""
TIMERS, LEVELS = 3, 3
HALF = 2
KINDS: tuple[dict[str, object], ...] = (
    {},
    {"tags": "new", "keys": ["order-7", "customer-3"]},
    {"properties": {"region": "Grüße, 北京"}, "flag": 7},
    {"compress": CompressionType.ZLIB},
    {"uniq_key": "7F000001ABCD18B4AAC20000", "born_timestamp_ms": 1_700_000_000_000},
    {"born_host": ("10.1.2.3", 4321), "keys": "k"},
)


def orders(turn: int) -> Iterator[Message]:
    for number in range(ORDERS):
        body = f"{turn} order {number}".encode() + b" " * (60_000 if number % 40 == 20 else 0)
        yield Message("orders", body, queue_id=number % QUEUES, **KINDS[number % len(KINDS)])  # type: ignore[arg-type]


def fill(store: Store, turn: int, beside: Path, *, is_49: bool = False) -> None:
    """Add a turn; notes go into the folder `beside`. What groups were owed from earlier turns must have been read."""
    for topic in ("orders", "steps", "popped", "retried", "doomed", "delayed", "packed", "paid"):
        if store.topic(topic) is None:
            store.create_topic(topic, QUEUES if topic == "orders" else 2)
    for message in orders(turn):
        store.put(message)
    _read(store, "concurrent", "orders", READ)
    _read(store, "ordered", "orders", READ_IN_ORDER, is_ordered=True)
    for topic, count in (("steps", STEPS), ("retried", FAILED), ("doomed", DOOMED)):
        for number in range(count):
            store.put(Message(topic, f"{turn} {topic} {number}".encode(), queue_id=number % 2))
    with store.subscribe("retried", "retrier", idle_s=0) as member:
        for received in member:
            assert received.send_back()
    with store.subscribe("doomed", "failing", idle_s=0, max_attempts=1) as member:
        for received in member:
            assert received.send_back()
    for number in range(LEVELS):
        store.put(Message("delayed", f"{turn} level {number}".encode(), delay_level=1 + number))
    if not is_49:
        _fill_newer(store, turn, beside / f"acknowledged-{turn}")


def _fill_newer(store: Store, turn: int, acknowledged: Path) -> None:
    """What 4.9 knows nothing of, and transactions. The two compressions are known to Java's clients alone. Bodies that
    were acknowledged after a pop go into a file."""
    for number in range(POPPED):
        store.put(Message("popped", f"{turn} popped {number}".encode(), queue_id=number % 2))
    taken = store.receive("popper", "popped", TAKEN, invisible_ms=INVISIBLE_MS)
    assert len(taken) == TAKEN
    store.ack(*(each.handle for each in taken[:ACKNOWLEDGED]))
    acknowledged.write_text("".join(f"{each.message.body.decode()}\n" for each in taken[:ACKNOWLEDGED]))
    for compression in (CompressionType.LZ4, CompressionType.ZSTD):
        store.put(Message("packed", f"{turn} packed".encode() * 100, compress=compression))
    due_ms = time.time_ns() // 1_000_000 + DUE_MS
    for number in range(TIMERS):
        store.put(Message("delayed", f"{turn} timer {number}".encode()).deliver_at_ms(due_ms + number))
    store.put(Message("delayed", f"{turn} overdue 0".encode()).deliver_after_ms(1))
    store.put(
        Message("delayed", f"{turn} cancelled 0".encode(), uniq_key=f"cancelled-{turn}").deliver_at_ms(due_ms - 999)
    )
    store.cancel_timer("delayed", f"cancelled-{turn}", due_ms - 999)
    producer = Producer(store, producer_group="payers")
    producer.transaction(Message("paid", f"{turn} paid committed".encode())).commit()
    producer.transaction(Message("paid", f"{turn} paid rolled back".encode())).rollback()
    for number in range(HALF):
        producer.transaction(Message("paid", f"{turn} paid half {number}".encode())).unknown()


def _read(store: Store, group: str, topic: str, count: int, *, is_ordered: bool = False) -> None:
    with store.subscribe(topic, group, idle_s=0, ordered=is_ordered) as member:
        for message in islice(member, count):
            assert message.ack()


def read_all(store: Store, group: str, topic: str, *, is_ordered: bool = False) -> list[str]:
    """What the group is owed here, acknowledged."""
    found = []
    with store.subscribe(topic, group, idle_s=0, ordered=is_ordered) as member:
        for message in member:
            found.append(message.body.decode().rstrip())
            assert message.ack()
    return sorted(found)


def main() -> None:
    path, turn, size, *rest = sys.argv[1:]
    store = flightlog.open(Path(path), SETTINGS[size])
    fill(store, int(turn), Path(path).parent, is_49="--49" in rest)
    if "--kill" in rest:
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()


if __name__ == "__main__":
    main()
