"""Queue entries of records of every kind, mixed: what the kernel lists and what is left apart come together as the
rules say, in plain words, record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from flightlog.index.dispatch.dispatch import MAX_QUEUE_OFFSET, queue_entries
from flightlog.index.dispatch.dispatch_rules import DispatchRules
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1
from flightlog.store.format.light_queues import light_places
from flightlog.store.format.properties import decode_properties
from flightlog.store.format.record import is_safe_topic
from flightlog.store.message import tags_code
from flightlog.store.state.deleted_topics import DeletedTopics

HOST = bytes(8)
STORED_MS = 1_700_000_000_123
LEVELS = DelayLevelTable.parse()

TOPICS = [
    b"t",
    b"t",
    b"t",
    b"u",
    b"gone",
    SCHEDULE_TOPIC.encode(),
    "täg".encode(),
    b"\xff",
    b"\xfe",
    b"a/b",
    b"",
    b"..",
]
TOPICS += [b"%LMQ%a", b"%RETRY%g", b"rmq_sys_x"]
PROPERTIES = [
    *(
        b"",
        b"TAGS\x01A\x02",
        b"TAGS\x01A\x02KEYS\x01a b\x02TAGS\x01B",
        "TAGS\x01标签\x02".encode(),
        b"TAGS\x01\xff\x02",
    ),
    *(b"DELAY\x013\x02TAGS\x01A\x02", b"DELAY\x01x\x02", b"MYTAGS\x01A\x02", b"TAGS\x01\x02TAGS", b"TAGS"),
    b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x012\x02TAGS\x01A\x02",
    b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b,%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x012,0,3\x02",
    b"INNER_MULTI_DISPATCH\x01%LMQ%a,x\x02INNER_MULTI_QUEUE_OFFSET\x012\x02",
    b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x019999999999999999999\x02",
    b"INNER_MULTI_QUEUE_OFFSET\x01\x02KEYS\x01INNER_MULTI_QUEUE_OFFSET\x02",
]
RECORD = st.tuples(
    st.sampled_from(TOPICS),
    st.sampled_from([0, 0, 0, 1, -1]),
    st.sampled_from([0, 1, 2, 3, 4, -1, (1 << 63) - 1]),
    st.sampled_from([0, 0, 0, 0, 4, 8, 12, 0x80, 0x88]),
    st.sampled_from(PROPERTIES),
)
Record = tuple[bytes, int, int, int, bytes]


def log_of(records: list[Record]) -> tuple[bytes, Any]:
    raw = bytearray()
    for topic, queue_id, queue_offset, sys_flag, properties in records:
        buffer = bytearray(100 + len(topic) + len(properties))
        size = native.encode_record(
            *(buffer, 0, MAGIC_V1, queue_id, 0, queue_offset, len(raw), sys_flag, 0, HOST, STORED_MS + len(raw), HOST),
            *(0, 0, b"", topic, properties),
        )
        raw += buffer[:size]
    rows: Any = np.empty(len(records), FRAME_DTYPE)
    assert native.walk(raw, 0, len(raw), 0, False, rows)[0] == len(records)
    return bytes(raw), rows


def expected(records: list[Record], rows: Any, deleted: DeletedTopics) -> dict[Any, list[tuple[Any, ...]]]:
    """By queue: queue offset, store time, and the entry."""
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for (raw_topic, queue_id, queue_offset, sys_flag, raw), row in zip(records, rows, strict=True):
        topic, offset, size = raw_topic.decode("utf-8", "replace"), int(row["physical_offset"]), int(row["size"])
        if sys_flag & 0xC in (4, 12) or sys_flag & 0x80 or queue_id < 0 or not is_safe_topic(topic):
            continue
        properties, stored_ms = decode_properties(raw), STORED_MS + offset
        code = tags_code(properties.get("TAGS"))
        if topic == SCHEDULE_TOPIC and properties.get("DELAY", "").isdigit():
            code = LEVELS.delivery_time_ms(int(properties["DELAY"]), stored_ms)
        if offset >= deleted.below(topic):
            found.setdefault((topic, queue_id), []).append((queue_offset, stored_ms, (offset, size, code)))
        for key, light_offset in light_places(topic, raw):
            if light_offset <= MAX_QUEUE_OFFSET:
                found.setdefault(key, []).append((light_offset, stored_ms, (offset, size, code)))
    return found


@given(records=st.lists(RECORD, max_size=14), deleted_below=st.sampled_from([0, 200, 1 << 20]))
@example(records=[(b"t", 0, i, 0, b"TAGS\x01A\x02") for i in range(3)], deleted_below=0)
@example(  # an entry of its own queue, and one as a light queue, which was left apart, before and behind it
    records=[
        (b"t", 0, 0, 0, PROPERTIES[10]),
        (b"%LMQ%a", 0, 3, 0, b""),
        (b"u", 0, 0, 0, PROPERTIES[10]),
    ],
    deleted_below=0,
)
@example(records=[(b"\xff", 0, 0, 0, b""), (b"\xfe", 0, 1, 0, b"")], deleted_below=0)  # two spellings of one name
def test_every_kind_mixed(records: list[Record], deleted_below: int) -> None:
    raw, rows = log_of(records)
    deleted = DeletedTopics()
    if deleted_below:
        deleted.mark("gone", deleted_below)
    rules = DispatchRules(SCHEDULE_TOPIC, LEVELS.delivery_time_ms, deleted)
    wanted = expected(records, rows, deleted)
    before = native.NAME
    for kernel in native.available():
        native.use(kernel)
        try:
            found = queue_entries(raw, rows, rules)
        finally:
            native.use(before)
        as_lists = {
            key: list(zip(each.indexes.tolist(), each.store_timestamps_ms.tolist(), each.units.tolist(), strict=True))
            for key, each in found.items()
        }
        assert as_lists == wanted
        for each in found.values():  # its runs are it, in pieces of consecutive indexes
            runs = [(start, run.units.tolist()) for start, run in each.runs()]
            assert [unit for _, units in runs for unit in units] == each.units.tolist()
            starts = [start + i for start, units in runs for i in range(len(units))]
            assert starts == each.indexes.tolist()
            borders = np.cumsum([len(units) for _, units in runs]) - 1
            assert all(starts[i] + 1 != starts[i + 1] for i in borders[:-1])
