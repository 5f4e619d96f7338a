"""The page's port: by TLS, for several stores, and where it cannot be had."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message
from flightlog.serve.brokers.off_loop import OffLoop
from flightlog.serve.http2.certificates import browser_tls, development_tls
from flightlog.serve.page import connections
from flightlog.serve.page.live import WAITING_MAX, Live
from flightlog.serve.program import ServeOptions, run
from flightlog.tests.serve.page.conftest import Browser, Shown, shown
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from flightlog import Store
    from flightlog.tests.conftest import AssertClean


def test_by_tls_the_cookie_is_for_tls_alone(store: Store, tmp_path: Path) -> None:
    development_tls(tmp_path / "tls", ())
    with shown(store, tls=browser_tls(tmp_path / "tls")) as page:
        assert page.link.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
        trusting.set_alpn_protocols(["h2", "http/1.1"])
        connection = http.client.HTTPSConnection("127.0.0.1", page.port, timeout=PATIENCE_S, context=trusting)
        connection.request("GET", page.link.partition(f":{page.port}")[2])
        answer = connection.getresponse()
        assert answer.status == 200
        assert "Secure" in {each.strip() for each in answer.headers["Set-Cookie"].split(";")}
        connection.close()


def test_each_of_several_stores_is_shown_by_its_own_links(
    store: Store, tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = tmp_path / "other&store"
    with flightlog.open(path, flightlog.StoreSettings.small()) as other, shown(store, other) as page:
        other.put(Message("invoices", b"one", keys="invoice-1"))
        browser = Browser(page.port, page.link)
        assert "orders" in browser.get("/").words and "invoices" not in browser.get("/").words
        answer = browser.get("/?store=other%26store")
        assert "invoices" in answer.words and "orders" not in answer.words
        assert 'href="/topic?store=other%26store&amp;name=invoices"' in answer.text
        assert 'name="store" value="other&amp;store"' in answer.text
        found = browser.get("/find?store=other%26store&text=invoice-1")
        assert found.headers["location"] == "/message?store=other%26store&at=0"
        other.close()
        failed = browser.get("/?store=other%26store")
        assert failed.status == 503 and 'href="/?store=store"' in failed.text
        assert browser.get("/").status == 200
    assert_clean(path)


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(flightlog.InvalidArgumentError, match="--ui"):
            run(ServeOptions((tmp_path / "store",), port=0, ui=port))


def test_a_browser_that_is_too_slow_is_told_what_it_missed(store: Store) -> None:
    async def look() -> list[object]:
        live = Live(lambda: store, OffLoop())
        viewer = live.join()
        assert viewer is not None
        for number in range(WAITING_MAX + 1):
            live.tell({"number": number})
        found = [json.loads(viewer.get_nowait() or "null") for _ in range(viewer.qsize())]
        await live.close()
        assert viewer.get_nowait() is None
        assert live.join() is None
        return found

    assert asyncio.run(look()) == [{"missed": WAITING_MAX}, {"number": WAITING_MAX}]


def test_connections_are_limited_and_ask_for_something_soon(
    browser: Browser, page: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    held = [socket.create_connection(("127.0.0.1", page.port), PATIENCE_S) for _ in range(3)]
    held[0].sendall(b"GET /static/page.css HTTP/1.1\r\nHost: localhost\r\n\r\n")  # answered, and kept open
    assert held[0].recv(1 << 16).startswith(b"HTTP/1.1 200")
    for each in held[1:]:
        each.sendall(b"GET / HTTP/1.1\r\n")  # and no more
    with socket.create_connection(("127.0.0.1", page.port), PATIENCE_S) as refused:
        assert closed(refused)
    held[0].close()
    while True:  # until the server knows
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            assert browser.get("/").status == 200
            break
    monkeypatch.setattr(connections, "FIRST_REQUEST_S", 0.01)
    with socket.create_connection(("127.0.0.1", page.port), PATIENCE_S) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert closed(slow)
    for each in held:
        each.close()


def closed(connection: socket.socket) -> bool:
    """Waits until the server has closed it."""
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True
