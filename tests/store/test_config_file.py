"""Small state files: RocketMQ's spelling is read, ours is whole or not there, and nothing in a file is a crash."""

from __future__ import annotations

import errno
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.store.disk.config_file import MAX_DEPTH, ConfigFile, parse_config
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import ConfigFileError, DiskError, DiskFullError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk

TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.integers().map(str), inner, max_size=3),
    max_leaves=10,
)
CONFIGS = st.dictionaries(TEXTS | st.integers().map(str), VALUES, max_size=4)


def fastjson(value: Any, indent: str = "\n") -> str:
    """As fastjson's pretty mode writes: tabs, no space, whole numbers that are keys without quotes."""
    inner = indent + "\t"
    if isinstance(value, dict):
        pairs = ",".join(
            f"{inner}{key if str(key).lstrip('-').isdecimal() and str(key).isascii() else json.dumps(key)}:"
            f"{fastjson(of, inner)}"
            for key, of in value.items()
        )
        return "{" + pairs + indent + "}"
    if isinstance(value, list):
        return "[" + ",".join(inner + fastjson(of, inner) for of in value) + indent + "]"
    return json.dumps(value)


@given(CONFIGS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_rocketmqs_spelling_is_read(config: dict[str, Any]) -> None:
    assert parse_config(fastjson(config).encode(), Path("x.json")) == config


@given(CONFIGS)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("config") / "config" / "x.json"
    ConfigFile(RealDisk(), path).write(config)
    assert ConfigFile(RealDisk(), path).read() == config


def test_keys_inside_of_texts_are_left_alone() -> None:
    raw = b'{"a":"{1:2}", "b,3:":"\\"{4:5", 6 :[{7:8,-9:"x"}],"topic@group":{0:12,1:7}}'
    expected = {"a": "{1:2}", "b,3:": '"{4:5', "6": [{"7": 8, "-9": "x"}], "topic@group": {"0": 12, "1": 7}}
    assert parse_config(raw, Path("x.json")) == expected


HOSTILE = {
    "no JSON": b"hello",
    "cut": b'{"a":{"b":1}',
    "a text without an end": b'{"a":"b',
    "very many of them": b'{"' * 100_000,
    "not UTF-8": b'{"a":"\xff"}',
    "another encoding": '{"a":1}'.encode("utf-16"),
    "a list": b"[1]",
    "a number": b"1",
    "nothing": b"null",
    "twice the same key": b'{"a":1,"a":2}',
    "twice the same number": b'{"1":1,1:2}',
    "deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep arrays": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deeper than ours": b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
    "a huge whole number": b'{"a":' + b"9" * 100_000 + b"}",
    "a huge number": b'{"a":1e999}',
    "no number": b'{"a":NaN}',
    "endless": b'{"a":-Infinity}',
    "spaces without end": b"{" + b" " * 1_000_000,
    "zeros": bytes(4096),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_an_error_with_a_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ConfigFileError) as caught:
        ConfigFile(RealDisk(), path).read()
    assert str(path) in str(caught.value) and "topics.json.bak" in str(caught.value)
    assert len(str(caught.value)) < 1000
    path.with_name("topics.json.bak").write_text('{"a":1}')
    assert ConfigFile(RealDisk(), path).read() == {"a": 1}


@given(st.binary(max_size=200) | st.text('{}[]",:0123456789\\- a', max_size=60).map(str.encode))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_bytes_are_read_or_an_error_with_a_name(raw: bytes) -> None:
    try:
        found = parse_config(raw, Path("x.json"))
    except ConfigFileError:
        return
    assert parse_config(json.dumps(found).encode(), Path("x.json")) == found


@pytest.mark.parametrize(
    ("main", "backup", "expected"),
    [
        (None, None, None),
        (b"", None, None),
        (b"", b'{"a":2}', {"a": 2}),
        (None, b'{"a":2}', {"a": 2}),
        (b'{"a":1}', b'{"a":2}', {"a": 1}),
        (b'{"a":', b'{"a":2}', {"a": 2}),
        (b'{"a":1}', b'{"a":', {"a": 1}),
    ],
)
def test_which_file_is_read(
    main: bytes | None, backup: bytes | None, expected: dict[str, int] | None, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    for name, raw in (("x.json", main), ("x.json.bak", backup)):
        if raw is not None:
            (tmp_path / name).write_bytes(raw)
    file = ConfigFile(RealDisk(), path)
    assert file.read() == expected
    file.write({"a": 3})
    assert ConfigFile(RealDisk(), path).read() == {"a": 3}
    before = [raw for raw in (main, backup) if raw]
    kept = before and before[0 if main == b'{"a":1}' else -1]
    assert not before or (tmp_path / "x.json.bak").read_bytes() == kept, "a damaged file never becomes the backup"
    assert not (tmp_path / "x.json.tmp").exists()


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("operations", range(8))
def test_a_power_cut_leaves_the_old_content_or_the_new_one(operations: int, chance: float, tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    disk = PowerDisk(root)
    path = root / "config" / "x.json"
    old, new = {"number": 1}, {"number": 2, "filler": "x" * 2000}
    file = ConfigFile(disk, path)
    file.write({"number": 0})
    file.write(old)
    disk.die_after = operations
    finished = False
    try:
        file.write(new)
        finished = True
    except Died:
        pass
    disk.cut(random.Random(operations), chance=chance)
    file = ConfigFile(disk, path)
    found = file.read()
    assert found == new if finished else found in (old, new)
    file.write({"number": 3})
    assert ConfigFile(disk, path).read() == {"number": 3}


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_folder"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_write_that_fails_leaves_something_to_read(operation: str, error: int, tmp_path: Path) -> None:
    disk = FaultyDisk()
    path = tmp_path / "config" / "x.json"
    file = ConfigFile(disk, path)
    file.write({"a": 0})
    file.write({"a": 1})
    for skip in range(2):
        disk.fail(operation, "config", error, skip=skip, times=1)
        try:
            file.write({"a": 2})
        except DiskFullError:
            assert error == errno.ENOSPC
        except DiskError:
            assert error == errno.EIO or operation in ("sync", "sync_folder")
        disk.heal()
        assert ConfigFile(disk, path).read() in ({"a": 1}, {"a": 2})
    file.write({"a": 3})
    assert ConfigFile(disk, path).read() == {"a": 3}
