"""Records made byte by byte, by the letter of the format, and the mending of damaged ones: what no writer of ours would
write can be among them."""

from __future__ import annotations

import struct
import zlib

from flightlog.store.stored_message import StoredMessage, message_of_record

MAGICS = (0xDAA320A7, 0xDAA320AB)
BLANK = 0xCBD43194
HEAD = struct.Struct(">IIiiiqqi")
CRC_AT, PHYSICAL_OFFSET_AT, SYS_FLAG_AT, HOSTS_AT = 8, 28, 36, 48
LEAST_SIZE = 91


def record(
    body: bytes = b"body",
    topic: bytes = b"orders",
    properties: bytes = b"KEYS\x01k1 k2\x02TAGS\x01A\x02UNIQ_KEY\x01u1\x02",
    *,
    sys_flag: int = 0,
    version: int = 1,
    physical_offset: int = 0,
    queue_offset: int = 0,
    queue_id: int = 0,
) -> bytes:
    """One record."""
    born = bytes([32, 1, 13, 184, *range(12)]) if sys_flag & 0x10 else bytes([10, 0, 0, 7])
    stored = bytes(15) + b"\1" if sys_flag & 0x20 else bytes([192, 0, 2, 1])
    rest = struct.pack(">q", 1_700_000_000_000) + born + struct.pack(">iq", 4711, 1_700_000_000_001)
    rest += stored + struct.pack(">iiqi", 10911, 0, 0, len(body)) + body
    rest += struct.pack(">B" if version == 1 else ">h", len(topic)) + topic
    rest += struct.pack(">h", len(properties)) + properties
    crc = zlib.crc32(body) & 0x7FFFFFFF
    head = (HEAD.size + len(rest), MAGICS[version - 1], crc, queue_id, 0, queue_offset, physical_offset, sys_flag)
    return HEAD.pack(*head) + rest


def mended(data: bytes, base: int) -> bytes:
    """The same bytes, but a record whose lengths add up as far as its body has a right CRC and a right place."""
    found = bytearray(data)
    at = 0
    while at + LEAST_SIZE <= len(found):
        size, magic = struct.unpack_from(">II", found, at)
        if magic not in MAGICS or not LEAST_SIZE <= size <= len(found) - at:
            at += 1
            continue
        struct.pack_into(">q", found, at + PHYSICAL_OFFSET_AT, base + at)
        (sys_flag,) = struct.unpack_from(">i", found, at + SYS_FLAG_AT)
        body_at = at + HOSTS_AT + 8 + 8 + 8 + 16 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
        if body_at <= len(found):
            (body_size,) = struct.unpack_from(">i", found, body_at - 4)
            if 0 <= body_size <= at + size - body_at:
                crc = zlib.crc32(found[body_at : body_at + body_size]) & 0x7FFFFFFF
                struct.pack_into(">i", found, at + CRC_AT, crc)
        at += size
    return bytes(found)


def segments() -> list[bytes]:
    """A few short segments: every version, host, flag and kind of property; topics that only others write."""
    light = b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x017,0\x02"
    inner = b"".join(
        struct.pack(">iiiii", 22 + len(each), 0, 0, place, len(each)) + each + b"\0\0"
        for place, each in enumerate((b"one", b"", b"three"))
    )
    plain = [record(b"%d" % i, queue_offset=i, queue_id=i % 2) for i in range(3)]
    hosts = [record(sys_flag=flag, version=1 + (flag == 0x30)) for flag in (0x10, 0x20, 0x30)]
    topics = [
        *(record(topic=b"t" * size) for size in (127, 128, 255)),
        record(topic=b"u" * 300, version=2),
        record(topic=b"../x"),
        record(topic=b"\xff\xfe"),
        record(topic=b""),
    ]
    kinds = [
        record(sys_flag=4),
        record(sys_flag=12),
        record(zlib.compress(b"z" * 90), sys_flag=0x301),
        record(inner, properties=b"INNER_NUM\x013\x02INNER_BASE\x01" + b"0" * 19 + b"\x02KEYS\x01a\x02", sys_flag=0xC0),
        record(topic=b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x013\x02REAL_TOPIC\x01orders\x02"),
        record(properties=light),
        record(properties=b""),
        record(b"", properties=b"TAGS\x01A\x02__CRC32#\x010123456789\x02"),
    ]
    filler = struct.pack(">II", 40, BLANK) + bytes(32)
    return [b"".join(each) for each in (plain, [*plain, filler], hosts, topics, kinds, kinds[:4], [*plain, bytes(64)])]


def stored_message(buffer: bytes | memoryview, row: tuple[int, ...]) -> StoredMessage:
    """The message that a row of a frame walk over `buffer` found. Everything in it is copied out of the buffer."""
    position, size = row[0], row[9]
    return message_of_record(bytes(buffer[position : position + size]), row[6] - position, row[16])
