"""Messages that the store keeps for clients while they work on them (`auto_renew`).

A push consumer asks for no invisible time. Its messages are received with `renew=True`: the store prolongs their time,
a slice at a time, and takes the handle that the client has for the one that counts. This knows which client has them,
so that others receive them soon once it is gone.

RocketMQ: `DefaultReceiptHandleManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...consume.pop.popped import PopHandle
from ...store.errors import FlightlogError
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop

log = logging.getLogger("flightlog.serve")

SLICE_MS = 60_000
"""`renewSliceTimeMillis`"""
GIVEN_BACK_MS = 1_000
"""How long a message stays invisible whose client is gone (`invisibleTimeMillisWhenClear`)."""


class KeptMessages:
    """The messages that clients of one broker keep. Thread-safe: each step is one operation on a dict."""

    def __init__(self, broker: Broker, off_loop: OffLoop) -> None:
        self._broker, self._off_loop, self._in_flight = broker, off_loop, broker.traffic.in_flight
        self._clients: dict[PopHandle, str] = {}
        """The client that has the message, by the handle that it has."""

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, client_id: str, handles: Iterable[PopHandle]) -> None:
        for handle in handles:
            self._clients[handle] = client_id
            self._in_flight.note_kept(handle, 1)

    def forget(self, handle: PopHandle) -> bool:
        """The client says what becomes of the message. Returns whether it was kept."""
        was_kept = self._clients.pop(handle, None) is not None
        if was_kept:
            self._in_flight.note_kept(handle, -1)
        return was_kept

    def forget_client(self, client_id: str) -> None:
        """Have others receive what the client worked on."""
        for handle, has_it in tuple(self._clients.items()):
            if has_it == client_id and self.forget(handle):
                self._off_loop.submit(give_back, self._broker, handle)

    def sweep(self) -> None:
        """Forget what the store prolongs no more: it comes again."""
        renewals = self._broker.store.pop_service.renewals
        for handle in tuple(self._clients):
            if handle not in renewals:
                self.forget(handle)


def give_back(broker: Broker, *handles: PopHandle) -> None:
    """Have others receive these messages soon. By a thread: it may wait for the disk."""
    for handle in handles:
        try:
            broker.store.change_invisible(handle, GIVEN_BACK_MS)
        except FlightlogError as e:
            log.info("a message comes again when its time is over: %s", e, extra={"cause": repr(e)})
