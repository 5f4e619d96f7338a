"""The names under which a message's fields are written, in JSON, CSV and Parquet alike.

topic, queue_id, queue_offset, physical_offset, size        where it is; size: bytes of its record
store_time, born_time                                       ISO 8601 in UTC, to the millisecond
tags, keys, uniq_key, properties                            properties: all of them, these three included
flag, sys_flag, reconsume_times, born_host, store_host
body or body_base64                                         as text where it is UTF-8, else in base64
"""

from __future__ import annotations

import base64
import datetime
from enum import StrEnum
from typing import Any

from ...store.stored_message import StoredMessage

NAMES = (
    *("topic", "queue_id", "queue_offset", "physical_offset", "size", "store_time", "born_time"),
    *("tags", "keys", "uniq_key", "properties", "flag", "sys_flag", "reconsume_times", "born_host", "store_host"),
)
BODY, BODY_BASE64 = "body", "body_base64"


class BodyForm(StrEnum):
    """How text forms write a body."""

    AUTO = "auto"
    """As text if it is UTF-8, else in base64."""
    TEXT = "text"
    """As text, with U+FFFD for what is not UTF-8."""
    BASE64 = "base64"


def fields_of(message: StoredMessage) -> dict[str, Any]:
    """The fields of NAMES, ready for JSON."""
    values = (
        *(message.topic, message.queue_id, message.queue_offset, message.physical_offset, message.size),
        *(iso_time(message.store_timestamp_ms), iso_time(message.born_timestamp_ms)),
        *(message.tags, list(message.keys), message.uniq_key, dict(message.properties)),
        *(message.flag, message.sys_flag, message.reconsume_times, str(message.born_host), str(message.store_host)),
    )
    return dict(zip(NAMES, values, strict=True))


def body_of(message: StoredMessage, form: BodyForm) -> tuple[str, str]:
    """The name and the text of the body."""
    if form is BodyForm.TEXT:
        return BODY, message.body.decode(errors="replace")
    if form is BodyForm.AUTO:
        try:
            return BODY, message.body.decode()
        except UnicodeDecodeError:
            pass
    return BODY_BASE64, base64.b64encode(message.body).decode("ascii")


def iso_time(timestamp_ms: int) -> str:
    """'2026-05-01T12:00:00.123Z'; the number itself where no calendar reaches."""
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms // 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
