"""Messages 0, 1, 2, … that say by their keys which they are, over index files of a few keys each.

Number i lies in topic t(i % 2) and has the uniq key `u<i>` and the keys `k<i>` and `g<i % 4>`. Every fifth has no key
at all; some are prepared, which are found by their keys, and some rolled back, which are not.
"""

from __future__ import annotations

from typing import Any

from flightlog import Message, ReadOnlyStore, Store, StoredMessage, StoreSettings
from flightlog.tests.support import inside

NEVER_MS = 3_600_000
SLOTS, ENTRIES = 5, 12
PREPARED, ROLLBACK = 4, 12
TOPICS = ("t0", "t1")

Reading = Store | ReadOnlyStore


def settings(**changes: Any) -> StoreSettings:
    """Nothing is dispatched or flushed but what a test asks for."""
    sizes: dict[str, Any] = {
        "segment_size": 4096,
        "queue_file_entries": 10,
        "allocate_step_size": 4096,
        "index_slots": SLOTS,
        "index_entries": ENTRIES,
        "flush_interval_ms": NEVER_MS,
        "index_flush_interval_ms": NEVER_MS,
    }
    return StoreSettings(**(sizes | changes))


def sys_flag(number: int) -> int:
    return PREPARED if number % 7 == 6 else ROLLBACK if number % 11 == 10 else 0


def is_keyed(number: int) -> bool:
    return number % 5 != 4


def message(number: int) -> Message:
    keys = (f"k{number}", f"g{number % 4}") if is_keyed(number) else ()
    return Message(
        TOPICS[number % 2],
        b"%05d" % number + bytes(number % 100),
        keys=keys,
        uniq_key=f"u{number}" if keys else None,
        sys_flag=sys_flag(number),
    )


def messages(start: int, stop: int) -> list[Message]:
    return [message(number) for number in range(start, stop)]


def number_of(found: StoredMessage) -> int:
    return int(found.body[:5])


def key_count(count: int) -> int:
    """How many keys the index has for the first `count` messages."""
    return 3 * sum(is_keyed(i) and sys_flag(i) != ROLLBACK for i in range(count))


def query(store: Reading, topic: str, key: str, **how: Any) -> list[int]:
    """The numbers that are found, all of them."""
    result = store.query(topic, key, max_count=10_000, **how)
    assert not result.has_more
    return [number_of(found) for found in result.messages]


def check(store: Reading, count: int, first: int = 0) -> None:
    """Messages [first, count) and no others are found by every key that they have, each once and newest first."""
    keyed = [i for i in range(first, count) if is_keyed(i) and sys_flag(i) != ROLLBACK]
    for topic in TOPICS:
        for group in range(4):
            wanted = [i for i in reversed(keyed) if TOPICS[i % 2] == topic and i % 4 == group]
            assert query(store, topic, f"g{group}") == wanted, (topic, group)
    for i in range(count + 1):
        for key in (f"u{i}", f"k{i}"):
            assert query(store, TOPICS[i % 2], key) == ([i] if i in keyed else []), key
        assert query(store, TOPICS[(i + 1) % 2], f"k{i}") == []


def flush_index(store: Store) -> None:
    """Bring the index up to the log, and make it durable."""
    store.queues()
    inside.maintenance(store).flush_index()
