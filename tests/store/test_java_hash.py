"""Java's String.hashCode: over UTF-16 units, wrapped to 32 bits, sign-extended into queue entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.format.java_hash import java_hash
from flightlog.store.message import tags_code

VECTORS = {
    "": 0,
    "TagA": 2_598_919,
    "TagB": 2_598_920,
    "payment": -786_681_338,
    "TopicTest#k1": 2_746_024,
    "TopicTest#0A000001000118B4AAC20000000A0000": -256_616_210,
    "中文": 646_394,
    "\U0001f600": 1_772_899,
    "polygenelubricants": -(1 << 31),
}
"""All but the sixth confirmed with a JVM; that one is the hash in an index entry."""


@pytest.mark.parametrize("text", VECTORS)
def test_vectors(text: str) -> None:
    assert java_hash(text) == VECTORS[text]


@given(st.text(st.characters(codec="utf-16-be")), st.integers(0, 0xFFFF))
def test_appending_a_unit_is_one_step_of_the_sum(text: str, unit: int) -> None:
    longer = text + chr(unit)  # a lone surrogate is a unit as well
    assert (java_hash(longer) - 31 * java_hash(text) - unit) % (1 << 32) == 0
    assert -(1 << 31) <= java_hash(longer) < 1 << 31


def test_a_character_beyond_the_basic_plane_counts_as_two_units() -> None:
    assert java_hash("\U0001f680") == java_hash("\ud83d\ude80")


@pytest.mark.parametrize(("tags", "code"), [(None, 0), ("", 0), ("TagA", 2_598_919), ("payment", -786_681_338)])
def test_tags_code(tags: str | None, code: int) -> None:
    assert tags_code(tags) == code
