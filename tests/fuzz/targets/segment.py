"""A segment of the log: walked by kernel and reference, and everything that is made of its records.

Every record whose lengths add up is given a right CRC and a right place first, else hardly any input would come past
the walk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flightlog.engine.dispatch.dispatching import dispatch_rules
from flightlog.index.dispatch.batch_dispatch import batch_entries
from flightlog.index.dispatch.build_entries import key_entries
from flightlog.index.dispatch.dispatch import queue_entries
from flightlog.index.key.index_file import key_hash
from flightlog.store import native
from flightlog.store.errors import CorruptBodyError
from flightlog.store.format.crc_property import check_crc_properties
from flightlog.store.format.frame import FRAME_DTYPE
from flightlog.store.format.inner_batch import unwrapped
from flightlog.store.format.sys_flag import INNER_BATCH, has_queue_entry
from flightlog.store.scan.scan import SegmentScan
from flightlog.store.settings import StoreSettings
from flightlog.tests.support import sound_records
from flightlog.tests.support.sound_records import stored_message

sound = sound_records

BASE = 1 << 20
RULES = dispatch_rules(StoreSettings())
LIMIT = 1 << 20


def one(data: bytes) -> None:
    raw = sound.mended(data, BASE)
    walks = [_walk(raw, name) for name in native.available()]
    assert all(walk == walks[0] for walk in walks), "kernel and reference say the same"
    rows, position, end = walks[0]
    scanned = list(_scan(raw))
    assert b"".join(scanned) == rows or end == 2, "in pieces it is the same"
    found = np.frombuffer(bytearray(rows), FRAME_DTYPE)
    assert (found["position"] + found["size"] <= position).all()
    for row in found.tolist():
        _check_message(raw, row)
    if len(found):
        _check_keys(raw, found)
        check_crc_properties(raw, found.copy())


def _walk(raw: bytes, name: str) -> tuple[bytes, int, int]:
    before = native.NAME
    native.use(name)
    try:
        rows: Any = np.zeros(len(raw) // 91 + 1, FRAME_DTYPE)
        count, position, end = native.walk(raw, 0, len(raw), BASE, True, rows)
        return rows[:count].tobytes(), position, end
    finally:
        native.use(before)


def _scan(raw: bytes) -> list[bytes]:
    def read(position: int, size: int) -> bytes:
        return raw[position : position + size]

    scan = SegmentScan(read, BASE, len(raw), 0, len(raw), check_crc=True, piece_size=128)
    found = []
    for _, rows in scan:
        here = rows.copy()
        start = int(here["physical_offset"][0]) - BASE - int(here["position"][0])
        for name in ("position", "body_position", "topic_position", "properties_position"):
            here[name] += start
        found.append(here.tobytes())
    return found


def _check_message(raw: bytes, row: tuple[int, ...]) -> None:
    message = stored_message(raw, row)
    assert message.physical_offset == BASE + row[0] and 0 < message.size <= len(raw)
    assert str(message.born_host) and str(message.store_host) and len(message.message_id) in (32, 56)
    assert message.tags is None or message.tags in message.properties.values()
    try:
        assert len(message.decompressed_body(LIMIT)) <= max(LIMIT, len(message.body))
        assert all(each.physical_offset == message.physical_offset for each in unwrapped(message))
    except CorruptBodyError:
        assert message.sys_flag & (1 | INNER_BATCH)


def _check_keys(raw: bytes, rows: Any) -> None:
    listed = {(row[1], row[9]) for row in rows.tolist() if has_queue_entry(row[14])}
    for key, entries in queue_entries(raw, rows, RULES).items():
        assert "/" not in key[0] and key[0] not in ("", ".", "..")
        assert {unit[:2] for unit in entries.units.tolist()} <= listed
    for units in batch_entries(raw, rows, RULES).values():
        assert set(units["physical_offset"].tolist()) <= {place for place, _ in listed}
    expected: list[tuple[int, int]] = []
    for row in rows.tolist():
        message = stored_message(raw, row)
        if message.transaction_type != 12:
            keys = [key for key in (message.uniq_key, *message.keys) if key]
            expected += [(key_hash(message.topic, key), message.physical_offset) for key in keys]
    found = key_entries(raw, rows)
    assert list(zip(found.key_hash.tolist(), found.physical_offset.tolist(), strict=True)) == expected
    many = np.concatenate([rows] * 40)  # beyond a few records, columns do the work
    assert key_entries(raw, many).key_hash.tolist() == [each for each, _ in expected] * 40


def seeds() -> list[bytes]:
    return sound.segments()
