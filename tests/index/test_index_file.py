"""The format of an index file: vectors, names, and hashes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from flightlog.index.key.index_file import (
    DEFAULT_INDEX_ENTRIES,
    DEFAULT_INDEX_SLOTS,
    ENTRY,
    IndexGeometry,
    IndexHeader,
    decode_entries,
    decode_header,
    file_name,
    key_hash,
    next_name,
    parse_name,
    time_difference_s,
)
from flightlog.index.key.key_entries import KeyEntries
from flightlog.index.key.key_index import KeyIndex
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import RealDisk
from flightlog.store.format.java_hash import java_hash

S = 1_700_000_000_123
UNIQ_KEY = "0A000001000118B4AAC20000000A0000"
DEFAULT = IndexGeometry()


@pytest.fixture
def time_zone() -> Iterator[None]:
    """Central Europe, where the clock goes back from 3:00 to 2:00 on the last Sunday of October."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def keys(*of: tuple[str, int, int]) -> KeyEntries:
    hashes, offsets, times = zip(*((key_hash("TopicTest", key), offset, ms) for key, offset, ms in of), strict=True)
    return KeyEntries(np.array(hashes, np.int32), np.array(offsets, np.int64), np.array(times, np.int64))


def test_default_sizes() -> None:
    assert (DEFAULT_INDEX_SLOTS, DEFAULT_INDEX_ENTRIES) == (5_000_000, 20_000_000)
    assert DEFAULT.file_size == 420_000_040
    assert (DEFAULT.slot_position(1_616_210), DEFAULT.entry_position(1)) == (6_464_880, 20_000_060)


def test_hashes() -> None:
    assert key_hash("TopicTest", "k1") == 2_746_024
    assert key_hash("TopicTest", UNIQ_KEY) == 256_616_210
    assert key_hash("T", "Aa") == key_hash("T", "BB")


def test_the_hash_without_an_absolute_value() -> None:
    """Java's |-2**31| is negative; RocketMQ takes 0 for it."""
    key = text_with_the_least_hash("t#")
    assert java_hash("t#" + key) == -(2**31) and key_hash("t", key) == 0


def text_with_the_least_hash(prefix: str) -> str:
    """A text whose Java hash behind this prefix is -2**31: "a"s, to which the digits of what is missing are added."""
    h = 0
    for letter in prefix + "a" * 8:
        h = (31 * h + ord(letter)) % 2**32
    missing, letters = (2**31 - h) % 2**32, []
    for _ in range(8):
        missing, digit = divmod(missing, 31)
        letters.append(chr(ord("a") + digit))
    return "".join(reversed(letters))


def test_vectors_of_default_geometry(tmp_path: Path) -> None:
    index = KeyIndex(RealDisk(), tmp_path, DEFAULT, SystemClock())
    index.load()

    def flushed() -> tuple[str, Path]:
        index.flush()
        [path] = (tmp_path / "index").iterdir()
        with open(path, "rb") as file:
            return file.read(40).hex(), path

    def at(path: Path, position: int, size: int) -> str:
        with open(path, "rb") as file:
            file.seek(position)
            return file.read(size).hex()

    index.put(keys((UNIQ_KEY, 1024, S)))
    header, path = flushed()
    assert header == "0000018bcfe5687b0000018bcfe5687b000000000000040000000000000004000000000100000002"
    assert at(path, 6_464_880, 4) == "00000001"
    assert at(path, 20_000_060, 20) == "0f4ba712000000000000040000000000" + "00000000"
    index.put(keys(("k1", 1024, S)))
    # The second key of a record that has one already: put again with its first one, it is the one that is missing.
    index.put(keys((UNIQ_KEY, 1024, S), ("k1", 1024, S)))
    header, path = flushed()
    assert header == "0000018bcfe5687b0000018bcfe5687b000000000000040000000000000004000000000200000003"
    assert at(path, 10_984_136, 4) == "00000002"
    assert at(path, 20_000_080, 20) == "0029e6a8000000000000040000000000" + "00000000"
    index.put(keys(("k1", 9999, S + 4500)))
    flushed()
    assert at(path, 20_000_100, 20) == "0029e6a8000000000000270f00000004" + "00000002"
    assert at(path, 10_984_136, 4) == "00000003"
    assert path.stat().st_size == 420_000_040
    assert path.stat().st_blocks * 512 < 1 << 20, "a new file is a hole"
    index.close()


def test_header_there_and_back() -> None:
    header = IndexHeader(1, 2, 3, 4, 5, 6)
    assert decode_header(header.encode()) == header
    assert decode_header(bytes(40)) == IndexHeader()
    assert decode_header(b"\xff" * 40).next_entry == 1
    assert not IndexHeader().has_entries and header.has_entries


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (IndexHeader(0, 0, 0, 0, 0, 1), None),
        (IndexHeader(9, 9, 70, 70, 0, 1), None),
        (IndexHeader(9, 8, 70, 90, 3, 12), None),
        (IndexHeader(9, 9, 70, 90, 10, 40), None),
        (IndexHeader(9, 9, 70, 90, 10, 41), "41 as the next entry"),
        (IndexHeader(9, 9, 70, 90, 11, 20), "11 used slots"),
        (IndexHeader(9, 9, 70, 90, 0, 2), "0 used slots"),
        (IndexHeader(9, 9, 70, 90, -1, 20), "-1 used slots"),
        (IndexHeader(9, 9, 90, 70, 3, 20), "ascending"),
        (IndexHeader(9, 9, -1, 70, 3, 20), "ascending"),
    ],
)
def test_headers_that_cannot_be(header: IndexHeader, problem: str | None) -> None:
    found = header.problem(IndexGeometry(10, 40))
    assert found is None if problem is None else found is not None and problem in found


@pytest.mark.parametrize(
    ("time_ms", "begin_ms", "expected"),
    [
        (S, 0, 0),
        (S, -5, 0),
        (S, S, 0),
        (S - 1, S, 0),
        (S + 999, S, 0),
        (S + 1000, S, 1),
        (S + 4500, S, 4),
        (1 + (2**31 - 1) * 1000, 1, 2**31 - 1),
        (1 << 62, 1, 2**31 - 1),
        (-(1 << 62), 1, 0),
    ],
)
def test_time_differences(time_ms: int, begin_ms: int, expected: int) -> None:
    assert time_difference_s(time_ms, begin_ms) == expected


def test_entries_in_bytes() -> None:
    raw = ENTRY.pack(7, 1 << 40, 5, 6) + ENTRY.pack(8, 9, 10, 11) + b"cut off"
    assert decode_entries(raw).tolist() == [(7, 1 << 40, 5, 6), (8, 9, 10, 11)]


def test_names_are_local_times() -> None:
    now_ms = 1_700_000_000_123
    expected = datetime.fromtimestamp(1_700_000_000).strftime("%Y%m%d%H%M%S") + "123"
    assert file_name(next_name(now_ms, 0)) == expected
    assert parse_name(expected) == int(expected)


@pytest.mark.parametrize(
    "name",
    [
        *("", "1", "2023111422132012", "202311142213201234", "20231314221320123", "20231114251320123"),
        *("00000000000000000", "99991231235959999", "+2023111422132012", "2023111422132012a", "notes"),
        "２０２３１１１４２２１３２０１２３",
    ],
)
def test_what_is_no_name(name: str) -> None:
    assert parse_name(name) is None


def test_a_name_is_greater_than_the_last_one() -> None:
    now = next_name(S, 0)
    assert next_name(S, now - 1) == now
    assert next_name(S, now) == now + 1
    assert next_name(S - 5000, now) == now + 1
    assert next_name(0, 20231231235959999) == 20240101000000000, "times have no sixtieth second"


@pytest.mark.usefixtures("time_zone")
def test_names_in_the_hour_that_comes_twice() -> None:
    first = next_name(1_698_541_199_000, 0)  # a second before the clock goes back
    assert file_name(first) == "20231029025959000"
    again = next_name(1_698_541_200_000, first)
    assert again == first + 1 and parse_name(file_name(again)) == again
