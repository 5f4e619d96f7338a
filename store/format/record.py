"""One record of the commit log.

    at      field                       width
    0       total size                  i32      the whole record
    4       magic                       i32      V1 DAA320A7, V2 DAA320AB, filler CBD43194
    8       body CRC                    i32      CRC-32 of the stored body AND 7FFFFFFF
    12      queue id                    i32
    16      flag                        i32      the application's
    20      queue offset                i64      0 for prepared and rollback records
    28      physical offset             i64      of byte 0 of this record
    36      sys flag                    i32      see sys_flag.py
    40      born timestamp              i64      ms
    48      born host                   8 | 20   see host.py
    +8      store timestamp             i64      ms, never runs backwards
    ...     store host                  8 | 20
    ...     reconsume times             i32
    ...     prepared transaction offset i64
    ...     body size, body             i32 + n
    ...     topic size, topic           V1: u8 + n, V2: i16 + n      UTF-8
    ...     properties size, properties i16 + n                      UTF-8, see properties.py

All integers are big-endian. A full segment ends with a filler of at least 8 bytes: its length, then its magic; the rest
of it keeps whatever was there. RocketMQ picks V2 by the topic's UTF-16 length and so writes a wrapped length byte for
long non-ASCII topics; flightlog picks it by the bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from ..errors import (
    BodyTooLargeError,
    InvalidMessageError,
    PropertiesTooLargeError,
    RecordTooLargeError,
    TopicTooLongError,
)
from ..message import Message
from ..settings import RECORD_EXTRA_SIZE, StoreSettings
from . import property_names as props
from . import sys_flag as flags
from .compression import CompressionType, compress
from .crc_property import CRC_PROPERTY, CRC_PROPERTY_SIZE
from .frame import BORN_HOST_AT as BORN_HOST_AT
from .frame import FIXED_V1_V4_SIZE as FIXED_V1_V4_SIZE
from .frame import HEAD as HEAD
from .frame import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from .frame import PROPERTIES_MAX_SIZE as PROPERTIES_MAX_SIZE
from .frame import TOPIC_MAX_SIZE as TOPIC_SIZES
from .host import HOST_V4_SIZE, HOST_V6_SIZE, encode_host
from .light_queues import light_offsets_max_size, wanted_light_queues
from .properties import encode_inner_base, encode_properties

BLANK = struct.Struct(">ii")
BLANK_SIZE = BLANK.size
assert BLANK_SIZE == 8

STORE_TIMESTAMP = struct.Struct(">q")
STORE_TIMESTAMP_BELOW = BORN_HOST_AT + HOST_V6_SIZE + STORE_TIMESTAMP.size
"""The store timestamp ends before this position of a record, whatever its hosts are."""
HOST_V6_EXTRA_SIZE = HOST_V6_SIZE - HOST_V4_SIZE

TOPIC_MAX_SIZE_V1 = TOPIC_SIZES[MAGIC_V1]
TOPIC_MAX_SIZE = 127
RETRY_TOPIC_MAX_SIZE = 255
RETRY_TOPIC_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
FOLDER_NAME_MAX_SIZE = 255
"""Longest file name in bytes on Linux's file systems. RocketMQ's readers accept longer topics, but their queues cannot
exist."""
assert RETRY_TOPIC_MAX_SIZE <= FOLDER_NAME_MAX_SIZE

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

FrameRow = tuple[int, ...]
"""A row of `frame.FRAME_DTYPE` as a tuple."""


@dataclass(slots=True)  # not frozen: a frozen one takes three times as long to create
class PreparedRecord:
    """A checked message, encoded except for the fields that the append fills in: offsets and the store time."""

    topic: str
    queue_id: int
    size: int
    magic: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int | None
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic_raw: bytes
    properties_raw: bytes
    light_queues: tuple[str, ...] = ()
    """Light queues that list the record, too; `size` includes room for the property with their offsets."""
    inner_count: int = 0
    """Number of messages if it is an inner batch, else 0. The properties of a batch begin with room for INNER_BASE."""


def encode_blank(remaining: int) -> bytes:
    """The first 8 bytes of the filler that ends a segment with `remaining` bytes left."""
    return BLANK.pack(remaining, MAGIC_BLANK)


def record_size(topic_size: int, body_size: int, properties_size: int, sys_flag: int, magic: int) -> int:
    """Bytes of the whole record."""
    size = FIXED_V1_V4_SIZE + topic_size + body_size + properties_size
    if magic == MAGIC_V2:
        size += 1
    if sys_flag & flags.BORN_HOST_V6:
        size += HOST_V6_EXTRA_SIZE
    if sys_flag & flags.STORE_HOST_V6:
        size += HOST_V6_EXTRA_SIZE
    return size


def prepare(
    message: Message,
    settings: StoreSettings,
    segment_size: int,
    *,
    inner_count: int = 0,
    hosts: tuple[bytes, bytes] | None = None,
) -> PreparedRecord:
    """Check a message against every limit and encode its texts. Writes nothing. `inner_count`: number of messages of an
    inner batch. `hosts`: born and store host of the record that the message is copied from; its properties are then
    taken as they are.

    A message without a queue id gets 0. Raises InvalidMessageError or the one of its children that names the limit.
    """
    topic, body = message.topic, message.body
    if not isinstance(topic, str):
        raise InvalidMessageError(f"topic {topic!r}: a {type(topic).__name__}, expected text")
    topic_raw = _encode_topic(topic)
    if not isinstance(body, bytes):
        raise InvalidMessageError(f"topic {topic!r}: the body is a {type(body).__name__}, expected bytes")
    given_flags = message.sys_flag
    if message.compress is not None:
        body, given_flags = _compressed(message)
    if len(body) > settings.max_message_size:
        raise BodyTooLargeError(
            f"topic {topic!r}: the body has {len(body)} bytes, the limit is {settings.max_message_size} "
            "(max_message_size)"
        )
    properties = checked_properties(message)
    light = _light_queues(message, properties, settings)
    if settings.append_crc_property:
        properties.pop(CRC_PROPERTY, None)  # the CRC of another record; the append writes its own
    properties_raw = encode_properties(properties, is_foreign=hosts is not None)
    if inner_count:
        properties_raw = encode_inner_base(0) + properties_raw
    elif props.INNER_COUNT in properties or props.INNER_BASE in properties:
        raise InvalidMessageError(f"topic {topic!r}: the properties of inner batches are written by put_batch alone")
    properties_size = len(properties_raw) + light_offsets_max_size(len(light))
    if settings.append_crc_property:
        properties_size += CRC_PROPERTY_SIZE
    if properties_size > PROPERTIES_MAX_SIZE:
        raise PropertiesTooLargeError(
            f"topic {topic!r}: properties, keys and tags take {properties_size} bytes, the format's limit is "
            f"{PROPERTIES_MAX_SIZE}. Move data into the body"
        )
    _check_integers(message)
    if hosts is not None:
        born_host, store_host = hosts
    else:
        store_host = encode_host(*settings.store_host)
        born_host = _encode_born_host(message.born_host) if message.born_host else store_host
    sys_flag = given_flags & ~flags.HOST_BITS
    if len(born_host) == HOST_V6_SIZE:
        sys_flag |= flags.BORN_HOST_V6
    if len(store_host) == HOST_V6_SIZE:
        sys_flag |= flags.STORE_HOST_V6
    if sys_flag & (flags.INNER_BATCH | flags.NEED_UNWRAP) and not inner_count:
        raise InvalidMessageError(f"topic {topic!r}: inner batches cannot be put; put their messages with put_batch")
    magic = MAGIC_V1 if len(topic_raw) <= TOPIC_MAX_SIZE_V1 else MAGIC_V2
    size = record_size(len(topic_raw), len(body), properties_size, sys_flag, magic)
    if size > settings.max_message_size + RECORD_EXTRA_SIZE or size + BLANK_SIZE > segment_size:
        raise RecordTooLargeError(
            f"topic {topic!r}: the record takes {size} bytes; the limits are "
            f"{settings.max_message_size + RECORD_EXTRA_SIZE} (max_message_size + 64 KiB) and "
            f"{segment_size - BLANK_SIZE} (segment_size less its filler)"
        )
    return PreparedRecord(
        topic,
        message.queue_id or 0,
        size,
        magic,
        message.flag,
        sys_flag,
        message.born_timestamp_ms,
        born_host,
        store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
        body,
        topic_raw,
        properties_raw,
        light,
        inner_count,
    )


def _light_queues(message: Message, properties: dict[str, str], settings: StoreSettings) -> tuple[str, ...]:
    """The light queues that will list the message. Removes offsets in another store's light queues from its
    properties."""
    if props.MULTI_DISPATCH not in properties and props.MULTI_QUEUE_OFFSET not in properties:
        return ()
    if not settings.multi_dispatch:
        if props.MULTI_QUEUE_OFFSET in properties:
            raise InvalidMessageError(
                f"topic {message.topic!r}: the property {props.MULTI_QUEUE_OFFSET} is written by the store, and only "
                "where it is open with multi_dispatch=True: leave it out"
            )
        return ()
    is_listed = flags.has_queue_entry(message.sys_flag)
    light = wanted_light_queues(message.topic, properties, is_listed=is_listed)
    properties.pop(props.MULTI_QUEUE_OFFSET, None)
    if light:
        properties.pop(props.WAIT, None)  # as RocketMQ does in this case alone
    return light


@lru_cache(maxsize=4096)
def _encode_topic(topic: str) -> bytes:
    try:
        raw = topic.encode()
    except UnicodeEncodeError as e:
        raise InvalidMessageError(f"topic {topic!r}: expected text that can be written as UTF-8") from e
    limit = RETRY_TOPIC_MAX_SIZE if topic.startswith(RETRY_TOPIC_PREFIX) else TOPIC_MAX_SIZE
    if len(raw) > limit:
        raise TopicTooLongError(
            f"topic {topic[:40]!r}...: {len(raw)} UTF-8 bytes, the limit is {limit} "
            f"({TOPIC_MAX_SIZE}, or {RETRY_TOPIC_MAX_SIZE} after {RETRY_TOPIC_PREFIX})"
        )
    if not is_safe_topic(topic):
        raise InvalidMessageError(f"topic {topic!r}: a topic names a folder: not empty, not '.' or '..', no '/' or NUL")
    return raw


def _compressed(message: Message) -> tuple[bytes, int]:
    """Compress the body of a message that asks for it. Returns the body and the flags."""
    kind = message.compress
    if not isinstance(kind, CompressionType):
        raise InvalidMessageError(f"compress={kind!r}: expected a CompressionType, or None")
    if message.sys_flag & (flags.COMPRESSED | flags.COMPRESSION_MASK):
        raise InvalidMessageError(
            f"sys_flag={message.sys_flag:#x} says that the body is compressed already: put it with compress=None"
        )
    return compress(message.body, kind), message.sys_flag | kind.flags


def checked_properties(message: Message) -> dict[str, str]:
    """All properties as they are stored. Raises InvalidMessageError."""
    try:
        return message.all_properties()
    except (TypeError, ValueError) as e:
        raise InvalidMessageError(
            f"topic {message.topic!r}: properties, keys or tags of the wrong type ({e}): expected a mapping of text to "
            "text, one key or several as text, and a tag as text"
        ) from e


def _encode_born_host(born_host: tuple[str, int]) -> bytes:
    try:
        return encode_host(*born_host)
    except TypeError as e:
        raise InvalidMessageError(f"born_host={born_host!r}: expected a pair of address and port") from e


def is_safe_topic(topic: str) -> bool:
    """Whether a topic can name a folder without leaving the store."""
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= FOLDER_NAME_MAX_SIZE and topic not in (".", "..") and "/" not in topic and "\0" not in topic


def _check_integers(message: Message) -> None:
    if message.queue_id is not None:
        check_integer_range("queue_id", message.queue_id, 0, INT32_MAX)
    check_integer_range("flag", message.flag)
    check_integer_range("delay_level", message.delay_level, 0)
    check_integer_range("sys_flag", message.sys_flag, ~INT32_MAX, INT32_MAX)
    check_integer_range("reconsume_times", message.reconsume_times, ~INT32_MAX, INT32_MAX)
    check_integer_range("prepared_transaction_offset", message.prepared_transaction_offset, ~INT64_MAX, INT64_MAX)
    if message.born_timestamp_ms is not None:
        check_integer_range("born_timestamp_ms", message.born_timestamp_ms, ~INT64_MAX, INT64_MAX)


def check_integer_range(name: str, value: object, low: int = ~INT32_MAX, high: int = INT32_MAX) -> None:
    """Raise InvalidMessageError unless the value is a whole number in [low, high]."""
    if not isinstance(value, int) or not low <= value <= high:
        raise InvalidMessageError(f"{name}={value!r}: expected a whole number from {low} to {high}")


def born_host_size(sys_flag: int) -> int:
    """Size of the born host in bytes; the store timestamp follows it."""
    return HOST_V6_SIZE if sys_flag & flags.BORN_HOST_V6 else HOST_V4_SIZE
