"""The text of a message's properties: how it is written, and what RocketMQ's parser makes of any text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.errors import InvalidMessageError
from flightlog.store.format.properties import decode_properties, encode_properties
from flightlog.store.format.property_names import split_keys

PARTS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)


def test_vector() -> None:
    properties = {"KEYS": "k1", "UNIQ_KEY": "0A000001000118B4AAC20000000A0000", "TAGS": "TagA"}
    raw = b"KEYS\x01k1\x02UNIQ_KEY\x010A000001000118B4AAC20000000A0000\x02TAGS\x01TagA\x02"
    assert len(raw) == 60
    assert encode_properties(properties) == raw
    assert decode_properties(raw) == properties
    assert decode_properties(raw[:-1]) == properties, "written by RocketMQ 4.9.1 to 5.1.4"


def test_none_at_all() -> None:
    assert encode_properties({}) == b""
    assert decode_properties(b"") == {}


@given(st.dictionaries(PARTS, PARTS))
def test_round_trip(properties: dict[str, str]) -> None:
    raw = encode_properties(properties)
    assert decode_properties(raw) == properties
    assert list(decode_properties(raw)) == list(properties)
    assert decode_properties(raw[:-1]) == properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02\x02\x02c\x01d\x02", {"a": "b", "c": "d"}),
        ("a\x01\x02c\x01d\x02", {"c": "d"}),  # an empty value
        ("\x01b\x02c\x01d\x02", {"c": "d"}),  # an empty name
        ("ab\x02c\x01d\x02", {"c": "d"}),  # no separator
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),  # splits at its first 01
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),  # the later one wins
        ("a\x01b\x02a\x01\x02", {"a": "b"}),  # but not with an empty value
        (" \x01 \x02", {" ": " "}),
    ],
)
def test_parser_rules(text: str, found: dict[str, str]) -> None:
    assert decode_properties(text.encode()) == found


def _parse_by_the_letter(text: str) -> dict[str, str]:
    """The rule in RocketMQ's own terms: a chunk has three characters, its 01 is not the first, its value not empty."""
    found: dict[str, str] = {}
    start = 0
    while start < len(text):
        end = text.find("\x02", start)
        end = len(text) if end < 0 else end
        if end - start >= 3:
            separator = text.find("\x01", start, end)
            if separator > start and separator < end - 1:
                found[text[start:separator]] = text[separator + 1 : end]
        start = end + 1
    return found


@given(st.text(st.sampled_from("ab\x01\x02é\U0001f600")))
def test_any_text_is_parsed_as_rocketmq_does(text: str) -> None:
    assert decode_properties(text.encode()) == _parse_by_the_letter(text)


@given(st.binary())
def test_no_bytes_upset_the_parser(raw: bytes) -> None:
    assert decode_properties(raw) == _parse_by_the_letter(raw.decode("utf-8", "replace"))


def test_what_is_not_utf8_becomes_a_replacement_character() -> None:
    assert decode_properties(b"a\x01\xff\x02") == {"a": "�"}


@pytest.mark.parametrize(
    "properties",
    [
        *(
            {"": "b"},
            {"a": ""},
            {"a\x01": "b"},
            {"a\x02": "b"},
            {"a": "\x01"},
            {"a": "b\x02"},
            {"a": "b", "c": "d\x02e\x01f"},
        ),
        *({"a": "\ud800"}, {"a": 1}, {"a": b"b"}, {1: "a"}, {"a": None}, {"a": 0}),
    ],
)
def test_refused(properties: Any) -> None:
    with pytest.raises(InvalidMessageError, match="propert"):
        encode_properties(properties)


@pytest.mark.parametrize("name", ["v1-clean", "rollover", "v2-v6", "delay-tx", "propcrc"])
def test_what_rocketmq_was_handed_and_what_it_read(name: str, golden: Callable[[str], Path]) -> None:
    lines = [json.loads(line) for line in (golden(name) / "manifest.jsonl").read_text().splitlines()]
    # Members of a batch get the batch's properties too, so what was handed in is not all of theirs.
    whole = [line for line in lines if line.get("propertiesString") is not None and "batchSize" not in line]
    assert len(whole) > 100
    for line in whole:
        crc = {key: value for key, value in line["properties"].items() if key == "__CRC32#"}
        assert decode_properties(line["propertiesString"].encode()) | crc == line["properties"]
    odd = [line for line in whole if line["kind"] == "oddprops"]
    assert bool(odd) == (name == "v1-clean")


@pytest.mark.parametrize(
    ("text", "keys"), [("", []), ("k1", ["k1"]), ("a b", ["a", "b"]), (" a  b ", ["a", "b"]), ("a\tb", ["a\tb"])]
)
def test_keys_are_split_at_single_spaces(text: str, keys: list[str]) -> None:
    assert split_keys(text) == keys
