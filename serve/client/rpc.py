"""Calls of RocketMQ's MessagingService, over as many connections as there are calls at a time.

Invariants:
- A call that may be repeated (`repeats`) is repeated until its time is over, whatever happened to its connection.
- Any other call is repeated only if the server cannot have done it.
- A connection is used by the process that made it alone: a forked child makes its own.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
import threading
import time
import uuid
from typing import Any

from ...store.errors import StoreClosedError
from ..calls.protocol import RESPONSES, SERVICE_NAME
from .client_connection import ClientConnection, LostError, StatusError
from .client_errors import ServerRefusedError, ServerUnavailableError

PAUSE_S = 0.05
"""Before a call is repeated."""
IDLE_S = 45.0
"""After how long without a call a connection is not used again: the server asks for a sign of life after 60 s."""
CLIENT_VERSION = "5.1.0"
"""Protocol version: RocketMQ's clients of this version send all the fields that are sent here."""
LOST = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE")
"""gRPC's codes that leave it open what the server did."""


class Rpc:
    """Thread-safe, and in forked children."""

    def __init__(
        self, address: str, timeout_s: float, *, tls: ssl.SSLContext | None, keys: tuple[str, str] | None
    ) -> None:
        """`keys`: access key and secret key."""
        self.address, self.timeout_s = address, timeout_s
        self._tls, self._keys = tls, keys
        self._begin()
        self.is_closed = False

    def _begin(self) -> None:
        self._pid, self._client_id = os.getpid(), f"flightlog-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._idle: list[ClientConnection] = []
        self._at_work: set[ClientConnection] = set()

    def call(self, name: str, request: Any, *, repeats: bool, wait_s: float = 0.0) -> list[Any]:
        """The responses of a call, one unless it is a stream, which may take `wait_s` longer than others. Raises
        ServerUnavailableError, ServerRefusedError, StoreClosedError."""
        data, due_s, may_be_done = request.SerializeToString(), time.monotonic() + self.timeout_s, False
        while True:
            try:
                found = self._try(name, data, due_s, wait_s)
                return [RESPONSES[name].FromString(each) for each in found]
            except (OSError, LostError) as e:
                self._check_open()
                may_be_done |= isinstance(e, LostError) and e.was_sent
                is_over = time.monotonic() + PAUSE_S > due_s or isinstance(e, ssl.SSLCertVerificationError)
                if is_over or (may_be_done and not repeats):
                    raise ServerUnavailableError(self.address, name, str(e), may_be_done=may_be_done) from e
            time.sleep(PAUSE_S)

    def _try(self, name: str, data: bytes, due_s: float, wait_s: float) -> list[bytes]:
        """Raises OSError where there is no connection, LostError where it was lost."""
        connection = self._take(due_s)
        try:
            found = connection.call(f"/{SERVICE_NAME}/{name}", self._headers(), data, due_s + wait_s)
        except StatusError as e:
            if e.code in LOST:
                raise LostError(str(e), was_sent=True) from e
            raise ServerRefusedError(self.address, name, e.code, e.text) from e
        except BaseException:
            connection.close()
            raise
        else:
            with self._lock:
                if not self.is_closed:
                    self._idle.append(connection)
                    return found
            connection.close()
            return found
        finally:
            self._at_work.discard(connection)

    def _take(self, due_s: float) -> ClientConnection:
        """A connection that is idle, or a new one. Raises OSError, StoreClosedError."""
        if self._pid != os.getpid():
            for inherited in (*self._idle, *self._at_work):
                inherited.close()
            self._begin()
        while True:
            with self._lock:
                self._check_open()
                found = self._idle.pop() if self._idle else None
                if found is not None:
                    self._at_work.add(found)
            if found is None:
                break
            if time.monotonic() - found.used_s < IDLE_S and found.is_reusable():
                return found
            self._at_work.discard(found)
            found.close()
        made = ClientConnection(self.address, self._tls, max(due_s - time.monotonic(), PAUSE_S))
        with self._lock:
            if not self.is_closed:
                self._at_work.add(made)
                return made
        made.close()
        self._check_open()
        return made

    def _check_open(self) -> None:
        if self.is_closed:
            raise StoreClosedError(f"{self.address}: this connection was closed; connect again")

    def _headers(self) -> list[tuple[str, str]]:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers = [
            ("x-mq-client-id", self._client_id),
            ("x-mq-client-version", CLIENT_VERSION),
            ("x-mq-language", "PYTHON"),
            ("x-mq-protocol", "GRPC_V2"),
            ("x-mq-date-time", stamp),
            ("x-mq-request-id", uuid.uuid4().hex),
        ]
        if self._keys is not None:
            access_key, secret_key = self._keys
            signature = hmac.new(secret_key.encode(), stamp.encode(), hashlib.sha1).hexdigest().upper()
            signed = f"Credential={access_key}, SignedHeaders=x-mq-date-time, Signature={signature}"
            headers.append(("authorization", f"MQv2-HMAC-SHA1 {signed}"))
        return headers

    def close(self) -> None:
        """End the calls that run, and every connection of this process."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, []
            at_work = tuple(self._at_work)
        for connection in idle:
            connection.close()
        if self._pid == os.getpid():
            for connection in at_work:
                connection.abort()
