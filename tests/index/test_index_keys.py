"""From records to keys: by RocketMQ's rules, one by one and thousands at once, and their hashes exactly as Java's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flightlog.index.dispatch.build_entries import key_entries
from flightlog.index.key.index_file import key_hash
from flightlog.index.key.key_entries import KeyEntries
from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from flightlog.store.format.java_hash import java_hash
from flightlog.store.format.properties import decode_properties
from flightlog.store.format.property_names import split_keys
from flightlog.store.native.pure import listing

HOST = bytes.fromhex("0a000001 0000d431")
STORED_MS = 1_700_000_000_123

Record = tuple[bytes, int, bytes]
"""Topic, sysFlag, properties."""

# Everything that Java may have: astral characters are two units, and 0 and the separators are units too.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
PROPERTY = st.sampled_from(["KEYS", "UNIQ_KEY", "TAGS", "MYKEYS", "KEYS2", "XUNIQ_KEY", "UNIQ", "K", ""])
VALUE = st.one_of(
    st.text("ab \x01é", max_size=8),
    st.sampled_from(["KEYS", "a KEYS\x01b", " ", "", "UNIQ_KEY\x01", "😀 a", "a a", "\u007f"]),
)
PROPERTIES = st.one_of(
    st.lists(st.tuples(PROPERTY, VALUE), max_size=6).map(
        lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
    ),
    st.lists(st.tuples(PROPERTY, VALUE), max_size=6).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
    ),
    st.lists(st.sampled_from([b"KEYS", b"UNIQ_KEY", b"\x01", b"\x02", b" ", b"a", b"\xff", b"\xe4"]), max_size=12).map(
        b"".join
    ),
)
RECORD = st.tuples(
    st.sampled_from([b"t", b"topic-2", "täg".encode(), b"\xff\xfe"]), st.sampled_from(range(16)), PROPERTIES
)


def log_of(records: list[Record]) -> tuple[bytes, Any]:
    """The records one after the other, and what a walk says of them."""
    raw = bytearray()
    for topic, sys_flag, properties in records:
        buffer = bytearray(100 + len(topic) + len(properties))
        size = native.encode_record(
            *(buffer, 0, MAGIC_V1 if len(topic) < 128 else MAGIC_V2, 0, 0, 0, len(raw), sys_flag, 0),
            *(HOST, STORED_MS + len(raw), HOST, 0, 0, b"body", topic, properties),
        )
        raw += buffer[:size]
    rows = np.empty(len(records), FRAME_DTYPE)
    assert native.walk(raw, 0, len(raw), 0, False, rows)[0] == len(records)
    return bytes(raw), rows


def expected(rows: Any, records: list[Record]) -> list[tuple[int, int, int]]:
    """By the rules, in plain words."""
    found = []
    for row, (topic, sys_flag, raw) in zip(rows, records, strict=True):
        if sys_flag & 0xC == 0xC:
            continue
        properties = decode_properties(raw)
        keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
        keys += split_keys(properties.get("KEYS", ""))
        for key in keys:
            name = topic.decode("utf-8", "replace")
            found.append((key_hash(name, key), int(row["physical_offset"]), int(row["store_timestamp_ms"])))
    return found


def as_list(keys: KeyEntries) -> list[tuple[int, int, int]]:
    assert [column.dtype.str[1:] for column in (keys.key_hash, keys.physical_offset, keys.store_timestamp_ms)] == [
        *("i4", "i8", "i8")
    ]
    return list(
        zip(keys.key_hash.tolist(), keys.physical_offset.tolist(), keys.store_timestamp_ms.tolist(), strict=True)
    )


def check(records: list[Record]) -> None:
    raw, rows = log_of(records)
    before = native.NAME
    for kernel in native.available():
        native.use(kernel)
        try:
            assert as_list(key_entries(raw, rows)) == expected(rows, records)
            assert as_list(key_entries(memoryview(raw), rows)) == expected(rows, records)
        finally:
            native.use(before)


@given(records=st.lists(RECORD, min_size=1, max_size=8))
@example(records=[(b"t", 0, b"KEYS\x01a  b \x02UNIQ_KEY\x01u\x02")])
@example(records=[(b"t", 0, b"KEYS\x01a\x02KEYS\x01\x02"), (b"t", 0, b"KEYS\x01a\x02KEYS\x01b\x02")])
@example(records=[(b"t", 4, b"MYKEYS\x01a\x02"), (b"t", 8, b"KEYS\x01b"), (b"t", 12, b"KEYS\x01c\x02")])
@example(records=[(b"t", 0, b"KEYS"), (b"t", 0, b"\x01a\x02"), (b"t", 0, b"KEYS\x01"), (b"t", 0, b"a")])
def test_keys_are_those_of_the_rules(records: list[Record]) -> None:
    check(records)


def test_order_and_types() -> None:
    """UNIQ_KEY first, wherever it stands, then KEYS from left to right, doubles and all; no rollback record."""
    records: list[Record] = [
        (b"t", 0, b"KEYS\x01b a  b\x02TAGS\x01x\x02UNIQ_KEY\x01u\x02"),
        (b"t", 0xC, b"KEYS\x01rollback\x02"),
        (b"t", 0x4, b"KEYS\x01prepared\x02"),
        (b"t", 0x8, b"UNIQ_KEY\x01commit\x02"),
        (b"t", 0x80, b"KEYS\x01inner-batch\x02"),
        (b"t", 0, b""),
        (b"t", 0, b"TAGS\x01KEYS\x02"),
    ]
    raw, rows = log_of(records)
    keys = ["u", "b", "a", "b", "prepared", "commit", "inner-batch"]
    found = key_entries(raw, rows)
    assert found.key_hash.tolist() == [key_hash("t", key) for key in keys]
    owners = [0, 0, 0, 0, 2, 3, 4]
    assert found.physical_offset.tolist() == [int(rows[i]["physical_offset"]) for i in owners]


@pytest.mark.parametrize("count", [0, 1, 32, 33, 2000])
def test_few_and_many(count: int) -> None:
    records: list[Record] = [(b"t%d" % (i % 3), 0, b"KEYS\x01k%d x%d\x02" % (i, i % 7)) for i in range(count)]
    if count == 0:
        assert len(key_entries(b"", np.empty(0, FRAME_DTYPE))) == 0
        return
    raw, rows = log_of(records)
    assert as_list(key_entries(raw, rows)) == expected(rows, records)


def test_long_texts() -> None:
    """Properties of 32,767 bytes, a topic of 255, and thousands of keys in one record."""
    check([(b"T" * 255, 0, b"KEYS\x01" + b"k" * 32_761 + b"\x02")] * 3)
    check([(b"t", 0, b"KEYS\x01" + b"k " * 16_380), (b"t", 0, b"KEYS\x01" + "ä".encode() * 16_000)])


def test_records_without_a_topic() -> None:
    """Only a hostile file has them; they shift nothing."""
    check([(b"", 0, b"KEYS\x01a\x02"), (b"t", 0, b"KEYS\x01b\x02"), (b"", 0, b"KEYS\x01c\x02")])


@given(topic=TEXT, texts=st.lists(TEXT, min_size=1, max_size=10))
def test_hashes_are_javas(topic: str, texts: list[str]) -> None:
    assert [listing.key_hash(topic.encode(), text) for text in texts] == [key_hash(topic, text) for text in texts]


def test_known_hashes() -> None:
    for text, expected_hash in (("中文", 646_394), ("\U0001f600", 1_772_899), ("polygenelubricants", -(2**31))):
        assert java_hash(text) == expected_hash
    assert listing.index_keys({"KEYS": "a b", "UNIQ_KEY": "c"}) == ["c", "a", "b"]
