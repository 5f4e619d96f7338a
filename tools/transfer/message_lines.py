"""A message as one line of JSON, and back.

The first line of a file says what it is: `{"format": "flightlog messages", "version": 1, ...}`. Every other line is a
message: `topic`, `queueId`, `queueOffset`, `properties` (tags and keys among them), `flag`, `sysFlag`,
`reconsumeTimes`, `bornTimestampMs`, `bornHost`, `storeTimestampMs`, and the body as it is stored: `body` where it is
text in UTF-8, else `bodyBase64`.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from ...store.errors import UsageError
from ...store.format import property_names as props
from ...store.format.crc_property import CRC_PROPERTY
from ...store.format.sys_flag import HOST_BITS, INNER_BATCH, NEED_UNWRAP, TRANSACTION_MASK
from ...store.message import Message
from ...store.stored_message import StoredMessage

FORMAT, VERSION = "flightlog messages", 1
LEFT_OUT = frozenset({props.DELAY, CRC_PROPERTY, props.INNER_COUNT, props.INNER_BASE, props.MULTI_QUEUE_OFFSET})
"""Properties that say how a message was stored, or that it is to be delayed: it has been delivered."""


def encode_line(message: StoredMessage) -> bytes:
    host, port = message.born_host
    found: dict[str, Any] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "properties": dict(message.properties),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestampMs": message.born_timestamp_ms,
        "bornHost": [host, port],
        "storeTimestampMs": message.store_timestamp_ms,
    }
    try:
        found["body"] = message.body.decode()
    except UnicodeDecodeError:
        found["bodyBase64"] = base64.b64encode(message.body).decode()
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """The object of a line. Raises UsageError, which begins with `where`."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{where}: {e}: expected a line of JSON as `flightlog export` writes it") from e
    if not isinstance(found, dict):
        raise UsageError(f"{where}: found {type(found).__name__}, expected an object of JSON")
    return found


def decode_message(found: dict[str, Any], where: str) -> Message:
    """The message to put for a line, into the same queue of the same topic. Raises UsageError."""
    try:
        text = found.get("body")
        body = base64.b64decode(found["bodyBase64"], validate=True) if text is None else text.encode()
        properties = {str(name): str(value) for name, value in found["properties"].items() if name not in LEFT_OUT}
        if props.TIMER_OUT_MS not in properties:  # else it is a delivered timer, and does not ask for one
            properties = {name: value for name, value in properties.items() if name not in props.TIMER_PROPERTIES}
        host, port = found["bornHost"]
        return Message(
            str(found["topic"]),
            body,
            properties=properties,
            queue_id=int(found["queueId"]),
            flag=int(found["flag"]),
            born_timestamp_ms=int(found["bornTimestampMs"]),
            born_host=(str(host), int(port)),
            sys_flag=int(found["sysFlag"]) & ~(HOST_BITS | INNER_BATCH | NEED_UNWRAP | TRANSACTION_MASK),
            reconsume_times=int(found["reconsumeTimes"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as e:
        raise UsageError(f"{where}: {type(e).__name__} {e}: expected a message as `flightlog export` writes it") from e
