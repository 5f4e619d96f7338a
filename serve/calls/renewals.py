"""Messages whose invisible time the server prolongs while their client works on them (`auto_renew`).

A push consumer asks for no invisible time. Its messages are invisible for a slice, which is prolonged before it ends as
long as the client is connected, for `LONGEST_MS` at most. The client names a message by the handle that it got; this
knows which one counts.

RocketMQ: `DefaultReceiptHandleManager`, `RenewStrategyPolicy`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.popped import PopHandle, words_of
from ...store.errors import FlightlogError
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop

log = logging.getLogger("flightlog.serve")

SLICE_MS = 60_000
"""`renewSliceTimeMillis`"""
AHEAD_MS = 10_000
"""How long before its end a slice is prolonged (`renewAheadTimeMillis`)."""
LONGEST_MS = 3 * 3_600_000
"""`renewMaxTimeMillis`"""
MAX_FAILURES = 3
"""`maxRenewRetryTimes`"""
GIVEN_BACK_MS = 1_000
"""How long a message stays invisible whose client is gone (`invisibleTimeMillisWhenClear`)."""


@dataclass
class _Renewed:
    handle: PopHandle
    expires_ms: int
    began_ms: int
    failures: int = 0


class Renewals:
    """Safe from many threads: each step is one operation on a dict."""

    def __init__(self, broker: Broker, off_loop: OffLoop) -> None:
        self._broker, self._off_loop = broker, off_loop
        self._renewed: dict[tuple[str, str, str, str], _Renewed] = {}
        """By client, group, topic and the handle that the client has."""

    def add(self, client_id: str, handle: PopHandle) -> None:
        key = client_id, handle.group, handle.topic, handle.extra_info
        self._renewed[key] = _Renewed(handle, _expires_ms(handle), self._now_ms())

    def _now_ms(self) -> int:
        return self._broker.store.message_store.clock.now_ms()

    def take(self, client_id: str, handle: PopHandle) -> PopHandle:
        """The handle that counts; it is prolonged no more."""
        found = self._renewed.pop((client_id, handle.group, handle.topic, handle.extra_info), None)
        return handle if found is None else found.handle

    def renew_due(self) -> None:
        """Prolong what ends soon. By any thread, one at a time."""
        now_ms = self._now_ms()
        for key, each in tuple(self._renewed.items()):
            if each.expires_ms - now_ms > AHEAD_MS:
                continue
            is_over = now_ms - each.began_ms > LONGEST_MS or each.failures >= MAX_FAILURES
            if is_over:
                self._renewed.pop(key, None)
                continue
            try:
                handle = self._broker.store.change_invisible(each.handle, SLICE_MS)
            except ExpiredHandleError:
                self._renewed.pop(key, None)
            except FlightlogError as e:
                each.failures += 1
                log.warning("a message was not kept for its client: %s", e, extra={"cause": repr(e)})
            else:
                each.handle, each.expires_ms = handle, _expires_ms(handle)
                if key not in self._renewed:  # it was acknowledged meanwhile, by the handle before
                    self._acknowledge(handle)

    def _acknowledge(self, handle: PopHandle) -> None:
        try:
            self._broker.store.ack(handle)
        except FlightlogError as e:
            log.warning("a message that was acknowledged may come again: %s", e, extra={"cause": repr(e)})

    def forget_client(self, client_id: str) -> None:
        """Have others receive what the client worked on."""
        for key in tuple(self._renewed):
            if key[0] == client_id and (found := self._renewed.pop(key, None)) is not None:
                self._off_loop.submit(self.give_back, found.handle)

    def give_back(self, *handles: PopHandle) -> None:
        """Have others receive these messages soon."""
        for handle in handles:
            try:
                self._broker.store.change_invisible(handle, GIVEN_BACK_MS)
            except FlightlogError as e:
                log.info("a message comes again when its time is over: %s", e, extra={"cause": repr(e)})


def _expires_ms(handle: PopHandle) -> int:
    words, _ = words_of(handle)
    return words.expires_ms
