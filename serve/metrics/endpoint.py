"""Answers `/metrics`, `/health` and `/ready` by HTTP, in threads of its own: no event loop waits for them."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Collection, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from ...store.errors import FlightlogError
from .store_metrics import BrokerMetrics
from .watched import Watched

log = logging.getLogger("flightlog.serve")
access_log = logging.getLogger("flightlog.serve.access")

AT_A_TIME = 16
"""Requests; a connection above that is closed."""
SILENT_S = 5.0
"""How long a client may keep its thread waiting for the next bytes."""
ENDING_S = 0.1
"""How often the thread that accepts looks whether it is to end."""
ONE = "/health/"
"""Before the name of a broker."""
PLAIN = "text/plain; charset=utf-8"


class Endpoint:
    """Listens from the moment that it is made; `with` ends it. It answers until then, also while a server drains."""

    def __init__(self, brokers: Sequence[Watched], is_ready: threading.Event, host: str, port: int) -> None:
        """`is_ready`: whether clients are taken. With port 0 the system chooses one. Raises OSError."""
        self._brokers, self._is_ready = {broker.name: broker for broker in brokers}, is_ready
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(BrokerMetrics(brokers))
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self._server = _Server(family, address, partial(_Handler, self))
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(ENDING_S,), name="flightlog-metrics", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for no request: one that is at work finds the store closed."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, type and body."""
        if path == "/metrics":
            try:
                return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry)
            except FlightlogError as e:
                log.warning("metrics cannot be read: %s", e, extra={"cause": repr(e)})
                return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"the store cannot be read\n"
        if path == "/health":
            return _health(self._brokers.values())
        if path.startswith(ONE) and (broker := self._brokers.get(path.removeprefix(ONE))) is not None:
            return _health([broker])
        if path == "/ready":
            if not self._is_ready.is_set():
                return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"no clients are taken\n"
            return HTTPStatus.OK, PLAIN, b"ok\n"
        return HTTPStatus.NOT_FOUND, PLAIN, b"there are /metrics, /health, /health/BROKER and /ready\n"


def _health(brokers: Collection[Watched]) -> tuple[HTTPStatus, str, bytes]:
    """Whether any of these takes messages, with a line for each that does not."""
    lost = [f"{broker.name}: {broker.reason}\n" for broker in brokers if not broker.is_up]
    if len(lost) == len(brokers):
        return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, ("no more messages are taken\n" + "".join(lost)).encode()
    return HTTPStatus.OK, PLAIN, ("ok\n" + "".join(lost)).encode()


class _Server(ThreadingMixIn, TCPServer):
    """Not HTTPServer, which looks up the name of its address."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = AT_A_TIME

    def __init__(self, family: int, address: Any, handler: Any) -> None:
        self.address_family = family
        self._free = threading.Semaphore(AT_A_TIME)
        super().__init__(address, handler)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:  # no descriptor is left: not again at once
            time.sleep(ENDING_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        access_log.debug("a request of %s was not answered", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = SILENT_S
    server_version, sys_version = "flightlog", ""

    def __init__(self, endpoint: Endpoint, *request: Any) -> None:
        self._endpoint = endpoint
        super().__init__(*request)

    def do_GET(self) -> None:
        code, kind, body = self._endpoint.answer(self.path.partition("?")[0])
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        access_log.debug(format, *args)
