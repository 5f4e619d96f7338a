"""The bits of a record's `sysFlag` (RocketMQ's `MessageSysFlag`).

bit 0       body is compressed
bit 1       multi-tags topic (informational)
bits 2-3    transaction: 0 none, 4 prepared, 8 commit, 12 rollback
bit 4       born host is IPv6
bit 5       store host is IPv6
bit 6       consumers must unwrap an inner batch
bit 7       body is an inner batch
bits 8-10   compression: 0 or 3 zlib, 1 LZ4, 2 zstd (only with bit 0)
"""

from __future__ import annotations

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_NONE = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700

HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6


def has_queue_entry(sys_flag: int) -> bool:
    """Whether a consume queue lists a record with this flag: not prepared and rollback records."""
    return sys_flag & TRANSACTION_MASK in (TRANSACTION_NONE, TRANSACTION_COMMIT)
