"""The page's port: which path is which view, what a request may be, and how it starts and ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from ...store.errors import FlightlogError, StoreClosedError, UsageError
from ..brokers.off_loop import OffLoop
from . import dead_letters, delays, groups, messages, topics
from .connections import FIRST_REQUEST_S, MAX_CONNECTIONS, Connections
from .guard import Guard, Refusal, add_headers, form_of
from .live import Live
from .site import Answer, Asked, Connected, Opened, PageError, Site, rendered

log = logging.getLogger("flightlog.serve")
access_log = logging.getLogger("flightlog.serve.access")

REQUEST_MAX = 1 << 20
"""Bytes of a form: the ids of some ten thousand dead letters."""
DRAIN_S = 5.0
KEEP_ALIVE_S = 15.0
"""After how long without a request a connection is closed."""
BEAT_S = 15.0
"""After how long without an event a stream says that it is there."""
TOKEN = "token"
View = Callable[[Asked], Answer]

READS: Mapping[str, View] = {
    "/": topics.overview,
    "/topic": topics.topic,
    "/find": messages.find,
    "/message": messages.message,
    "/body": messages.download,
    "/groups": groups.groups,
    "/group": groups.group,
    "/dead": dead_letters.dead_letters,
    "/delays": delays.delays,
    "/live": lambda asked: asked.page("live.html", "Live"),
}
WRITES: Mapping[str, View] = {
    "/redrive": dead_letters.redrive,
    "/reset": groups.reset,
    "/cancel": delays.cancel,
}


class Page:
    """Shows open stores, which it does not close. Used in one event loop."""

    def __init__(
        self,
        stores: Mapping[str, Opened],
        *,
        connected: Connected = dict,
        can_write: bool = False,
        hosts: Iterable[str] = (),
        is_secure: bool = False,
    ) -> None:
        """`stores` by name, each as it is open when it is asked for. `connected` tells the clients of each group.
        `can_write`: whether people may redrive, reset offsets and cancel timers. `hosts`: names of this server besides
        localhost. `is_secure`: whether it is reached by TLS."""
        self.guard = Guard((host.strip("[]") for host in hosts), can_write=can_write, is_secure=is_secure)
        self._is_secure = is_secure
        self._site = Site(stores, connected, can_write, self.guard.form_token)
        self._off_loop = OffLoop()
        self._live = {name: Live(opened, self._off_loop) for name, opened in stores.items()}
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._connections: Connections | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Answer from now on; returns the port, which the system chose if it was 0. Raises OSError."""
        app = web.Application(middlewares=[self._let_in], client_max_size=REQUEST_MAX)
        app.on_response_prepare.append(add_headers)
        for path, view in READS.items():
            app.router.add_get(path, self._reading(view))
        for path, view in WRITES.items():
            app.router.add_post(path, self._writing(view))
        app.router.add_get("/live/events", self._events)
        app.router.add_static("/static", Path(__file__).parent / "static")
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=DRAIN_S, keepalive_timeout=KEEP_ALIVE_S)
        await self._runner.setup()
        assert self._runner.server is not None
        self._connections = Connections(self._runner.server)
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connections,
                *(host, port),
                ssl=tls,
                backlog=MAX_CONNECTIONS,
                ssl_handshake_timeout=FIRST_REQUEST_S if tls is not None else None,
            )
        except BaseException:
            await self._runner.cleanup()
            raise
        found = int(self._listening.sockets[0].getsockname()[1])
        self.guard.cookie_name = f"flightlog-{found}"  # cookies are of a host, whatever the port
        return found

    def link(self, host: str, port: int) -> str:
        """What opens the page in a browser: it has the token."""
        name = "localhost" if host in ("0.0.0.0", "::") else host.strip("[]")
        place = f"[{name}]" if ":" in name else name
        return f"{'https' if self._is_secure else 'http'}://{place}:{port}/?{TOKEN}={self.guard.token}"

    async def stop(self) -> None:
        """Take no more requests, let those that run come to their end, and close."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for live in self._live.values():
            await live.close()
        if self._listening is not None:
            self._listening.close()
        await runner.cleanup()
        await asyncio.get_running_loop().run_in_executor(None, self._off_loop.close)

    # -- requests

    @web.middleware
    async def _let_in(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._connections is not None:
            self._connections.note_request(request.transport)
        try:
            self.guard.check_place(request)
            given = _query(request).get(TOKEN)
            if given is not None and request.method == "GET" and self.guard.opens(given):
                return self._welcome(request)
            await self.guard.check(request)
            return await handler(request)
        except Refusal as e:
            access_log.debug("%s %s of %s was refused: %s", request.method, request.path, request.remote, e)
            return self._failed(e.status, str(e))
        except PageError as e:
            return self._failed(e.status, str(e))
        except FlightlogError as e:
            if isinstance(e, UsageError) and not isinstance(e, StoreClosedError):
                return self._failed(HTTPStatus.BAD_REQUEST, str(e))
            log.warning("the page cannot show %s: %s", request.path, e, extra={"cause": repr(e)})
            return self._failed(HTTPStatus.SERVICE_UNAVAILABLE, str(e))
        except web.HTTPException as e:
            if e.status < HTTPStatus.BAD_REQUEST:
                raise
            return self._failed(HTTPStatus(e.status), e.reason)

    def _failed(self, status: HTTPStatus, text: str) -> web.Response:
        is_known = status is not HTTPStatus.UNAUTHORIZED and status is not HTTPStatus.MISDIRECTED_REQUEST
        names = list(self._site.stores) if is_known and len(self._site.stores) > 1 else []
        body = rendered("failed.html", status=status, text=text, stores=names)
        return web.Response(status=status, text=body, content_type="text/html", charset="utf-8")

    def _welcome(self, request: web.Request) -> web.Response:
        """The cookie, and on to the same address without the token: by a page of ours, because a browser sends a
        strict cookie with no redirect that began at somebody else's link."""
        rest = {name: value for name, value in _query(request).items() if name != TOKEN}
        path = request.path if request.path in READS else "/"
        target = f"{path}?{urlencode(rest)}" if rest else path
        response = web.Response(
            text=rendered("welcome.html", target=target),
            content_type="text/html",
            headers={"Refresh": f"0; url={target}"},
        )
        self.guard.let_in(response)
        return response

    def _reading(self, view: View) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            asked = Asked(self._site, request.path, _query(request), {})
            return _response(await self._off_loop.run(view, asked))

        return answer

    def _writing(self, view: View) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            asked = Asked(self._site, request.path, _query(request), await form_of(request))
            if asked.field("confirmed"):
                fields = {"path": request.path, "peer": request.remote}
                log.info("a person writes by the page: %s", request.path, extra=fields)
            return _response(await self._off_loop.run(view, asked))

        return answer

    async def _events(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(self._site, request.path, _query(request), {})
        live = self._live.get(asked.store_name)
        if live is None:
            raise PageError(f"no store {asked.store_name!r} is served here", HTTPStatus.NOT_FOUND)
        viewer = live.join()
        if viewer is None:
            raise PageError("too many people look at what happens live", HTTPStatus.SERVICE_UNAVAILABLE)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await response.prepare(request)
            while True:
                try:
                    event = await asyncio.wait_for(viewer.get(), BEAT_S)
                except TimeoutError:
                    await response.write(b": still here\n\n")
                    continue
                if event is None:
                    return response
                await response.write(f"data: {event}\n\n".encode())
        except ConnectionResetError:  # nobody looks any more
            return response
        finally:
            live.leave(viewer)


def _query(request: web.Request) -> dict[str, str]:
    return dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))


def _response(answer: Answer) -> web.Response:
    if answer.redirect is not None:
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": answer.redirect})
    if answer.file_name is not None:
        disposition = {"Content-Disposition": f'attachment; filename="{answer.file_name}"'}
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        return web.Response(body=body, content_type=answer.kind, headers=disposition)
    return web.Response(text=str(answer.body), content_type=answer.kind, charset="utf-8")
