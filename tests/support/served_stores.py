"""Servers on loopback that stores are read from, and that count what they were asked for.

with object_store() as server: ...       S3 (moto's), `server.options` for the option storageOptions
with http_folder(root) as server: ...    a folder behind HTTP, with pages that list it, and ranges
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")
ACCESS = {"access_key": "tests", "secret_key": "tests", "region": "us-east-1", "scheme": "http"}


@dataclass
class Request:
    """One that was answered."""

    method: str
    path: str
    query: str
    status: int
    size: int = 0
    """Bytes of the answer's body."""


@dataclass
class Server:
    """What tests ask it."""

    address: str
    """host:port"""
    requests: list[Request] = field(default_factory=list)
    fault: Callable[[Request], str | None] = lambda request: None
    """What is to go wrong with a request: "cut" in the middle of its body, "refuse" it, or answer it "whole", whatever
    the range."""

    @property
    def options(self) -> str:
        """The option storageOptions for S3."""
        return json.dumps({**ACCESS, "endpoint_override": self.address})

    def fetched(self, part: str = "") -> int:
        """Bytes of what has this in its path."""
        return sum(request.size for request in self.requests if part in request.path)

    def count(self, part: str = "") -> int:
        """Requests for what has this in its path or its query."""
        return sum(part in request.path or part in request.query for request in self.requests)


@contextmanager
def object_store() -> Iterator[Server]:
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    server = Server("")
    application = create_backend_app("s3")  # to dispatch among all of Amazon's services would import them all

    def counted(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", ""), 0)

        def start(status: str, *rest: Any) -> Any:
            request.status = int(status.split()[0])
            return start_response(status, *rest)

        server.requests.append(request)
        for chunk in application(environ, start):
            request.size += len(chunk)
            yield chunk

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None: ...

    made = make_server("127.0.0.1", 0, counted, threaded=True, request_handler=Quiet)
    server.address = f"127.0.0.1:{made.server_port}"
    with _running(made):
        yield server


class _Http(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up when they are done: that is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def http_folder(root: Path) -> Iterator[Server]:
    server = Server("")

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits for the client to have acknowledged its headers

        def log_message(self, format: str, *args: Any) -> None: ...

        def do_GET(self) -> None:
            self._answer("GET")

        def do_HEAD(self) -> None:
            self._answer("HEAD")

        def _answer(self, method: str) -> None:
            request = Request(method, self.path, "", 0)
            server.requests.append(request)
            fault = server.fault(request)
            path = Path(self.translate_path(self.path))
            if fault == "refuse":
                request.status = HTTPStatus.FORBIDDEN
                return self.send_error(HTTPStatus.FORBIDDEN)
            if not path.is_file():
                return super().do_GET() if method == "GET" else super().do_HEAD()
            total = path.stat().st_size
            wanted = None if fault == "whole" else RANGE.fullmatch(self.headers.get("Range", ""))
            first, last = (int(wanted[1]), int(wanted[2] or total - 1)) if wanted else (0, total - 1)
            last = min(last, total - 1)
            request.status = HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK
            self.send_response(request.status)
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("Accept-Ranges", "bytes")
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
            self.end_headers()
            if method == "GET":
                with open(path, "rb") as file:
                    file.seek(first)
                    body = file.read(last - first + 1)
                if fault == "cut":
                    body, self.close_connection = body[: len(body) // 2], True
                request.size = len(body)
                self.wfile.write(body)

    made = _Http(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    server.address = f"127.0.0.1:{made.server_port}"
    with _running(made):
        yield server


@contextmanager
def _running(made: Any) -> Iterator[None]:
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        made.shutdown()
        thread.join()
        made.server_close()
