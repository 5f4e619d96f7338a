"""JSON as RocketMQ's tools and clients read and write it: maps may have numbers or whole objects as keys.

    {"offsetTable":{{"brokerName":"store","queueId":0,"topic":"orders"}:{"maxOffset":3,"minOffset":0}}}

fastjson reads it so; its own JSON library reads nothing but texts as keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = json.JSONDecoder()
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


class ObjectKeys:
    """A map whose keys are objects, as pairs."""

    def __init__(self, pairs: Sequence[tuple[Mapping[str, Any], Any]]) -> None:
        self.pairs = pairs


def encode(value: Any) -> bytes:
    """Numbers as keys are written bare, as fastjson does."""
    return _written(value).encode("utf-8", "replace")


def _written(value: Any) -> str:
    if isinstance(value, ObjectKeys):
        return "{" + ",".join(f"{_written(key)}:{_written(each)}" for key, each in value.pairs) + "}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_written(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: Any) -> str:
    return str(key) if isinstance(key, int) else json.dumps(key, ensure_ascii=False)


def decode_keyed(raw: bytes) -> Any:
    """What fastjson wrote: maps with a key that is no text become ObjectKeys. Raises ValueError."""
    text = raw.decode()
    try:
        value, end = _read(text, 0)
    except RecursionError as e:
        raise ValueError("the body is nested too deeply") from e
    if _next(text, end) != len(text):
        raise ValueError(f"the body goes on behind character {end}")
    return value


def _read(text: str, position: int) -> tuple[Any, int]:
    """A value, and where it ends. Lists hold no maps with objects as keys in what is read here."""
    position = _next(text, position)
    return _read_map(text, position + 1) if text[position : position + 1] == "{" else _PLAIN.raw_decode(text, position)


def _read_map(text: str, position: int) -> tuple[Any, int]:
    pairs = []
    position = _next(text, position)
    while text[position : position + 1] != "}":
        key, position = _read(text, position)
        value, position = _read(text, _expected(text, position, ":"))
        pairs.append((key, value))
        position = _next(text, position)
        if text[position : position + 1] != "}":
            position = _next(text, _expected(text, position, ","))
    is_plain = all(isinstance(key, str) for key, _ in pairs)
    return dict(pairs) if is_plain else ObjectKeys(pairs), position + 1


def _expected(text: str, position: int, mark: str) -> int:
    position = _next(text, position)
    if text[position : position + 1] != mark:
        raise ValueError(f"expected {mark!r} at character {position}")
    return position + 1


def _next(text: str, position: int) -> int:
    """The next character that is no blank."""
    found = _BLANKS.match(text, position)
    return found.end() if found else position


def decode(raw: bytes) -> dict[str, Any]:
    """An object that a client sent. Raises ValueError for anything else."""
    try:
        found = json.loads(raw)
    except RecursionError as e:
        raise ValueError("the body is nested too deeply") from e
    if not isinstance(found, dict):
        raise ValueError("the body is no JSON object")
    return found
