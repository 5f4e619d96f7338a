r"""A message's properties as one piece of text.

    name 0x01 value 0x02 name 0x01 value 0x02 ...

Nothing is escaped, so neither byte may occur in a name or a value. Writers differ in the last 0x02 (left out by
RocketMQ 4.9.1 to 5.1.4), and the order is that of a Java HashMap: never compare property texts byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import native
from ..errors import InvalidMessageError
from .property_names import (
    DELAY,
    INNER_BASE,
    INNER_BASE_DIGITS,
    INNER_COUNT,
    KEYS,
    MULTI_DISPATCH,
    MULTI_QUEUE_OFFSET,
    NAME_END,
    TAGS,
    TIMER_PROPERTIES,
    UNIQ_KEY,
    VALUE_END,
    WAIT,
)

FAST_PATH_NEVER_TAKES = frozenset(
    (
        *(KEYS, TAGS, UNIQ_KEY, WAIT, DELAY, *TIMER_PROPERTIES),
        *(MULTI_DISPATCH, MULTI_QUEUE_OFFSET, INNER_COUNT, INNER_BASE),
    )
)
"""Names with a meaning for a put, or from another field of a message: with one of these a put takes the slow path."""


SECTOR_SIZE = 512
"""Bytes that a disk writes atomically: after a power cut all of them are there, or none."""
LOOKS_LOST = (
    f"the properties begin with a zero byte, or contain {SECTOR_SIZE} of them in a row: recovery would take the record "
    "for one that lost a sector in a power cut. Move binary data into the body, or encode it as text"
)


def looks_lost(text: str) -> bool:
    """Whether a sector of a property text may hold only zeros. No checksum covers properties, so recovery takes a
    sector of zeros for one that was never written (engine/open/tail_scan.py)."""
    return text.startswith("\0") or "\0" * SECTOR_SIZE in text


def encode_properties(properties: Mapping[str, str], *, is_foreign: bool = False) -> bytes:
    """The text in UTF-8, with the last 0x02 as RocketMQ 5.2 and later write it. `is_foreign` properties were decoded
    from a record: RocketMQ's parser takes a second 0x01 for a part of the value.

    Raises InvalidMessageError for an empty name or value (readers would drop the pair), for the two separator bytes,
    for zeros that recovery would take for a lost sector, and for values that are no text.
    """
    parts: list[str] = []
    for name, value in properties.items():
        if not name or not value:
            raise InvalidMessageError(f"property {name!r}={value!r}: RocketMQ's readers drop an empty name or value")
        parts += (name, NAME_END, value, VALUE_END)
    try:
        text = "".join(parts)
    except TypeError as e:
        raise InvalidMessageError(f"a property's name or value is no text ({e}): convert it with str()") from e
    # One count over the whole text instead of a search in every part: a separator inside a part makes the counts
    # differ.
    if (text.count(NAME_END) != len(properties) and not is_foreign) or text.count(VALUE_END) != len(properties):
        raise InvalidMessageError("a property contains the byte 0x01 or 0x02, which separates properties")
    if not is_foreign and looks_lost(text):
        raise InvalidMessageError(LOOKS_LOST)
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise InvalidMessageError(f"a property cannot be written as UTF-8: {e}") from e


def encode_inner_base(queue_offset: int) -> bytes:
    """The property with the queue offset of an inner batch's first message, always of the same size."""
    return f"{INNER_BASE}{NAME_END}{queue_offset:0{INNER_BASE_DIGITS}d}{VALUE_END}".encode()


def decode_properties(raw: bytes) -> dict[str, str]:
    """Parse the text as RocketMQ does: a pair needs a name and a value, and a later duplicate wins.

    Bytes that are not UTF-8 become U+FFFD, as Java decodes them.
    """
    return native.decode_properties(raw)
