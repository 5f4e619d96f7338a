"""The body of an inner batch: taken apart as reads do, and as Spark's reader does."""

from __future__ import annotations

import numpy as np

from flightlog.spark.read.message_rows import unwrap
from flightlog.store import native
from flightlog.store.errors import CorruptBodyError
from flightlog.store.format.frame import FRAME_DTYPE
from flightlog.store.format.inner_batch import encode_inner, unwrapped
from flightlog.store.format.properties import encode_properties
from flightlog.tests.support import sound_records
from flightlog.tests.support.sound_records import stored_message

sound = sound_records


def one(data: bytes) -> None:
    """The first byte is that of the flags, the others are the body."""
    flags = 0x80 | (data[0] & 0x4F if data else 0)
    raw = sound.record(body=data[1:], sys_flag=flags, properties=b"INNER_NUM\x012\x02")
    rows = np.empty(1, FRAME_DTYPE)
    count, _, _ = native.walk(raw, 0, len(raw), 0, True, rows)
    assert count == 1 and rows["crc_ok"][0] == 1
    record = stored_message(raw, rows[0].item())
    try:
        messages = unwrapped(record)
    except CorruptBodyError:
        messages = []
    for place, message in enumerate(messages):
        assert (message.batch_index, message.physical_offset) == (place, record.physical_offset)
        assert message.body_crc == native.masked_crc32(message.body) and message.properties is not None
    if not record.sys_flag & 1:
        _check_rows(raw, rows, [message.body for message in messages] or [record.body])


def _check_rows(raw: bytes, rows: np.ndarray, bodies: list[bytes]) -> None:
    found = []
    for each, _ in unwrap(raw, rows):
        for at, size in zip(each["body_position"].tolist(), each["body_size"].tolist(), strict=True):
            found.append(raw[at : at + size])
    assert found == bodies


def seeds() -> list[bytes]:
    properties = encode_properties({"KEYS": "k", "TAGS": "A"})
    messages = [encode_inner(body, flag, properties) for flag, body in enumerate((b"one", b"", b"three" * 9))]
    return [b"\0" + b"".join(messages), b"\x41" + b"".join(messages), b"\0" + encode_inner(b"x", -1, b""), b"\0"]
