"""A served store with its page, and a browser of few words: requests with the cookie of the page's link."""

from __future__ import annotations

import asyncio
import http.client
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.consume.retry.send_back import send_to_dead_letters
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.page.page import Page
from flightlog.serve.server import Server
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

HOSTILE = "<script>alert('x')</script>&\"'\u202e\x07"
"""A key, a group's client id, a body: whatever a client sends."""
UNIQ_KEY = "7F0000010F1C00000000000000000007"
LATER_MS = 3_600_000


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """What a person reads, without the last line: any digits may stand in its folder and its time."""
        reader = _Reader()
        reader.feed(self.text.partition("<footer>")[0])
        return " ".join(" ".join(reader.found).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)


class Browser:
    """One that was let in, unless its cookie is taken away."""

    def __init__(self, port: int, link: str) -> None:
        self.port, self.link = port, link
        self.cookie = ""
        self.cookie = self.get(link.partition(f":{port}")[2]).headers["set-cookie"].partition(";")[0]

    def get(self, path: str, **headers: str) -> Got:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, fields: Mapping[str, str | Sequence[str]], **headers: str) -> Got:
        """As a form of the page is sent: with its Origin, and not with its token, unless `fields` has it."""
        given = {"Origin": f"http://127.0.0.1:{self.port}", **headers}
        return self._ask("POST", path, urlencode(fields, doseq=True), given)

    def form_token(self, path: str) -> str:
        found = re.search(r'name="form_token" value="([^"]+)"', self.get(path).text)
        assert found is not None, "the page has no form"
        return found[1]

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Got:
        given = {"Cookie": self.cookie, **headers}
        if body is not None:
            given["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Got(answer.status, found, answer.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class Shown:
    """A store, the port of its server, and its page."""

    store: Store
    served_port: int
    port: int
    link: str


@contextmanager
def shown(
    store: Store, *others: Store, can_write: bool = True, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[Shown]:
    """The store served with its page, in a thread with an event loop of its own; the page shows others, too."""
    ending: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    started: Future[Shown] = Future()

    async def serve() -> None:
        server = Server([Broker.of(store)])
        stores = {each.path.name: _opened(each) for each in (store, *others)}
        page = Page(stores, connected=server.consumers, can_write=can_write, is_secure=tls is not None)
        event = asyncio.Event()
        ending.set_result((asyncio.get_running_loop(), event))
        try:
            served_port = await server.start(port=0)
            found = await page.start("127.0.0.1", port, tls)
        except BaseException as e:
            started.set_exception(e)
            await server.stop()
            return
        started.set_result(Shown(store, served_port, found, page.link("127.0.0.1", found)))
        await event.wait()
        await asyncio.gather(server.stop(), page.stop())

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="served-page")
    thread.start()
    try:
        yield started.result(PATIENCE_S)
    finally:
        loop, event = ending.result(PATIENCE_S)
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the page does not end"


def _opened(store: Store) -> Callable[[], Store]:
    return lambda: store


def fill(store: Store) -> None:
    """What a person may look for: a message with hostile names, a group that lags in one queue, one with three dead
    letters, a timer and a message of a delay level."""
    store.create_topic("orders", 4)
    store.create_topic("mails", 1)
    for number in range(200):
        properties = {"UNIQ_KEY": f"{UNIQ_KEY[:-3]}{number:03X}", "trace": f"t{number}"}
        body = b'{"order": %d}' % number
        store.put(
            Message("orders", body, keys=f"order-{number}", tags="paid", queue_id=number % 4, properties=properties)
        )
    store.put(Message("mails", HOSTILE.encode() * 1000, keys=HOSTILE, tags=HOSTILE, properties={HOSTILE: HOSTILE}))
    for queue_id in range(4):
        store.commit_offset("billing", "orders", queue_id, 4 if queue_id == 3 else 50)
        store.commit_offset("mailer", "orders", queue_id, 50)
    for queue_id in range(3):
        [failed] = store.get("orders", queue_id, 10, 1).messages
        send_to_dead_letters(store.message_store, "mailer", failed, 3)
    at_ms = store.message_store.clock.now_ms() + LATER_MS
    timer = {"TIMER_DELIVER_MS": str(at_ms), "UNIQ_KEY": "AB01"}
    store.put(Message("mails", b"remind me", keys="reminder-1", properties=timer))
    store.put(Message("mails", b"remind me later", keys="reminder-2", delay_level=18))


@pytest.fixture
def store(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Store]:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as opened:
        fill(opened)
        yield opened
    assert_clean(path)


@pytest.fixture
def page(store: Store) -> Iterator[Shown]:
    with shown(store) as found:
        yield found


@pytest.fixture
def browser(page: Shown) -> Browser:
    return Browser(page.port, page.link)
