from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import Buffer

from .fast_path_protocol import FastPathProtocol
from .group_commit_protocol import GroupCommitProtocol
from .pure.fields import MessageFields as MessageFields
from .pure.fields import RecordFields as RecordFields
from .pure.results import ResultFields as ResultFields

_Message = TypeVar("_Message")

GroupCommit: Callable[[int], GroupCommitProtocol]
FastPath: Callable[..., FastPathProtocol[Any, Any]]

def masked_crc32(data: Buffer, /) -> int: ...
def _masked_crc32_all_ways(data: Buffer, /) -> tuple[int, ...]: ...
def walk(
    buffer: Buffer, start: int, stop: int, physical_base: int, check_crc: bool, rows: Buffer, /
) -> tuple[int, int, int]: ...
def encode_record(
    buffer: Buffer,
    position: int,
    magic: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Buffer,
    store_timestamp_ms: int,
    store_host: Buffer,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    topic: Buffer,
    properties: Buffer,
    /,
) -> int: ...
def walk_places(
    buffer: Buffer, positions: Buffer, sizes: Buffer, physical_base: int | Buffer, check_crc: bool, rows: Buffer, /
) -> tuple[int, int]: ...
def populate(buffer: Buffer, position: int, size: int, /) -> bool: ...
def release_pages(buffer: Buffer, position: int, size: int, /) -> bool: ...
def sync_pages(buffer: Buffer, position: int, size: int, /) -> bool: ...
def gather(buffer: Buffer, starts: Buffer, sizes: Buffer, out: Buffer, /) -> int: ...
def property_texts(
    properties: tuple[tuple[Buffer, Buffer, Buffer, Buffer], ...], text_sizes: Buffer, /
) -> tuple[bytes, bool]: ...
def number_rows(queue_ids: Buffer, ids: Buffer, next_offsets: Buffer, queue_offsets: Buffer, /) -> None: ...
def encode_columns(
    buffer: Buffer,
    position: int,
    magic: int,
    sys_flag: int,
    physical_offset: int,
    store_timestamp_ms: int,
    born_host: Buffer,
    store_host: Buffer,
    topic: Buffer,
    queue_ids: Buffer,
    flags: Buffer,
    queue_offsets: Buffer,
    born_timestamps_ms: Buffer,
    bodies: Buffer,
    body_starts: Buffer,
    body_sizes: Buffer,
    properties: Buffer,
    properties_starts: Buffer,
    properties_sizes: Buffer,
    /,
) -> int: ...
def messages(
    buffer: Buffer,
    units: Buffer,
    queue_offsets: Buffer,
    topic: Buffer,
    queue_ids: int | Buffer,
    physical_base: int,
    max_size: int,
    message_type: type[_Message],
    /,
) -> list[_Message]: ...
def decode_properties(raw: Buffer, /) -> dict[str, str]: ...
def entry_rows(
    buffer: Buffer,
    units: Buffer,
    queue_offsets: Buffer,
    topic: Buffer,
    rows: Buffer,
    bodies: Buffer | None,
    physical_base: int,
    queue_id: int,
    max_size: int,
    /,
) -> tuple[int, int]: ...
def list_rows(
    buffer: Buffer,
    rows: Buffer,
    apart_topic: Buffer,
    units: Buffer,
    row_numbers: Buffer,
    queues: Buffer,
    key_hashes: Buffer,
    key_offsets: Buffer,
    key_times: Buffer,
    /,
) -> tuple[int, int, int, int, int]: ...
def link_keys(
    first: int,
    begin_timestamp_ms: int,
    slots: Buffer,
    key_hashes: Buffer,
    key_offsets: Buffer,
    key_times: Buffer,
    entries: Buffer,
    in_slot: Buffer,
    /,
) -> int: ...
def set_heads(first: int, slots_before: int, in_slot: Buffer, slots: Buffer, stamps: Buffer, /) -> None: ...
