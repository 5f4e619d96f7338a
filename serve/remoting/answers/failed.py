"""Messages that a consumer could not process: it sends them back, to receive them again later or never."""

from __future__ import annotations

from ....consume.retry.send_back import send_to_dead_letters, send_to_retry
from ....consume.store import Store
from ....store.results import PutResult
from ...brokers.off_loop import OffLoop
from ..wire.codes import ResponseCode
from .request import Answer, CommandRefused, Request


class Failed:
    """In one event loop."""

    def __init__(self, store: Store, off_loop: OffLoop) -> None:
        self._store, self._off_loop = store, off_loop

    async def send_back(self, request: Request) -> Answer:
        await self._off_loop.run(self._send_back, request)
        return Answer()

    def _send_back(self, request: Request) -> PutResult:
        group, level, store = request.text("group"), request.whole("delayLevel"), self._store.message_store
        message = self._store.message_at(request.whole("offset"))
        if message is None:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {request.whole('offset')}")
        settings = self._store.group_settings(group)
        most = request.whole("maxReconsumeTimes", settings.retry_max_times)
        attempt = message.reconsume_times + 1
        if level < 0 or message.reconsume_times >= most:
            return send_to_dead_letters(store, group, message, attempt)
        return send_to_retry(store, group, message, attempt, delay_level=level, queue_count=settings.retry_queue_count)
