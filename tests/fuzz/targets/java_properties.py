"""Java's properties files, as far as they are text."""

from __future__ import annotations

from flightlog.store.conf.java_properties import MalformedEscapeError, parse_properties


def one(data: bytes) -> None:
    try:
        found = parse_properties(data)
    except MalformedEscapeError as e:
        assert 1 <= e.line <= _lines(data)
        return
    lines = [each.line for each in found]
    assert lines == sorted(set(lines)) and all(1 <= line <= _lines(data) for line in lines)
    assert sum(len(each.key) + len(each.value) for each in found) <= len(data)
    if found and b"\\" not in data:
        assert parse_properties(data + b"\n") == found, "the end of the last line may be missing"


def _lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") + 1


def seeds() -> list[bytes]:
    return [
        b"brokerName=b\n# comment\r\n! one more\r\n\r\nflushDiskType : SYNC_FLUSH\n",
        b"a b\\\n   c\nkey\\=\\u0041=\\u00e4\\\\\nlast\\",
        b"\t\f x=\\t\\n\\r\\f\\q\r\r\n=v\n:w\n",
    ]
