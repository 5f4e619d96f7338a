"""The few functions that touch every byte of the log: the C kernel where it can be loaded, its pure reference
elsewhere.

Call them through this module (`from . import native`, then `native.walk(...)`), so that `use` takes effect everywhere.
Both do the same, byte for byte and row for row; only the words of an error may differ. `FLIGHTLOG_PURE=1` in the
environment turns the kernel off.

Arguments are positional. Integers that do not fit their field raise OverflowError, what is no integer or no buffer
TypeError, and buffers that are not C-contiguous, or read-only where they are written to, BufferError. Any other wrong
value raises ValueError. Whatever is raised, nothing was written. None of these functions makes anything durable.

The reference is to be read first:

    pure -> nothing
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .fast_path_protocol import FastPathProtocol
from .group_commit_protocol import GroupCommitProtocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

    MaskedCrc32 = Callable[[Buffer], int]
    Walk = Callable[[Buffer, int, int, int, bool, Buffer], tuple[int, int, int]]
    EncodeRecord = Callable[
        [Buffer, int, int, int, int, int, int, int, int, Buffer, int, Buffer, int, int, Buffer, Buffer, Buffer], int
    ]

    MakeGroupCommit = Callable[[int], GroupCommitProtocol]
    MakeFastPath = Callable[..., FastPathProtocol[Any, Any]]
    WalkPlaces = Callable[[Buffer, Buffer, Buffer, int | Buffer, bool, Buffer], tuple[int, int]]
    Messages = Callable[[Buffer, Buffer, Buffer, Buffer, int | Buffer, int, int, type[Any]], list[Any]]
    EntryRows = Callable[[Buffer, Buffer, Buffer, Buffer, Buffer, Buffer | None, int, int, int], tuple[int, int]]
    DecodeProperties = Callable[[Buffer], dict[str, str]]
    Gather = Callable[[Buffer, Buffer, Buffer, Buffer], int]
    EncodeColumns = Callable[
        [
            Buffer,
            int,
            int,
            int,
            int,
            int,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
            Buffer,
        ],
        int,
    ]

    PropertyTexts = Callable[[tuple[tuple[Buffer, Buffer, Buffer, Buffer], ...], Buffer], tuple[bytes, bool]]
    NumberRows = Callable[[Buffer, Buffer, Buffer, Buffer], None]
    ListRows = Callable[
        [Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer], tuple[int, int, int, int, int]
    ]
    LinkKeys = Callable[[int, int, Buffer, Buffer, Buffer, Buffer, Buffer, Buffer], int]
    AdvisePages = Callable[[Buffer, int, int], bool]
    SetHeads = Callable[[int, int, Buffer, Buffer, Buffer], None]

__all__ = [
    "NAME",
    "FastPath",
    "GroupCommit",
    "KernelUnavailableError",
    "MessageFields",
    "OrdinaryPut",
    "RecordFields",
    "ResultFields",
    "available",
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
    "use",
    "walk",
    "walk_places",
]

MODULES: Final = {"c": "._kernel", "pure": ".pure"}


class KernelUnavailableError(ImportError):
    """The C kernel was asked for by name and cannot be loaded here; the pure reference can do all that it does."""


NAME: str
"""Which of the two is at work: "c" or "pure"."""

masked_crc32: MaskedCrc32
"""(data) -> CRC-32 (IEEE, as zlib's) AND 7FFFFFFF; 0 for no bytes. RocketMQ: `UtilAll#crc32`."""

walk: Walk
"""(buffer, start, stop, physical_base, check_crc, rows) -> (rows filled, position of the first frame not consumed, end)

Walks the frames in bytes [start, stop) of `buffer`. `rows` is a writable buffer of whole `frame.FRAME_DTYPE` rows; a
numpy array is passed as it is. `end` is a `frame.WalkEnd`. A record's stored physical offset must be `physical_base`
plus its position. With `check_crc`, a body that is not what its CRC says gets `crc_ok` 0 and does not stop the walk;
without, bodies are not looked at and `crc_ok` is 1. ValueError unless 0 <= start <= stop <= bytes in the buffer.
"""

encode_record: EncodeRecord
"""(buffer, position, magic, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms, born_host,
store_timestamp_ms, store_host, reconsume_times, prepared_transaction_offset, body, topic, properties) -> size in bytes

Writes one record, its CRC included, at `position` of `buffer`. Hosts are raw: 8 bytes, or 20 where bit 0x10 (born) or
0x20 (store) of `sys_flag` says IPv6. Size and magic are written last, so a half-written record never looks like one.
ValueError if the record does not fit, the magic is neither V1 nor V2, a host contradicts `sys_flag`, the topic exceeds
127 bytes (V1) or 32,767 (V2), or the properties exceed 32,767.
"""

walk_places: WalkPlaces
"""(buffer, positions, sizes, physical_base, check_crc, rows) -> (rows filled, end)

As `walk`, for records at known places, in any order: int64 columns of the host's byte order. Place i must hold one
record of `sizes[i]` bytes and nothing else. `physical_base` is one for all places, or such a column with one for each,
where stretches of a log stand one behind the other in the buffer. Stops at the first place that holds something else:
`end`, a `frame.WalkEnd`, says what (BAD_LENGTHS also for a record of another size), else it is END. ValueError for a
place outside the buffer.
"""

gather: Gather
"""(buffer, starts, sizes, out) -> bytes written

Copies bytes [starts[i], starts[i] + sizes[i]) of `buffer`, one range behind the other, into all of `out`. The columns
are int64 of the host's byte order; ranges may overlap and come in any order. ValueError for a range outside the
buffer, if the sizes do not add up to that of `out`, and if `out` shares memory with the others.
"""

property_texts: PropertyTexts
"""(properties, text_sizes) -> (texts, whether they are plain)

The property text of each row, one behind the other, and in the writable int64 column `text_sizes` their sizes. Each of
the properties is a tuple (head, data, starts, sizes): its name with 0x01 behind it, and the value of row i, which is
data[starts[i] : starts[i] + sizes[i]]; a column of one item gives it to all rows. A row has the head, the value and
0x02 of every property whose value is not empty there. Texts are plain if they are ASCII without a zero byte and neither
a name nor a value contains 0x01 or 0x02; nothing else is checked. ValueError for a value outside of its data, for
columns of other lengths, and if `text_sizes` shares memory with a property.
"""

number_rows: NumberRows
"""(queue_ids, ids, next_offsets, queue_offsets) -> None

Counts rows within their queues: `queue_offsets` (int64) gets for each of `queue_ids` (int32) the number that
`next_offsets` (int64) has for it, which goes up by one. `ids` (int32) are the queues of `next_offsets`, ascending. All
have the byte order of the host. ValueError for a queue that is not among them, and as `link_keys`.
"""

encode_columns: EncodeColumns
"""(buffer, position, magic, sys_flag, physical_offset, store_timestamp_ms, born_host, store_host, topic, queue_ids,
flags, queue_offsets, born_timestamps_ms, bodies, body_starts, body_sizes, properties, properties_starts,
properties_sizes) -> size of all records in bytes

Writes one record a row, one behind the other from `position` on, as `encode_record` does with 0 for what is not named
here; `physical_offset` is the first record's. `queue_ids` and `flags` are int32, the other columns int64, all of the
host's byte order and of one length; the body of row i is bodies[body_starts[i] : body_starts[i] + body_sizes[i]], its
properties likewise. ValueError as `encode_record`, and if a column shares memory with where the records would stand.
"""

messages: Messages
"""(buffer, units, queue_offsets, topic, queue_ids, physical_base, max_size, message_type) -> messages

The messages of leading entries of queues of one topic: `units` are entries of 20 bytes as they lie in a consume queue,
`queue_offsets` an int64 column of the host's byte order as long, `queue_ids` an int32 column as long, or the id of the
one queue of all. `buffer` is the log from `physical_base` on. The list
ends before the first entry that is odd in any way: whose record lies elsewhere, is none of that size and place, has a
body that is not what its CRC says, is an inner batch, or has another topic (its bytes), queue id or queue offset than
the entry is for; and before the records exceed `max_size` bytes. ValueError for columns of other sizes.

A message is an object of `message_type`, not initialized, whose `body` is set and whose `_rest`: the record without its
body. Both are copies. That a buffer is changed meanwhile does not make a `_rest` that is no record.
"""

entry_rows: EntryRows
"""(buffer, units, queue_offsets, topic, rows, bodies, physical_base, queue_id, max_size) -> (rows filled, bytes copied)

The same entries as those of `messages`, each as a `frame.FRAME_DTYPE` row in the writable buffer `rows`, and their
bodies, one behind the other, in the writable buffer `bodies`; None: no bodies. They end, too, where either is full;
what follows there may be overwritten. ValueError for columns of other sizes, for `rows` that are not whole, and if
`rows` or `bodies` share memory with another argument.
"""

decode_properties: DecodeProperties
"""(raw) -> name to value

What RocketMQ's parser makes of a record's properties: pairs end with 0x02, the last one perhaps without; a name ends
with the first 0x01. A pair without a name or a value is none, of two equal names the later one counts, and bytes that
are not UTF-8 become U+FFFD. The buffer must not change meanwhile.
"""

GroupCommit: MakeGroupCommit
"""(passed) -> GroupCommitProtocol

One sync for all who wait, see group_commit_protocol.py.
"""

FastPath: MakeFastPath
"""(conditions, queue_offsets, message_type, result_type, status, store_host, special_names, max_body_size, clock, page,
appended, visible, append_lock, publish, prepare) -> FastPathProtocol

The ordinary put in one call, see fast_path_protocol.py. The dicts are shared with the commit log. `status` and
`store_host` stand in every result; `special_names` of properties are not the fast path's; `clock` answers ms, None: the
machine's. The kernel publishes the end into two words of the buffer `page`; a `visible` of -1: into one. The last three
are the reference's: it publishes through `publish`, and `prepare` makes a message the record that the slow path would.
"""

list_rows: ListRows
"""(buffer, rows, apart_topic, units, row_numbers, queues, key_hashes, key_offsets, key_times) -> (units, rows apart,
queues, keys, inner batches): how many there are of each

What consume queues and the key index are to say of the records of a walk's `rows` over `buffer`. `units` gets each
queue's entries as they lie in its file, one queue behind the other; `row_numbers` (int32) the row of each of them, and
behind those the rows apart; `queues` a `listing.QUEUE_DTYPE` each. These three have room for one a row. The keys come
in the order of the rows: `key_hashes` int32, `key_offsets` and `key_times` (physical offset and store time of the
record) int64. Where there are more keys than `key_hashes` has room for, the rest is only counted. Columns have the byte
order of the host.

A row is apart, and its entries are not made, if its topic is `apart_topic` or not ASCII, or if it says that light
queues list it. Inner batches, prepared and rollback records and negative queue ids have no entries at all; rollback
records have no keys. ValueError if topic or properties of a row lie outside of `buffer`, or if a buffer that is written
to shares memory with another.
"""

link_keys: LinkKeys
"""(first, begin_timestamp_ms, slots, key_hashes, key_offsets, key_times, entries, in_slot) -> slots that were empty

Writes the entry of each key, 20 bytes as they lie in an index file, and the slot of each key (int32). Entries are
numbered from `first` on; an entry names as its previous one the last before it in its slot, be it of this call or what
`slots` (int32, which is only read) says. Times count from `begin_timestamp_ms`, as `index_file.time_difference_s`. The
columns are as those of `list_rows`. ValueError if their lengths differ, if a number would leave 1 to 2**31 - 1, and if
a buffer that is written to shares memory with another.
"""

set_heads: SetHeads
"""(first, slots_before, in_slot, slots, stamps) -> None

Makes entries `first`, `first` + 1 and so on the heads of the slots in `in_slot`; of several in one slot the last one
stays. `stamps` gets the same by page of 1,024 slots, the first page beginning `slots_before` slots before slot 0. All
are int32 columns of the host's byte order. ValueError for a slot outside of `slots` or without a page, and as
`link_keys`.
"""

populate: AdvisePages
"""(buffer, position, size) -> whether it could

Has the pages of [position, position + size) of a mapping present and writable, as a store into each of them would; no
byte changes. Where it cannot, stores find their pages themselves, only more slowly. ValueError for bytes outside of the
buffer, for none, and where no page begins at `position`. The blocks below must be there: else the process is killed.
"""

release_pages: AdvisePages
"""(buffer, position, size) -> whether it could

Lets go of the pages of [position, position + size) of a mapping that is shared with its file: no byte changes, and who
comes by finds them in the page cache. For pages that nobody stores into any more, before they are synced: of each page
that is there, a sync must tell every CPU on which the process runs. A private mapping would lose what was stored into
it. ValueError as `populate`.
"""

sync_pages: AdvisePages
"""(buffer, position, size) -> whether it could

Returns once the bytes [position, position + size) of a mapping that is shared with its file are on the disk, as
`os.fdatasync` does for all of the file. False where the system has no such call: nothing was synced then. OSError if it
failed, ValueError as `populate`.
"""


def _is_turned_off() -> bool:
    return os.environ.get("FLIGHTLOG_PURE") == "1"


def available() -> tuple[str, ...]:
    """The names that `use` accepts here; the first is the faster. With FLIGHTLOG_PURE=1 the kernel is not there."""
    if _is_turned_off():
        return ("pure",)
    try:
        import_module(MODULES["c"], __name__)
    except ImportError:
        return ("pure",)
    return ("c", "pure")


def use(name: str) -> None:
    """Switch to "c" or "pure", for the whole process; for tests and benches.

    Raises KernelUnavailableError if "c" cannot be loaded, ValueError for any other name. Calls under way go on as they
    began.
    """
    global NAME, GroupCommit, FastPath, masked_crc32, walk, encode_record, walk_places, gather, encode_columns
    global property_texts, number_rows
    global messages, entry_rows, decode_properties
    global list_rows, link_keys, set_heads, populate, release_pages, sync_pages
    if name not in MODULES:
        raise ValueError(f"no kernel is called {name!r}: use 'c' or 'pure'")
    if name == "c" and _is_turned_off():
        raise KernelUnavailableError("the 'c' kernel is turned off: FLIGHTLOG_PURE=1 is set")
    try:
        module = import_module(MODULES[name], __name__)
    except ImportError as e:
        raise KernelUnavailableError(
            f"the {name!r} kernel cannot be loaded ({e}): build flightlog with a C compiler, or use 'pure'"
        ) from e
    masked_crc32, walk, encode_record, NAME = module.masked_crc32, module.walk, module.encode_record, name
    walk_places, gather, encode_columns = module.walk_places, module.gather, module.encode_columns
    property_texts, number_rows = module.property_texts, module.number_rows
    messages, entry_rows = module.messages, module.entry_rows
    decode_properties = module.decode_properties
    GroupCommit, FastPath = module.GroupCommit, module.FastPath
    populate, release_pages, sync_pages = module.populate, module.release_pages, module.sync_pages
    list_rows, link_keys, set_heads = module.list_rows, module.link_keys, module.set_heads


use(available()[0])

if TYPE_CHECKING:
    from .pure.fields import MessageFields, RecordFields
    from .pure.put import OrdinaryPut
    from .pure.results import ResultFields
else:
    OrdinaryPut = import_module(MODULES[NAME], __name__).OrdinaryPut
    """The base of a class of stores that take messages, the same for both once it is chosen. It has `put`, which asks
    the fast path in `_put_fast_path`, and `_put_slow` of the class where that is None or answers None.
    """
    MessageFields = import_module(MODULES[NAME], __name__).MessageFields
    """The base of a Message, and the same for both once it is chosen. It has its fields as slots; the kernel's fast
    path takes messages of its own base alone, whose fields lie where it knows.
    """
    ResultFields = import_module(MODULES[NAME], __name__).ResultFields
    """The base of a PutResult, and the same for both once it is chosen. The kernel stores the numbers as 64-bit
    integers and makes an int when one is read; its fast path makes results of its own base alone.
    """
    RecordFields = import_module(MODULES[NAME], __name__).RecordFields
    """The base of a class of messages, and the same for both once it is chosen: the class is there, and `use` cannot
    change it. It has the fields of a record as slots, and `properties`, `tags`, `keys` and `uniq_key`.

    A message that is read has `body` set, and `_rest`: the bytes of a whole record without its body, of which every
    other field is made when it is asked for. Whoever sets it has checked that; another one is a ValueError, at once or
    at the first field. Numbers are of 64 bits at most. `_decode_host` of the class makes hosts out of raw ones.
    """
