"""Which of RocketMQ's codes says why a request was refused."""

from __future__ import annotations

import logging
from typing import Any

from ...consume.pop.pop_errors import ExpiredHandleError
from ...produce.send_errors import GroupLagError, MessageTypeError, NoRouteError, SendTimeoutError
from ...store.errors import (
    BodyTooLargeError,
    DiskFullError,
    FlightlogError,
    InconsistentGroupError,
    InvalidMessageError,
    InvalidTopicError,
    PropertiesTooLargeError,
    QueueNotFoundError,
    RecordTooLargeError,
    StoreClosedError,
    TooManyQueuesError,
    TopicNotFoundError,
    TopicPermissionError,
)
from ...store.timer_errors import InvalidTimerError, TimersCongestedError
from ..access.at_work import TooMuchAtWorkError
from .protocol import Code, status

log = logging.getLogger("flightlog.serve")

OF_ERRORS: tuple[tuple[type[FlightlogError], int], ...] = (
    (MessageTypeError, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
    (TopicNotFoundError, Code.TOPIC_NOT_FOUND),
    (InvalidTopicError, Code.ILLEGAL_TOPIC),
    (TopicPermissionError, Code.FORBIDDEN),
    (QueueNotFoundError, Code.NOT_FOUND),
    (NoRouteError, Code.FORBIDDEN),
    (TooManyQueuesError, Code.FORBIDDEN),
    (TimersCongestedError, Code.TOO_MANY_REQUESTS),
    (InvalidTimerError, Code.ILLEGAL_DELIVERY_TIME),
    (BodyTooLargeError, Code.MESSAGE_BODY_TOO_LARGE),
    (PropertiesTooLargeError, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    (RecordTooLargeError, Code.PAYLOAD_TOO_LARGE),
    (InvalidMessageError, Code.MESSAGE_CORRUPTED),
    (ExpiredHandleError, Code.INVALID_RECEIPT_HANDLE),
    (InconsistentGroupError, Code.PRECONDITION_FAILED),
    (GroupLagError, Code.TOO_MANY_REQUESTS),
    (SendTimeoutError, Code.MASTER_PERSISTENCE_TIMEOUT),
    (DiskFullError, Code.INTERNAL_SERVER_ERROR),
)
"""The first one that an error is of."""

TEXTS: dict[type[FlightlogError], str] = {
    ExpiredHandleError: "receipt handle is expired",
    NoRouteError: "no writable queue",
}
"""The proxy's own words, where people's tests read them."""


class Refused(Exception):
    """A request is refused with this code and this text, which the client sees."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def refused_by(error: FlightlogError) -> Refused:
    """The same for an error of the store."""
    if isinstance(error, MessageTypeError):
        return Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, type_conflict(error.expected, error.found))
    for kind, code in OF_ERRORS:
        if isinstance(error, kind):
            return Refused(code, TEXTS.get(kind, str(error)))
    if not isinstance(error, StoreClosedError):
        log.error("a request failed: %s", error, extra={"cause": repr(error)})
    return Refused(Code.INTERNAL_SERVER_ERROR, str(error))


def type_conflict(expected: str, found: str) -> str:
    """The text for a message of another type than its topic's."""
    return f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {found}"


def refusal(error: Exception) -> Any:
    """The status that says why."""
    refused = refused_by(error) if isinstance(error, FlightlogError) else error
    if isinstance(refused, Refused):
        return status(refused.code, refused.text)
    if isinstance(refused, TooMuchAtWorkError):
        return status(Code.TOO_MANY_REQUESTS, str(refused))
    log.error("a request failed", exc_info=error, extra={"cause": repr(error)})
    return status(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
