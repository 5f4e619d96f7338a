"""What happens now: messages as they arrive, and how far groups are behind, as server-sent events.

While somebody looks, the ends of all queues are asked for once a second, once for all viewers.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...store.errors import FlightlogError
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ...store.topic import is_system_topic
from ..brokers.off_loop import OffLoop
from .shown import preview, time, visible
from .site import Opened
from .topics import newest_first, read_some

log = logging.getLogger("flightlog.serve")

EVERY_S = 1.0
REST = 10
"""How many times as long as a look took nothing is looked at: in a store of many queues at most a tenth of a core."""
SHOWN_MAX = 25
"""Messages of one event; of more the count is shown."""
VIEWERS_MAX = 16
WAITING_MAX = 8
"""Events that a viewer may be behind; then it misses some, and is told."""


class Live:
    """Live events of one store. Used in one event loop."""

    def __init__(self, opened: Opened, off_loop: OffLoop) -> None:
        self._opened, self._off_loop = opened, off_loop
        self._viewers: set[asyncio.Queue[str | None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    def join(self) -> asyncio.Queue[str | None] | None:
        """A queue of events for one viewer; None in it is the end. None: there are too many viewers."""
        if len(self._viewers) >= VIEWERS_MAX or self._is_closed:
            return None
        viewer: asyncio.Queue[str | None] = asyncio.Queue(WAITING_MAX)
        self._viewers.add(viewer)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return viewer

    def leave(self, viewer: asyncio.Queue[str | None]) -> None:
        self._viewers.discard(viewer)

    async def close(self) -> None:
        """End the streams of all viewers."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        for viewer in self._viewers:
            while viewer.full():
                viewer.get_nowait()
            viewer.put_nowait(None)

    async def _look(self) -> None:
        loop, ends = asyncio.get_running_loop(), None
        while self._viewers:
            began_s = loop.time()
            try:
                ends, event = await self._off_loop.run(self._event, ends)
            except FlightlogError as e:
                log.warning("the page cannot show what arrives: %s", e, extra={"cause": repr(e)})
                event = {"error": str(e)}
            self.tell(event)
            await asyncio.sleep(max(EVERY_S, REST * (loop.time() - began_s)))

    def tell(self, event: Mapping[str, Any]) -> None:
        """Show every viewer this event; one that is too far behind sees it alone, and how many it missed."""
        text = json.dumps(event)
        for viewer in self._viewers:
            if viewer.full():
                missed = viewer.qsize()
                while not viewer.empty():
                    viewer.get_nowait()
                viewer.put_nowait(json.dumps({"missed": missed}))
            viewer.put_nowait(text)

    def _event(self, before: Mapping[QueueKey, int] | None) -> tuple[dict[QueueKey, int], dict[str, Any]]:
        """The ends of queues now, and what came since those before. By a thread."""
        store = self._opened()
        ends = {key: end for key, (_, end) in store.queues().items() if not is_system_topic(key[0])}
        grown = {
            key: (before.get(key, 0), end)
            for key, end in ends.items()
            if before is not None and end > before.get(key, 0)
        }
        total = sum(end - start for start, end in grown.values())
        messages: list[StoredMessage] = []
        for (topic, queue_id), (start, end) in grown.items():
            messages += read_some(store, topic, queue_id, max(start, end - SHOWN_MAX), end)
        shown = newest_first(messages)[:SHOWN_MAX]
        groups = {visible(name): state.lag for name, state in store.groups().items()}
        return ends, {
            "messages": [_fields(each) for each in shown],
            "more": total - len(shown),
            "groups": groups,
            "at": time(store.message_store.clock.now_ms()),
        }


def _fields(message: StoredMessage) -> dict[str, Any]:
    return {
        "time": time(message.store_timestamp_ms),
        "topic": visible(message.topic),
        "queue": message.queue_id,
        "keys": visible(" ".join(message.keys)),
        "body": preview(message),
        "at": message.physical_offset,
        "batch": message.batch_index,
    }
