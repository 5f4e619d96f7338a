"""Reading RocketMQ's JSON. Every function raises ValueError for what is of another kind."""

from __future__ import annotations

import sys
from typing import Any


def json_object(found: object) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}")
    return found


def json_whole(found: dict[str, Any], name: str) -> int:
    """0 where the name is not there."""
    value = found.get(name, 0)
    if not isinstance(value, int):
        raise ValueError(f"{name}: {value!r}")
    return value


def json_text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: {value!r}")
    return sys.intern(value)  # few texts, in each of a million check points that expire together
