"""What the state machine draws: rows, from which messages are made, and how stores are opened.

A row says little, so that Hypothesis can make much of it, and make it small again.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

import zstandard
from hypothesis import strategies as st

from flightlog import CompressionType, FlushMode, Message, StoreSettings

NEVER_MS = 3_600_000
LONG_TOPIC = "%RETRY%" + "g" * 130
"""More than 127 bytes: a record of the second version."""
PLAIN_QUEUES = (
    *(("orders", 0), ("orders", 0), ("orders", 1), ("orders", None), ("made", None), ("made", 3)),
    *(("täg-テスト", 0), (LONG_TOPIC, 7)),
)
BATCH_QUEUES = (("batch", 0), ("batch", 1), ("batch", None))
TOPICS = ("orders", "made", "batch", LONG_TOPIC, "täg-テスト")
TAGS = (None, "A", "Aa", "BB", "AaBB", "ä")
"""Aa and BB have one Java hash."""
KEYS = ("k1", "Aa", "BB", "ключ", "k" * 40)
UNIQ_KEYS = ("U1", "U2", "k1")
"""One of them is a key, too; beside these, every message may have one of its own."""
OWN = "its own"
SIZES = (0, 30, 200, 700)


class Row(NamedTuple):
    """One message."""

    queue: tuple[str, int | None]
    size: int = 0
    tags: str | None = None
    keys: tuple[str, ...] = ()
    uniq_key: str | None = None
    kind: str = "plain"
    """See KINDS."""


KINDS = {
    "plain": {},
    "does not wait": {"wait_store_ok": False},
    "prepared": {"sys_flag": 4},
    "commit": {"sys_flag": 8, "prepared_transaction_offset": 1 << 40},
    "rollback": {"sys_flag": 12},
    "from far": {"born_host": ("2001:db8::8:800:200c:417a", 4711), "flag": -1, "reconsume_times": 16},
    "with properties": {"properties": {"a": "ü" * 5, "b": "x"}, "born_timestamp_ms": 1_700_000_000_000},
    "zlib": {"compress": CompressionType.ZLIB},
    "lz4": {"compress": CompressionType.LZ4},
    "zstd": {"compress": CompressionType.ZSTD},
}

sizes = st.sampled_from(SIZES) | st.integers(0, 900)
keys = st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple)
rows = st.builds(
    Row,
    st.sampled_from(PLAIN_QUEUES),
    sizes,
    st.sampled_from(TAGS),
    keys,
    st.sampled_from((OWN, None, *UNIQ_KEYS)),
    st.sampled_from(("plain",) * 4 + tuple(KINDS)),
)
batch_rows = st.builds(
    Row, st.sampled_from(BATCH_QUEUES), sizes, st.sampled_from(TAGS), keys, st.just(OWN), st.just("plain")
)


def message_of(row: Row, number: int) -> Message:
    """The message of a row; its body says the number over and over."""
    topic, queue_id = row.queue
    body = b"%06d " % number * (row.size // 7 + 1)
    return Message(
        topic,
        body[: row.size],
        queue_id=queue_id,
        tags=row.tags,
        keys=row.keys,
        uniq_key=own_uniq_key(topic, number) if row.uniq_key == OWN else row.uniq_key,
        **KINDS[row.kind],  # type: ignore[arg-type]
    )


def own_uniq_key(topic: str, number: int) -> str:
    return f"{topic[:2]}{number:06d}"


def as_stored(message: Message) -> Message:
    """The message with its body as the put is to compress it."""
    if message.compress is None:
        return message
    if message.compress is CompressionType.ZLIB:
        body = zlib.compress(message.body, 5)
    elif message.compress is CompressionType.LZ4:
        body = import_module("lz4.frame").compress(message.body, block_linked=False)
    else:
        body = zstandard.ZstdCompressor().compress(message.body)
    return replace(message, body=body, sys_flag=message.sys_flag | 1 | message.compress.value, compress=None)


class Geometry(NamedTuple):
    """What stays the same for the whole life of a store."""

    segment_pages: int
    queue_file_entries: int
    index_slots: int
    index_entries: int
    answer_count: int
    answer_size: int
    scan_size: int
    is_far: bool
    """Whether the log counts as too large for this machine's memory."""


geometries = st.builds(
    Geometry,
    st.integers(1, 3),
    st.integers(5, 30),
    st.integers(1, 12),
    st.sampled_from((5, 12, 40, 200)),
    st.sampled_from((2, 8, 32)),
    st.sampled_from((500, 3000, 65_536)),
    st.sampled_from((1, 100, 16_000)),
    st.booleans(),
)


class Opening(NamedTuple):
    """What may be another thing at every opening."""

    flush_mode: FlushMode = FlushMode.ASYNC
    key_index: bool = True
    auto_create_topics: bool = True
    step_size: int = 4096
    host: tuple[str, int] = ("127.0.0.1", 10911)


openings = st.builds(
    Opening,
    st.sampled_from((FlushMode.ASYNC, FlushMode.SYNC)),
    st.sampled_from((True, True, True, False)),
    st.sampled_from((True, True, True, False)),
    st.sampled_from((4096, 1 << 20)),
    st.sampled_from((("127.0.0.1", 10911), ("fe80::1", 1))),
)

DEFAULT_QUEUES = 2
CLEAN_BATCH_COUNT = 3


def settings_of(geometry: Geometry, opening: Opening) -> StoreSettings:
    """No round of the service thread comes by itself: rounds are steps of the machine."""
    near, far = (geometry.answer_count, geometry.answer_size), (1, 1)
    if geometry.is_far:
        near, far = far, near
    return StoreSettings(
        rocketmq_strict=False,
        segment_size=4096 * geometry.segment_pages,
        queue_file_entries=geometry.queue_file_entries,
        index_slots=geometry.index_slots,
        index_entries=geometry.index_entries,
        key_index=opening.key_index,
        auto_create_topics=opening.auto_create_topics,
        put_adds_queues=True,  # the model does not know who created a topic
        flush_mode=opening.flush_mode,
        flush_interval_ms=NEVER_MS,
        queue_flush_interval_ms=NEVER_MS,
        index_flush_interval_ms=NEVER_MS,
        allocate_step_size=opening.step_size,
        store_host=opening.host,
        default_queue_count=DEFAULT_QUEUES,
        clean_batch_count=CLEAN_BATCH_COUNT,
        access_memory_percent=0 if geometry.is_far else 40,
        get_memory_max_count=near[0],
        get_memory_max_size=near[1],
        get_disk_max_count=far[0],
        get_disk_max_size=far[1],
        get_scan_size=geometry.scan_size,
    )
