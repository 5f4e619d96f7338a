"""The pure reference of the C kernel: what both do is defined here, and one test suite runs over both."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from .pure_arguments import readable
from .pure_columns import encode_columns, gather, number_rows, walk_places
from .pure_encode import encode_record
from .pure_fast_path import FastPath
from .pure_fields import MessageFields, RecordFields
from .pure_group_commit import GroupCommit
from .pure_links import link_keys, set_heads
from .pure_listing import list_rows
from .pure_messages import decode_properties, entry_rows, messages
from .pure_pages import populate, release_pages, sync_pages
from .pure_put import OrdinaryPut
from .pure_texts import property_texts
from .pure_walk import walk

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "FastPath",
    "GroupCommit",
    "MessageFields",
    "OrdinaryPut",
    "RecordFields",
    "decode_properties",
    "encode_columns",
    "encode_record",
    "entry_rows",
    "gather",
    "link_keys",
    "list_rows",
    "masked_crc32",
    "messages",
    "number_rows",
    "populate",
    "property_texts",
    "release_pages",
    "set_heads",
    "sync_pages",
    "walk",
    "walk_places",
]


def masked_crc32(data: Buffer, /) -> int:
    """CRC-32 of the bytes AND 7FFFFFFF. zlib releases the GIL above 5 KiB."""
    if type(data) is bytes:
        return zlib.crc32(data) & 0x7FFFFFFF
    return zlib.crc32(readable(data)) & 0x7FFFFFFF
