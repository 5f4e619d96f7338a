"""A store with everything in it that a broker may have to take over, one turn at a time.

`python everything.py FOLDER BESIDE TURN small|default close|kill|cut [--49]` adds a turn's messages, groups and debts,
and closes the store, dies, or has its power cut: nothing more reaches the file system that FOLDER lies in then. Bodies
are `TURN KIND NUMBER`. Notes, and the offsets of members that broadcast, go into the folder BESIDE.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import flightlog
from flightlog import CompressionType, FlushMode, Message, Producer, Store, StoreSettings
from flightlog.tests.support.cut_fate import cut_power

SETTINGS = {"small": StoreSettings.small(), "default": StoreSettings()}
CLOSE, KILL, CUT = "close", "kill", "cut"
QUEUES = 4
ORDERS, READ, READ_IN_ORDER, READ_BY_ALL = 120, 50, 30, 40
MEMBER = "127.0.0.1@caches"
"""The client id of the member that broadcasts, and so the name of its folder, as RocketMQ's clients have it."""
STEPS, POPPED_IN_ORDER = 20, 6
FAILED, DOOMED = 3, 2
POPPED, TAKEN, ACKNOWLEDGED = 24, 10, 4
POPPERS = ("popper", "java-popper")
"""Groups that pop here, and at the broker by RocketMQ's Python and Java clients."""
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


def settings_of(size: str, ending: str) -> StoreSettings:
    """A store whose power will be cut has everything on the disk that it acknowledges."""
    return replace(SETTINGS[size], flush_mode=FlushMode.SYNC) if ending == CUT else SETTINGS[size]


def local_folder(beside: Path) -> Path:
    """The `localOffsetStoreDir` of RocketMQ's Java clients: it has the offsets of members that broadcast."""
    return beside / "local-offsets"


def fill(store: Store, turn: int, beside: Path, *, is_49: bool = False) -> None:
    """Add a turn. What groups were owed from earlier turns must have been read."""
    for topic in ("orders", "steps", "popped", "retried", "doomed", "delayed", "packed", "paid", "replies"):
        if store.topic(topic) is None:
            store.create_topic(topic, QUEUES if topic == "orders" else 2)
    for message in orders(turn):
        store.put(message)
    _read(store, "concurrent", "orders", READ)
    _read(store, "ordered", "orders", READ_IN_ORDER, is_ordered=True)
    _read(store, "caches", "orders", READ_BY_ALL, broadcast_folder=local_folder(beside) / MEMBER)
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
        _fill_newer(store, turn, beside)


def _fill_newer(store: Store, turn: int, beside: Path) -> None:
    """What 4.9 knows nothing of, and transactions. The two compressions are known to Java's clients alone."""
    for number in range(POPPED):
        store.put(Message("popped", f"{turn} popped {number}".encode(), queue_id=number % 2))
    for group in POPPERS:
        _pop(store, group, "popped", TAKEN, acknowledged_file(beside, group, turn), ACKNOWLEDGED)
    store.update_group("step-popper", is_ordered=True)
    _pop(store, "step-popper", "steps", POPPED_IN_ORDER, acknowledged_file(beside, "step-popper", turn))
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


def acknowledged_file(beside: Path, group: str, turn: int) -> Path:
    """Has the bodies, one a line, that the group acknowledged after a pop."""
    return beside / f"acknowledged-{group}-{turn}"


def _pop(store: Store, group: str, topic: str, count: int, note: Path, acknowledged: int | None = None) -> None:
    taken = store.receive(group, topic, count, invisible_ms=INVISIBLE_MS)
    assert len(taken) == count
    store.ack(*(each.handle for each in taken[:acknowledged]))
    note.write_text("".join(f"{each.message.body.decode()}\n" for each in taken[:acknowledged]))


def _read(
    store: Store, group: str, topic: str, count: int, *, is_ordered: bool = False, broadcast_folder: Path | None = None
) -> None:
    with store.subscribe(topic, group, idle_s=0, ordered=is_ordered, broadcast_folder=broadcast_folder) as member:
        for message in islice(member, count):
            assert message.ack()


def read_all(
    store: Store, group: str, topic: str, *, is_ordered: bool = False, broadcast_folder: Path | None = None
) -> list[str]:
    """What the group is owed here, acknowledged."""
    found = []
    with store.subscribe(topic, group, idle_s=0, ordered=is_ordered, broadcast_folder=broadcast_folder) as member:
        for message in member:
            found.append(message.message.decompressed_body().decode().rstrip())
            assert message.ack()
    return sorted(found)


def main() -> None:
    path, beside, turn, size, ending, *rest = sys.argv[1:]
    store = flightlog.open(Path(path), settings_of(size, ending))
    fill(store, int(turn), Path(beside), is_49="--49" in rest)
    if ending == CUT:
        mounted = os.open(Path(path).parent, os.O_RDONLY)
        cut_power(mounted)
    if ending in (CUT, KILL):
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()


if __name__ == "__main__":
    main()
