"""Who is let in to the page, and from where.

- A request names this server in `Host`, so that no name of somebody else's that leads here (DNS rebinding) reads it.
- The link that is shown at the start has a token; the browser that opens it gets a cookie. Without either nothing is
  answered but the style sheet, the script and the icon.
- A write comes from this very page: its `Origin` is the `Host`, and its form has a token that only the page shows.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

TOKEN_SIZE = 32
"""Bytes from the system's random source."""
OPEN_PATHS = ("/static/page.css", "/static/page.js", "/static/icon.svg")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends no Origin, and writes could not be told apart
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "flightlog",
}
FORM_TOKEN = "form_token"
WRITES = "a write needs the page of a server that was started with --ui-write"


class Refusal(Exception):
    """Why a request is not answered."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class Guard:
    """Guards one page. Its secrets are new with every start."""

    def __init__(self, hosts: Iterable[str], *, can_write: bool, is_secure: bool) -> None:
        """`hosts`: names that the page has besides `localhost` and any IP address, which nobody can rebind."""
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._can_write, self._is_secure = can_write, is_secure
        self.token = secrets.token_urlsafe(TOKEN_SIZE)
        self._cookie = secrets.token_urlsafe(TOKEN_SIZE)
        self.form_token = secrets.token_urlsafe(TOKEN_SIZE)
        self.cookie_name = "flightlog"

    def check_place(self, request: web.Request) -> None:
        """Raises Refusal for a request that names another server, or that comes from another page."""
        if not self._is_known(request.headers.get("Host", "")):
            text = (
                "this server does not have that name: use the link that it showed when it was started, or --advertise"
            )
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, text)
        origin = request.headers.get("Origin")
        if (origin is not None or _is_write(request)) and not _is_origin(origin or "", request.headers["Host"]):
            raise Refusal(HTTPStatus.FORBIDDEN, "this request comes from another page")

    async def check(self, request: web.Request) -> None:
        """Raises Refusal for a browser that was not let in, and for a write that may not be."""
        if request.path in OPEN_PATHS:
            return
        if not _equal(request.cookies.get(self.cookie_name, ""), self._cookie):
            text = "open the link with the token that `flightlog serve` showed when it was started"
            raise Refusal(HTTPStatus.UNAUTHORIZED, text)
        if _is_write(request):
            if not self._can_write:
                raise Refusal(HTTPStatus.FORBIDDEN, WRITES)
            if not _equal((await form_of(request)).get(FORM_TOKEN, [""])[0], self.form_token):
                raise Refusal(HTTPStatus.FORBIDDEN, "this form is from before the server was started: load it again")

    def opens(self, given: str) -> bool:
        """Whether this is the token of the link."""
        return _equal(given, self.token)

    def let_in(self, response: web.StreamResponse) -> None:
        """Give a browser that showed the token its cookie."""
        response.set_cookie(
            self.cookie_name, self._cookie, httponly=True, samesite="Strict", secure=self._is_secure, path="/"
        )

    def _is_known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


async def form_of(request: web.Request) -> dict[str, list[str]]:
    """The fields of a form that was sent."""
    return parse_qs((await request.read()).decode("utf-8", "replace"), keep_blank_values=True)


def _is_write(request: web.Request) -> bool:
    return request.method not in ("GET", "HEAD")


def _is_origin(origin: str, host: str) -> bool:
    return origin in (f"http://{host}", f"https://{host}")


def _equal(given: str, expected: str) -> bool:
    """In a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """For `on_response_prepare`: every answer has them, refusals and streams too."""
    for name, value in HEADERS.items():
        response.headers[name] = value
