"""What was asked, how it is answered, and how it is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....produce.send_errors import NoRouteError
from ....store.errors import (
    BodyTooLargeError,
    FlightlogError,
    InconsistentGroupError,
    InvalidMessageError,
    InvalidTopicError,
    PropertiesTooLargeError,
    QueueNotFoundError,
    RecordTooLargeError,
    StoreClosedError,
    StorePoisonedError,
    TooManyQueuesError,
    TopicNotFoundError,
    TopicPermissionError,
)
from ....store.timer_errors import InvalidTimerError
from ..wire import fastjson
from ..wire.codes import ResponseCode
from ..wire.command import Command
from ..wire.connection import Connection

log = logging.getLogger("flightlog.serve")

INT64_DIGITS = 20
OF_ERRORS: tuple[tuple[type[FlightlogError], ResponseCode], ...] = (
    (TopicNotFoundError, ResponseCode.TOPIC_NOT_EXIST),
    (QueueNotFoundError, ResponseCode.SYSTEM_ERROR),
    (TopicPermissionError, ResponseCode.NO_PERMISSION),
    (NoRouteError, ResponseCode.NO_PERMISSION),
    (TooManyQueuesError, ResponseCode.NO_PERMISSION),
    (InvalidTimerError, ResponseCode.MESSAGE_ILLEGAL),
    (InvalidTopicError, ResponseCode.MESSAGE_ILLEGAL),
    (BodyTooLargeError, ResponseCode.MESSAGE_ILLEGAL),
    (PropertiesTooLargeError, ResponseCode.MESSAGE_ILLEGAL),
    (RecordTooLargeError, ResponseCode.MESSAGE_ILLEGAL),
    (InvalidMessageError, ResponseCode.MESSAGE_ILLEGAL),
    (InconsistentGroupError, ResponseCode.SYSTEM_ERROR),
    (StorePoisonedError, ResponseCode.SERVICE_NOT_AVAILABLE),
    (StoreClosedError, ResponseCode.SERVICE_NOT_AVAILABLE),
)
"""The first one that an error is of."""


class CommandRefused(Exception):
    """A request is refused with this code and this text, which the client sees."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""
    code: int = ResponseCode.SUCCESS
    remark: str | None = None

    @classmethod
    def of(cls, body: Any) -> Answer:
        """One with a body of JSON."""
        return cls(body=fastjson.encode(body))

    def to(self, asked: Command) -> Command:
        """The response."""
        fields = {name: _text(value) for name, value in self.fields.items() if value is not None}
        return Command(self.code, asked.opaque, 1, fields, self.body, self.remark, kind=asked.kind)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def refusal(error: Exception) -> Answer:
    """The answer that says why."""
    if isinstance(error, CommandRefused):
        return Answer(code=error.code, remark=error.text)
    if isinstance(error, FlightlogError):
        for kind, code in OF_ERRORS:
            if isinstance(error, kind):
                return Answer(code=code, remark=str(error))
        log.error("a request failed: %s", error, extra={"cause": repr(error)})
        return Answer(code=ResponseCode.SYSTEM_ERROR, remark=str(error))
    log.error("a request failed", exc_info=error, extra={"cause": repr(error)})
    return Answer(code=ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Request:
    """Its fields are read by their names; what is missing or no number is refused."""

    connection: Connection
    command: Command

    def text(self, name: str, default: str | None = None) -> str:
        found = self.command.fields.get(name, default)
        if found is None:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"the custom field <{name}> is null")
        return found

    def whole(self, name: str, default: int | None = None) -> int:
        found = self.command.fields.get(name)
        if found is None and default is not None:
            return default
        text = self.text(name)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(text) <= INT64_DIGITS):
            raise CommandRefused(
                ResponseCode.SYSTEM_ERROR, f"the custom field <{name}> is no whole number: {text[:40]!r}"
            )
        return int(text)

    def is_set(self, name: str) -> bool:
        return self.command.fields.get(name, "").lower() == "true"

    def json(self) -> dict[str, Any]:
        """The body."""
        try:
            return fastjson.decode(self.command.body)
        except ValueError as e:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"the body is not understood: {e}") from e
