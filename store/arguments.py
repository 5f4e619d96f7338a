"""What an argument of a public call may be. Each check raises an InvalidArgumentError, or its child WrongTypeError,
with the argument's name, what was given and what is expected.

Checks are made at the public calls only: what calls what inside relies on them. Whole numbers are `int`, or what can
stand for one (numpy's); True and False are none. Times are ms since 1970, or a datetime with a time zone.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .errors import InvalidArgumentError, WrongTypeError
from .settings import StoreSettings

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ON_CORRUPT = ("raise", "skip")


def is_whole(value: object) -> bool:
    """Whether it can stand for a whole number."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    return hasattr(type(value), "__index__") and type(value).__name__ not in ("bool", "bool_")


def check_whole(argument: str, value: Any, low: int = 0, high: int = INT64_MAX) -> int:
    """A whole number from `low` to `high`, as an int."""
    if high == INT64_MAX:
        expected = "a whole number" if low <= ~INT64_MAX else f"a whole number, {low} or more"
    else:
        expected = f"a whole number from {low} to {high}"
    if not is_whole(value):
        raise WrongTypeError(argument, value, expected)
    number = operator.index(value)
    if not low <= number <= high:
        raise InvalidArgumentError(argument, value, expected)
    return number


def check_text(argument: str, value: object, expected: str = "text", *, may_be_empty: bool = False) -> None:
    """Text, as a rule not empty."""
    if not isinstance(value, str):
        raise WrongTypeError(argument, value, expected)
    if not value and not may_be_empty:
        raise InvalidArgumentError(argument, value, f"{expected}, not empty")


def check_topic(topic: object) -> None:
    """The name of a topic: whether there is one of this name is another question."""
    check_text("topic", topic, "the name of a topic as text")


def check_queue(topic: object, queue_id: Any) -> int:
    """A topic and one of its queues; returns the queue id as an int."""
    check_topic(topic)
    return check_whole("queue_id", queue_id, 0, INT32_MAX)


def check_flag(argument: str, value: object) -> None:
    """True or False: anything else would be taken for one of them."""
    if not isinstance(value, bool):
        raise WrongTypeError(argument, value, "True or False")


def check_choice(argument: str, value: object, choices: Collection[str]) -> None:
    """One of some words."""
    expected = f"one of {', '.join(map(repr, choices))}"
    if not isinstance(value, str):
        raise WrongTypeError(argument, value, expected)
    if value not in choices:
        raise InvalidArgumentError(argument, value, expected)


def check_seconds(argument: str, value: Any, high: float = float("inf")) -> None:
    """A duration in seconds, whole or not."""
    expected = "seconds, 0 or more" if high == float("inf") else f"seconds, 0 to {high:g}"
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise WrongTypeError(argument, value, expected)
    if not 0 <= value <= high:
        raise InvalidArgumentError(argument, value, expected)


def check_time_ms(argument: str, value: Any) -> int:
    """A time in ms since 1970, also for a datetime, which must have a time zone."""
    expected = "a time in ms since 1970, or a datetime with a time zone"
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidArgumentError(argument, value, f"{expected}, as in datetime.now(timezone.utc)")
        return (value - EPOCH) // timedelta(milliseconds=1)
    if not is_whole(value):
        raise WrongTypeError(argument, value, expected)
    number = operator.index(value)
    if not ~INT64_MAX <= number <= INT64_MAX:
        raise InvalidArgumentError(argument, value, f"{expected}, {~INT64_MAX} or more")
    return number


def check_type(argument: str, value: object, wanted: type | tuple[type, ...], expected: str) -> None:
    """An object of one of our own types."""
    if not isinstance(value, wanted):
        raise WrongTypeError(argument, value, expected)


def check_callable(argument: str, value: object, expected: str) -> None:
    """A function, or what can be called like one."""
    if not callable(value):
        raise WrongTypeError(argument, value, expected)


def checked_path(argument: str, value: Any) -> Path:
    """A path; of a folder, or of one that is to be made."""
    expected = "the path of a folder, as text or a Path"
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise WrongTypeError(argument, value, expected)
    text = os.fspath(value)
    if not text or "\0" in text:
        raise InvalidArgumentError(argument, value, f"{expected}: not empty, and without NUL")
    return Path(value)


def checked_folder(argument: str, value: Any) -> Path:
    """A path that is no file's."""
    path = checked_path(argument, value)
    if os.path.lexists(path) and os.path.exists(path) and not os.path.isdir(path):
        raise InvalidArgumentError(argument, path, "the path of a folder: a file is there")
    return path


def check_settings(settings: object) -> None:
    """The settings of a store, or None for the defaults."""
    if settings is not None and not isinstance(settings, StoreSettings):
        hint = ", as in StoreSettings(segment_size=...)" if isinstance(settings, dict) else ""
        raise WrongTypeError("settings", settings, f"StoreSettings, or None{hint}")


def check_group(group: Any) -> str:
    """The name of a consumer group; a whole number stands for its digits."""
    if is_whole(group):
        return str(operator.index(group))
    check_text("group", group, "the name of a consumer group as text")
    return str(group)
