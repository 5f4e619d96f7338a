"""What every view of the page has: the store that was asked for, links, the templates, and how a view answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...consume.retry.send_back import retry_topic
from ...consume.store import Store
from ...store.format.record import INT64_MAX
from ..calls.clients import ConnectedClient
from . import shown

NUMBER: Final = re.compile(r"[0-9]{1,19}")
Connected = Callable[[], Mapping[str, Sequence[ConnectedClient]]]
"""The consumers that are connected, by group. Any thread may ask."""


Opened = Callable[[], Store]
"""The store as it is open now. Raises StoreClosedError if it is not."""


class PageError(Exception):
    """What a person asked for that is not there, or cannot be."""

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = status


class Answer(NamedTuple):
    """What a view answers."""

    body: str | bytes = ""
    kind: str = "text/html"
    redirect: str | None = None
    """Where to look next, in place of a body: after a write, so that loading again writes nothing."""
    file_name: str | None = None
    """The body is a download."""


@dataclass(frozen=True)
class Site:
    """What does not change while the page is served."""

    stores: Mapping[str, Opened]
    """By name, one or more."""
    connected: Connected
    can_write: bool
    form_token: str


@dataclass(frozen=True)
class Asked:
    """One request, as a view sees it."""

    site: Site
    path: str
    query: Mapping[str, str]
    form: Mapping[str, Sequence[str]]

    @property
    def store_name(self) -> str:
        return self.query.get("store") or next(iter(self.site.stores))

    @cached_property
    def store(self) -> Store:
        """One for all that a view asks. Raises PageError, StoreClosedError."""
        found = self.site.stores.get(self.store_name)
        if found is None:
            raise PageError(f"no store {self.store_name!r} is served here", HTTPStatus.NOT_FOUND)
        return found()

    @property
    def now_ms(self) -> int:
        return self.store.message_store.clock.now_ms()

    def needed(self, name: str) -> str:
        """Raises PageError."""
        found = self.query.get(name, "")
        if not found:
            raise PageError(f"the address of this page needs {name}=…")
        return found

    def number(self, name: str, default: int | None = None) -> int | None:
        """Raises PageError."""
        text = self.query.get(name, "").strip()
        if not text:
            return default
        if not NUMBER.fullmatch(text) or int(text) > INT64_MAX:
            raise PageError(f"{name} is {text[:40]!r}: expected a whole number")
        return int(text)

    def field(self, name: str) -> str:
        """A field of a form that was sent; empty if it is not there."""
        found = self.form.get(name, ())
        return found[0] if found else ""

    def href(self, path: str, **parameters: object) -> str:
        """A link into the page, for the same store."""
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        if len(self.site.stores) > 1:
            given = {"store": self.store_name, **given}
        return f"{path}?{urlencode(given)}" if given else path

    def page(self, template: str, title: str, **values: Any) -> Answer:
        return Answer(rendered(template, asked=self, site=self.site, title=title, now_ms=self.now_ms, **values))


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(
    visible=shown.visible, count=shown.count, size=shown.size, time=shown.time, duration=shown.duration
)
_TEMPLATES.globals.update(plural=shown.plural, preview=shown.preview)


def rendered(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(template).render(**values)


def checked_time_ms(text: str) -> int:
    """A time that a person wrote: `2026-11-26 19:28`, with seconds, a zone or `T` where they like (UTC without one), or
    milliseconds since 1970. Raises PageError."""
    text = text.strip().removesuffix("UTC").strip()
    if NUMBER.fullmatch(text) and len(text) > len("20261126"):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        expected = "expected a time such as 2026-11-26 19:28:59 (UTC), or milliseconds since 1970"
        raise PageError(f"{text[:60]!r}: {expected}") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def bounds_by_topic(store: Store) -> dict[str, dict[int, tuple[int, int]]]:
    """Topic -> queue id -> its first offset and its end, of queues that hold or held messages."""
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for (topic, queue_id), bounds in sorted(store.queues().items()):
        found.setdefault(topic, {})[queue_id] = bounds
    return found


def message_count(bounds: Mapping[int, tuple[int, int]]) -> int:
    return sum(end - first for first, end in bounds.values())


def retry_topics(group: str, topics: Sequence[str]) -> list[str]:
    """Where the messages of a group may be that it is to receive again: as members share out queues, and by pop."""
    names = [retry_topic(group)]
    return names + [f"{names[0]}_{topic}" for topic in topics if not topic.startswith(names[0])]
