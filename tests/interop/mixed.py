"""Messages of every kind that flightlog puts, and the words in which RocketMQ's and flightlog's readings are compared.

A message is compared as a line of the harness (see harness.py) cut to the fields that tell what is stored. What is
expected comes from the message that was handed in and from what its put answered, never from a reading.
"""

from __future__ import annotations

import hashlib
import ipaddress
import random
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from flightlog import Message, PutResult, PutStatus, ReadOnlyStore, Store, StoredMessage, StoreSettings
from flightlog.store.format import sys_flag as flags
from flightlog.store.format.java_hash import java_hash
from flightlog.tests.interop.harness import Geometry, Line, OpenResult, QueueName

SEGMENT_SIZE = 64 << 10
QUEUE_ENTRIES = 100
MAX_BODY_SIZE = 60_000  # the largest record then still fits into a segment
SMALL: Geometry = {
    "segment_size": SEGMENT_SIZE,
    "queue_entries": QUEUE_ENTRIES,
    "index_slots": 1000,
    "index_entries": 4000,
}

RETRY = "%RETRY%"
TOPICS = (
    "orders",
    "订单-Übergabe-🚀",
    "V1-" + "x" * 124,  # 127 bytes: the longest that a byte of length is enough for
    RETRY + "g" * 121,  # 128 bytes
    RETRY + "g" * 248,  # 255 bytes
    RETRY + "组" * 60,  # 187 bytes, but 67 characters
)
TAGS = (None, "create", "pay", "TagA || TagB", "标签🏷", "polygenelubricants")
TEXTS = ("created", "выдано", "支付完成", "π ≈ 3.14", "🚀📦", 'line\nline\ttab "quoted" \\')
BORN_HOSTS = (None, ("192.0.2.7", 54321), ("2001:db8::7", 65535), ("::1", 0))
FLAGS = (0, 1, -1, -(1 << 31), (1 << 31) - 1)
TRANSACTIONS = (flags.TRANSACTION_PREPARED, flags.TRANSACTION_COMMIT, flags.TRANSACTION_ROLLBACK)
ZLIB_NAMED = 0x300  # zlib has two numbers: 0 and this one

Place = tuple[str, int, int]
"""Topic, queue id, queue offset."""

DESCRIBED = (
    *("commitLogOffset", "size", "magic", "topic", "queueId", "queueOffset", "flag", "sysFlag", "bornTimestamp"),
    *("bornHost", "storeTimestamp", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyLen", "bodyCRC"),
    *("bodySha1", "keys", "tags", "uniqKey", "msgId", "properties"),
)


def mixed_messages(seed: int) -> Iterator[Message]:
    """Messages without end, the same ones for the same seed; about one in thirty has no queue entry."""
    dice = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield _mixed_message(dice, number)


def _mixed_message(dice: random.Random, number: int) -> Message:
    sys_flag = flags.MULTI_TAGS if dice.random() < 0.1 else 0
    text = dice.choice(TEXTS)
    kind = dice.random()
    if kind < 0.06:
        body = b""
    elif kind < 0.065:
        body = dice.randbytes(MAX_BODY_SIZE)
    elif kind < 0.2:
        body = zlib.compress(text.encode() * 200, 5)
        sys_flag |= flags.COMPRESSED | dice.choice((0, ZLIB_NAMED))
    elif kind < 0.6:
        body = dice.randbytes(dice.randrange(1, 600))
    else:
        body = f"{number} {text} ".encode() * dice.randrange(1, 10)
    prepared_offset = 0
    if dice.random() < 0.05:
        sys_flag |= dice.choice(TRANSACTIONS)
        prepared_offset = dice.randrange(1 << 40)
    properties = {}
    if dice.random() < 0.3:
        properties = {"region": text.split()[0], "键": "значение " + text, "WAIT": "true"}
    keys: Sequence[str] = [f"k{number}", f"ключ-{number % 7}", "shared"][: dice.randrange(4)]
    return Message(
        dice.choice(TOPICS),
        body,
        tags=dice.choice(TAGS),
        keys=keys[0] if len(keys) == 1 else keys,
        properties=properties or None,
        queue_id=dice.choice((0, 0, 1)),
        flag=dice.choice(FLAGS),
        uniq_key=f"{dice.getrandbits(128):032X}" if dice.random() < 0.5 else None,
        born_timestamp_ms=dice.choice((1_700_000_000_000 + number, 0, None)),
        born_host=dice.choice(BORN_HOSTS),
        sys_flag=sys_flag,
        reconsume_times=dice.choice((0, 0, 3)),
        prepared_transaction_offset=prepared_offset,
    )


def put_mixed(
    store: Store, messages: Iterable[Message], dice: random.Random
) -> Iterator[tuple[list[Message], list[PutResult]]]:
    """Put them all, some alone and some many at once; yields what one call took and what it answered."""
    left = iter(messages)
    while True:
        count = dice.choice((1, 1, 1, 2, 8, 30))
        taken = list(islice(left, count))
        if not taken:
            return
        results = [store.put(taken[0])] if len(taken) == 1 else store.put_many(taken)
        assert {result.status for result in results} == {PutStatus.PUT_OK}
        yield taken, results


def put_from_threads(store: Store, seed: int, count: int, threads: int = 4) -> list[Line]:
    """Put `count` mixed messages from several threads; returns what must be read, in the order of the log."""
    settings = store.settings
    lines: list[Line] = []
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        thread_seed = seed * 100 + thread
        share = count // threads + (thread < count % threads)
        mine = islice(mixed_messages(thread_seed), share)
        try:
            for messages, results in put_mixed(store, mine, random.Random(thread_seed)):
                lines.extend(map(lambda m, r: expected_line(m, r, settings), messages, results))
        except BaseException as e:
            failures.append(e)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    assert len(lines) == count
    return sorted(lines, key=_log_order)


def expected_line(message: Message, result: PutResult, settings: StoreSettings) -> Line:
    """What any reader must say of a message that was put."""
    store_host = settings.store_host
    born_host = message.born_host or store_host
    sys_flag = message.sys_flag | (flags.BORN_HOST_V6 if ":" in born_host[0] else 0)
    sys_flag |= flags.STORE_HOST_V6 if ":" in store_host[0] else 0
    keys = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
    properties = dict(message.properties or {})
    named = {"KEYS": keys, "TAGS": message.tags, "UNIQ_KEY": message.uniq_key}
    properties |= {name: text for name, text in named.items() if text}
    raw_host = ipaddress.ip_address(store_host[0]).packed + store_host[1].to_bytes(4, "big")
    born_timestamp = result.store_timestamp_ms if message.born_timestamp_ms is None else message.born_timestamp_ms
    values = (
        *(result.physical_offset, result.size, _magic(message), message.topic, message.queue_id, result.queue_offset),
        *(message.flag, sys_flag, born_timestamp, _host(*born_host), result.store_timestamp_ms, _host(*store_host)),
        *(message.reconsume_times, message.prepared_transaction_offset, len(message.body)),
        *(zlib.crc32(message.body) & 0x7FFFFFFF, hashlib.sha1(message.body).hexdigest()),
        *(keys or None, message.tags, message.uniq_key),
        *((raw_host + result.physical_offset.to_bytes(8, "big")).hex().upper(), properties),
    )
    return dict(zip(DESCRIBED, values, strict=True))


def _magic(message: Message) -> str:
    return "0xdaa320ab" if len(message.topic.encode()) > 127 else "0xdaa320a7"


def our_line(message: StoredMessage) -> Line:
    """What flightlog read, in the same words."""
    properties = message.properties
    values = (
        *(message.physical_offset, message.size, f"{message.magic & 0xFFFFFFFF:#x}", message.topic, message.queue_id),
        *(message.queue_offset, message.flag, message.sys_flag, message.born_timestamp_ms, _host(*message.born_host)),
        *(message.store_timestamp_ms, _host(*message.store_host), message.reconsume_times),
        *(message.prepared_transaction_offset, len(message.body), message.body_crc),
        *(hashlib.sha1(message.body).hexdigest(), properties.get("KEYS"), message.tags, message.uniq_key),
        *(message.message_id, properties),
    )
    return dict(zip(DESCRIBED, values, strict=True))


def their_line(line: Line) -> Line:
    """What RocketMQ wrote or read, cut to the same words."""
    found = {name: line[name] for name in DESCRIBED}
    for name in ("bornHost", "storeHost"):  # Java writes IPv6 addresses at full length
        address, _, port = found[name].rpartition(":")
        found[name] = _host(address.strip("[]"), int(port))
    return found


def _host(address: str, port: int) -> str:
    return f"{ipaddress.ip_address(address)} {port}"


def is_listed(line: Line) -> bool:
    """Whether a queue lists this record: prepared and rollback records are in the log alone."""
    return flags.has_queue_entry(line["sysFlag"])


def place(line: Line) -> Place:
    return line["topic"], line["queueId"], line["queueOffset"]


def _log_order(line: Line) -> int:
    offset: int = line["commitLogOffset"]
    return offset


def compare(found: Iterable[Line], expected: Iterable[Line]) -> None:
    """Assert that both are the same messages, each at its place once, equal in every field."""
    there, wanted = _by_place(found), _by_place(expected)
    missing, strange = sorted(wanted.keys() - there.keys()), sorted(there.keys() - wanted.keys())
    assert not missing, f"{len(missing)} of {len(wanted)} messages are missing, the first is {missing[0]}"
    assert not strange, f"{len(strange)} messages were never put, the first is {there[strange[0]]}"
    for at, line in wanted.items():
        wrong = {name: (there[at][name], line[name]) for name in DESCRIBED if there[at][name] != line[name]}
        assert not wrong, f"{at}: field: (found, expected): {wrong}"


def check_contains(found: Iterable[Line], expected: Iterable[Line]) -> None:
    """As `compare`, but more may have been found."""
    wanted = list(expected)
    places = set(map(place, wanted))
    compare([line for line in found if place(line) in places], wanted)


def _by_place(lines: Iterable[Line]) -> dict[Place, Line]:
    found: dict[Place, Line] = {}
    for line in lines:
        assert place(line) not in found, f"{place(line)} is there twice: {found[place(line)]} and {line}"
        found[place(line)] = line
    return found


def bounds(lines: Iterable[Line]) -> dict[QueueName, tuple[int, int]]:
    """(topic, queue id) -> (0, one past the last queue offset)."""
    ends: dict[QueueName, int] = {}
    for topic, queue_id, queue_offset in map(place, lines):
        ends[topic, queue_id] = max(ends.get((topic, queue_id), 0), queue_offset + 1)
    return {queue: (0, end) for queue, end in ends.items()}


def read_all(store: Store | ReadOnlyStore) -> list[Line]:
    """Every message of every queue."""
    return [our_line(message) for queue in store.queues() for message in store.read(*queue)]


def check_flightlog(store: Store | ReadOnlyStore, lines: Iterable[Line]) -> None:
    """Assert that flightlog reads these messages, and no others; `lines` are of `expected_line` or `their_line`."""
    listed = [line for line in lines if is_listed(line)]
    compare(read_all(store), listed)
    assert store.queues() == bounds(listed)


def check_rocketmq(opened: OpenResult, lines: Iterable[Line]) -> None:
    """Assert that RocketMQ found these messages, and no others, each under its own queue entry."""
    listed = [line for line in lines if is_listed(line)]
    assert opened.store["loaded"]
    assert not opened.problems, opened.problems[:3]
    compare(map(their_line, opened.messages), listed)
    assert opened.bounds == bounds(listed)
    for message in opened.messages:
        entry = message["cqTopic"], message["cqQueueId"], message["cqOffset"]
        assert entry == place(message)
        assert (message["cqPos"], message["cqSize"]) == (message["commitLogOffset"], message["size"])
        assert message["cqTagsCode"] == (java_hash(message["tags"]) if message["tags"] else 0)


FREE = StoreSettings(rocketmq_strict=False)
"""For messages of these kinds: some have no body, and topics have names that RocketMQ's clients refuse."""


def small_settings(**changes: Any) -> StoreSettings:
    """flightlog's settings for the sizes of SMALL, and for messages of these kinds."""
    settings: Callable[..., StoreSettings] = StoreSettings
    sizes = {"segment_size": SEGMENT_SIZE, "queue_file_entries": QUEUE_ENTRIES, "max_message_size": MAX_BODY_SIZE}
    sizes |= {"index_slots": SMALL["index_slots"], "index_entries": SMALL["index_entries"]}
    return settings(**{**sizes, "allocate_step_size": 16 << 10, "rocketmq_strict": False, **changes})
