"""Messages by their id or by a key."""

from __future__ import annotations

from ....consume.store import Store
from ....store.stored_message import StoredMessage
from ...brokers.off_loop import OffLoop
from ..wire.codes import ResponseCode
from ..wire.message_bytes import record_of
from .request import Answer, CommandRefused, Request

MAX_COUNT = 64
"""`defaultQueryMaxNum`"""
MAX_SIZE = 8 << 20
"""Bytes of the records of an answer."""


class Lookups:
    """In one event loop."""

    def __init__(self, store: Store, off_loop: OffLoop) -> None:
        self._store, self._off_loop = store, off_loop

    async def by_id(self, request: Request) -> Answer:
        """A message id has the offset of its record in the log."""
        offset = request.whole("offset")
        found = await self._off_loop.run(self._store.message_at, offset) if offset >= 0 else None
        if found is None:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return Answer(body=record_of(found))

    async def by_key(self, request: Request) -> Answer:
        found = await self._off_loop.run(self._query, request)
        if not found:
            raise CommandRefused(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        newest = max(message.physical_offset for message in found)
        fields = {
            "indexLastUpdateTimestamp": max(message.store_timestamp_ms for message in found),
            "indexLastUpdatePhyoffset": newest,
        }
        records: list[bytes] = []
        size = 0
        for message in found:
            size += message.size
            if records and size > MAX_SIZE:
                break
            records.append(record_of(message))
        return Answer(fields, b"".join(records))

    def _query(self, request: Request) -> list[StoredMessage]:
        begin_ms, end_ms = max(request.whole("beginTimestamp"), 0), max(request.whole("endTimestamp"), 0)
        count = min(max(request.whole("maxNum"), 1), MAX_COUNT)
        return self._store.query(request.text("topic"), request.text("key"), begin_ms, end_ms, count).messages
