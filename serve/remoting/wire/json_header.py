"""Headers as JSON, the default of RocketMQ's clients.

{"code":105,"extFields":{"topic":"orders"},"flag":0,"language":"JAVA","opaque":1,
 "serializeTypeCurrentRPC":"JSON","version":479}
"""

from __future__ import annotations

import json
from typing import Any

from .command import INT32, Command, HeaderKind, InvalidFrameError


def encode(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": command.code,
        "extFields": dict(command.fields),
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is not None:
        header["remark"] = command.remark
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def decode(raw: bytes, body: bytes) -> Command:
    """Raises InvalidFrameError."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise InvalidFrameError(f"the header is no JSON: {e}") from e
    if not isinstance(found, dict):
        raise InvalidFrameError("the header is no JSON object")
    fields, remark, language = found.get("extFields"), found.get("remark"), found.get("language")
    if not (fields is None or isinstance(fields, dict)) or not (remark is None or isinstance(remark, str)):
        raise InvalidFrameError("the header's extFields are no object, or its remark is no text")
    return Command(
        _whole(found, "code"),
        _whole(found, "opaque"),
        _whole(found, "flag"),
        {name: _text(value) for name, value in (fields or {}).items() if value is not None},
        body,
        remark,
        language if isinstance(language, str) else "OTHER",
        _whole(found, "version"),
        HeaderKind.JSON,
    )


def _whole(found: dict[str, Any], name: str) -> int:
    value = found.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value not in INT32:
        raise InvalidFrameError(f"the header's {name} is no whole number of 32 bits")
    return value


def _text(value: Any) -> str:
    """A value of extFields, which clients of other languages also write as a number or as true."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise InvalidFrameError("a value of the header's extFields is no text")
