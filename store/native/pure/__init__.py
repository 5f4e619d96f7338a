"""The pure reference of the C kernel: what both do is defined here, and one test suite runs over both.

It is what a reader reads first, what Spark's `--py-files` and free-threaded builds fall back to, and not fast: it is
plain loops over records, written in the words of `store/format/`, and nothing in it is tuned. A put takes some
microseconds in the kernel's place of some hundred nanoseconds.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from .arguments import readable
from .columns import gather, number_rows, property_texts
from .encode import encode_columns, encode_record
from .fast_path import FastPath
from .fields import MessageFields, RecordFields
from .group_commit import GroupCommit
from .links import link_keys, set_heads
from .listing import list_rows
from .messages import decode_properties, entry_rows, messages
from .pages import populate, release_pages, sync_pages
from .put import OrdinaryPut
from .results import ResultFields
from .walk import walk, walk_places

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "FastPath",
    "GroupCommit",
    "MessageFields",
    "OrdinaryPut",
    "RecordFields",
    "ResultFields",
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
    """CRC-32 of the bytes AND 7FFFFFFF."""
    return zlib.crc32(readable(data)) & 0x7FFFFFFF
