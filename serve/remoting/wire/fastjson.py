"""JSON as RocketMQ's tools read and write it: maps may have numbers or whole objects as keys.

    {"offsetTable":{{"brokerName":"store","queueId":0,"topic":"orders"}:{"maxOffset":3,"minOffset":0}}}

fastjson reads it so; its own JSON library reads nothing but texts as keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


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


def decode(raw: bytes) -> dict[str, Any]:
    """An object that a client sent. Raises ValueError for anything else."""
    try:
        found = json.loads(raw)
    except RecursionError as e:
        raise ValueError("the body is nested too deeply") from e
    if not isinstance(found, dict):
        raise ValueError("the body is no JSON object")
    return found
