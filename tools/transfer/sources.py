"""Messages to put, out of a file that `flightlog export` or `flightlog cat` wrote, or out of a store."""

from __future__ import annotations

import base64
import binascii
import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ...engine.read.selection import Selection
from ...engine.read_only import open_read_only
from ...engine.repair.new_store import KeptMessage
from ...store.errors import UsageError
from ...store.format import property_names as props
from ...store.format.crc_property import CRC_PROPERTY
from ...store.format.sys_flag import HOST_BITS, INNER_BATCH, NEED_UNWRAP, TRANSACTION_MASK
from ...store.message import Message
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ..records.fields import BODY, BODY_BASE64, NAMES
from ..records.parquet import read_parquet

PARQUET_MAGIC: Final = b"PAR1"
CSV_HEADER: Final = b"topic,queue_id,"
LEFT_OUT: Final = frozenset({props.DELAY, CRC_PROPERTY, props.INNER_COUNT, props.INNER_BASE, props.MULTI_QUEUE_OFFSET})
"""Properties that say how a message was stored, or that it is to be delayed: it has been delivered."""
EXPECTED: Final = "expected a message as `flightlog export` writes it"


def read_source(
    source: Path, selection: Selection | None = None, settings: StoreSettings | None = None
) -> Iterator[KeptMessage]:
    """The messages of a file, by its content JSON lines, CSV or Parquet; or those of a store, selected, in the order
    of its log. Raises UsageError for what it does not know, and for a selection of a file; and as reads do; OSError."""
    if source.is_dir():
        with open_read_only(source, settings) as view:
            for message in (selection or Selection()).messages(view):
                yield _of_store(message)
        return
    if selection not in (None, Selection()):
        raise UsageError(f"{source}: a file is imported as a whole: select when you export, or import from the store")
    with source.open("rb") as file:
        beginning = file.read(len(CSV_HEADER))
    rows: Iterator[tuple[str, dict[str, Any]]]
    if beginning.startswith(PARQUET_MAGIC):
        rows = ((f"{source}: row {number}", row) for number, row in enumerate(read_parquet(source), 1))
    elif beginning == CSV_HEADER:
        rows = _csv_rows(source)
    else:
        rows = _json_rows(source)
    for where, row in rows:
        yield _of_row(row, where)


def as_they_were(settings: StoreSettings) -> StoreSettings:
    """`settings` for a store that gets messages of a source: they are not new, so that their topics may have names, and
    they bodies, that RocketMQ's clients refuse."""
    return replace(settings, rocketmq_strict=False)


def _json_rows(source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with source.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{source}: line {number}"
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as e:
                raise UsageError(f"{where}: {e}: {EXPECTED}") from e
            if not isinstance(found, dict):
                raise UsageError(f"{where}: found {type(found).__name__}, expected an object of JSON")
            if not line.endswith(b"\n"):
                raise UsageError(f"{where}: it has no end: the file was cut. Export it again")
            yield where, found


def _csv_rows(source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    csv.field_size_limit(sys.maxsize)
    with source.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames != [*NAMES, BODY, BODY_BASE64]:
            raise UsageError(f"{source}: line 1: expected the header of a file that `flightlog export` wrote")
        for row in rows:
            where = f"{source}: line {rows.line_num}"
            if None in row or None in row.values():
                raise UsageError(f"{where}: found a row of another length than the header: the file was cut")
            try:
                row["properties"] = json.loads(row["properties"])
            except (ValueError, RecursionError) as e:
                raise UsageError(f"{where}: properties: {e}: {EXPECTED}") from e
            if row[BODY_BASE64]:
                del row[BODY]
            yield where, row


def _of_row(found: dict[str, Any], where: str) -> KeptMessage:
    """Raises UsageError."""
    try:
        body = found.get(BODY)
        if body is None:
            body = base64.b64decode(found[BODY_BASE64], validate=True)
        message = Message(
            str(found["topic"]),
            body.encode() if isinstance(body, str) else body,
            properties=_kept({str(name): str(value) for name, value in found["properties"].items()}),
            queue_id=int(found["queue_id"]),
            flag=int(found["flag"]),
            born_timestamp_ms=_time_ms(found["born_time"]),
            born_host=_host(found["born_host"]),
            sys_flag=_kept_flags(int(found["sys_flag"])),
            reconsume_times=int(found["reconsume_times"]),
        )
        store_time, store_host = _time_ms(found["store_time"]), _host(found["store_host"])
        return KeptMessage(where, message, int(found["queue_offset"]), store_time, store_host)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as e:
        raise UsageError(f"{where}: {type(e).__name__} {e}: {EXPECTED}") from e


def _of_store(stored: StoredMessage) -> KeptMessage:
    message = Message(
        stored.topic,
        stored.body,
        properties=_kept(dict(stored.properties)),
        queue_id=stored.queue_id,
        flag=stored.flag,
        born_timestamp_ms=stored.born_timestamp_ms,
        born_host=(stored.born_host.address, stored.born_host.port),
        sys_flag=_kept_flags(stored.sys_flag),
        reconsume_times=stored.reconsume_times,
    )
    where = f"topic {stored.topic} queue {stored.queue_id} offset {stored.queue_offset}"
    store_host = stored.store_host.address, stored.store_host.port
    return KeptMessage(where, message, stored.queue_offset, stored.store_timestamp_ms, store_host)


def _kept(properties: dict[str, str]) -> dict[str, str]:
    left_out = LEFT_OUT
    if props.TIMER_OUT_MS not in properties:  # else it is a delivered timer, and does not ask for one
        left_out = left_out.union(props.TIMER_PROPERTIES)
    return {name: value for name, value in properties.items() if name not in left_out}


def _kept_flags(sys_flag: int) -> int:
    return sys_flag & ~(HOST_BITS | INNER_BATCH | NEED_UNWRAP | TRANSACTION_MASK)


def _time_ms(found: int | str) -> int:
    """Milliseconds from a number, or from text as `iso_time` writes it."""
    if isinstance(found, int):
        return found
    if found.lstrip("-").isdecimal():
        return int(found)
    return (datetime.fromisoformat(found) - EPOCH) // timedelta(milliseconds=1)


EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00Z")


def _host(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.removeprefix("[").removesuffix("]"), int(port)
