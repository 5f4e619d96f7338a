"""Completing futures that an application holds, in a thread of ours, which no callback may end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import TypeVar

T = TypeVar("T")


def complete(
    future: Future[T], outcome: T | BaseException, log: logging.Logger, what: str, extra: Mapping[str, object]
) -> None:
    """Set the result or the error of the future. `what` and `extra` describe it in the log."""
    try:
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except InvalidStateError:
        pass  # the application completed it
    except BaseException:  # such as SystemExit; Future itself logs what ordinary exceptions callbacks raise
        log.exception("a callback of a %s's future raised", what, extra=extra)
