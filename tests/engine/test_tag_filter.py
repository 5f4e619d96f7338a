"""Tag filters: what a text asks for, what a queue entry can rule out, and that the record has the last word."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flightlog
from flightlog import GetStatus, Message, StoreSettings
from flightlog.index.filter.tag_filter import tag_filter
from flightlog.index.queue.queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_DTYPE
from flightlog.store.errors import CorruptQueueError, CorruptRecordError, UsageError
from flightlog.store.format.java_hash import java_hash
from flightlog.store.message import tags_code

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet

SETTINGS = StoreSettings(segment_size=4096, queue_file_entries=100)
TAGS = ("A", "Aa", "BB", None, "A || B", "标签", "a", "C")
"""`Aa` and `BB` have one hash."""


def codes(*values: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.array([(i, 100, value) for i, value in enumerate(values)], UNIT_DTYPE)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        *((None, None), ("", None), ("*", None)),
        *(("A", {"A"}), ("A||B", {"A", "B"}), (" A ||\tB\n||", {"A", "B"}), ("||A||||A||", {"A"})),
        *(("A || *", {"A", "*"}), ("A | B", {"A | B"}), ("|||A", {"|A"}), ("标签 || ✓", {"标签", "✓"})),
        ("\u3000A", {"\u3000A"}),  # Java trims nothing above the space
    ],
)
def test_what_a_text_asks_for(text: str | None, tags: set[str] | None) -> None:
    found = tag_filter(text)
    assert (None if found is None else set(found.tags)) == tags


@pytest.mark.parametrize("text", [" ", "||", " || ", "\t", 1, b"A", ["A"]])
def test_a_text_that_names_no_tag(text: Any) -> None:
    with pytest.raises(UsageError, match=r"tags=.*expected"):
        tag_filter(text)


def test_entries_are_told_by_the_low_half_of_their_code() -> None:
    wanted = tag_filter("payment || B")
    assert wanted is not None and java_hash("payment") < 0 < java_hash("B")
    high_half = 5 << 32
    units = codes(
        *(java_hash("payment"), java_hash("B"), java_hash("B") + high_half, (java_hash("payment") & 0xFFFFFFFF)),
        *(java_hash("A"), 0, -java_hash("payment"), java_hash("B") + 1),
    )
    assert wanted.may_match(units).tolist() == [True] * 4 + [False] * 4


def test_an_address_in_a_queue_extension_hides_any_code() -> None:
    wanted = tag_filter("B")
    assert wanted is not None
    units = codes(HIGHEST_EXTENSION_ADDRESS, -(1 << 63), -(1 << 63) + 28, HIGHEST_EXTENSION_ADDRESS + 1, -(1 << 31))
    assert wanted.may_match(units).tolist() == [True, True, True, False, False]
    assert wanted.has_hash(units).tolist() == [False, False, False, True, True]


def test_where_codes_are_times_records_alone_are_asked() -> None:
    wanted = tag_filter("B", by_code=False)
    units = codes(1_700_000_000_000, 0, java_hash("B"))
    assert wanted is not None and wanted.may_match(units).all() and not wanted.has_hash(units).any()


@given(st.lists(st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_a_message_of_a_wanted_tag_is_never_ruled_out(tags: list[str]) -> None:
    wanted_text = "||".join(tags)
    if not any(tag.strip("".join(map(chr, range(33)))) for tag in tags):
        with pytest.raises(UsageError):
            tag_filter(wanted_text)
        return
    wanted = tag_filter(wanted_text)
    if wanted is None:
        assert tags == ["*"]
    else:
        assert wanted.may_match(codes(*map(tags_code, wanted.tags))).all()


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 messages whose bodies are their tags; nobody changes them."""
    root = tmp_path_factory.mktemp("tagged") / "store"
    with flightlog.open(root, SETTINGS) as store:
        store.put_many([Message("t", (TAGS[i % 8] or "-").encode(), tags=TAGS[i % 8]) for i in range(80)])
    return root


@pytest.mark.parametrize(
    "text", ["A", "Aa", "BB", "Aa || BB", "A || 标签 || nobody's", "nobody's", "A || B", "*", "", None]
)
def test_read_and_get_give_what_has_the_tag_and_nothing_else(text: str | None, tagged: Path) -> None:
    wanted = None if text in (None, "", "*") else {tag.strip() for tag in str(text).split("||")}
    expected = [i for i in range(80) if wanted is None or TAGS[i % 8] in wanted]
    with flightlog.open_read_only(tagged) as view:
        assert [m.queue_offset for m in view.read("t", tags=text)] == expected
        assert [m.queue_offset for m in view.read("t", 0, 41, tags=text)] == [i for i in expected if i >= 41]
        found, at = [], 0
        while (result := view.get("t", 0, at, 5, tags=text)).status in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
            assert result.next_queue_offset > at and bool(result.messages) == (result.status is GetStatus.FOUND)
            found += [m.queue_offset for m in result.messages]
            at = result.next_queue_offset
        assert (found, at, result.status) == (expected, 80, GetStatus.OFFSET_OVERFLOW_ONE)


def test_a_collision_alone_is_no_match(tagged: Path) -> None:
    assert java_hash("Aa") == java_hash("BB")
    with flightlog.open_read_only(tagged) as view:
        result = view.get("t", 0, 0, 100, tags="BB")
        assert [m.tags for m in result.messages] == ["BB"] * 10
        # Entry 1 is of an `Aa`, which looks like a `BB` there. A full answer does not look for the next match.
        result = view.get("t", 0, 1, 1, tags="BB")
        assert ([m.queue_offset for m in result.messages], result.next_queue_offset) == ([2], 3)


def test_only_collisions_count_as_passed(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([Message("t", b"x", tags="Aa")] * 7)
        result = store.get("t", 0, 2, tags="BB")
        assert (result.status, result.next_queue_offset, result.messages) == (GetStatus.NO_MATCHED_MESSAGE, 7, [])
        assert list(store.read("t", tags="BB")) == []
    assert_clean(tmp_path)


def test_a_wrong_filter_is_told_at_the_call(tagged: Path) -> None:
    with flightlog.open_read_only(tagged) as view:
        for call in (lambda: view.get("t", 0, 0, tags="||"), lambda: view.read("t", tags="||")):
            with pytest.raises(UsageError, match="names no tag"):
                call()


def test_the_log_is_asked_only_for_what_may_match(tagged: Path, tmp_path: Path) -> None:
    """Records of other tags may be damaged: they are not looked at. What points at no record is no other tag."""
    root = shutil.copytree(tagged, tmp_path / "store")
    with flightlog.open_read_only(root) as view:
        places = {m.queue_offset: m.physical_offset for m in view.read("t")}
    for queue_offset in (1, 2, 3, 4):  # Aa, BB, none, A || B
        path = root / "commitlog" / f"{places[queue_offset] // 4096 * 4096:020d}"
        raw = bytearray(path.read_bytes())
        raw[places[queue_offset] % 4096 + 89] ^= 1
        path.write_bytes(raw)
    with flightlog.open_read_only(root) as view:
        assert [m.queue_offset for m in view.read("t", tags="A || a")][:4] == [0, 6, 8, 14]
        result = view.get("t", 0, 0, tags="A || a")
        assert (len(result.messages), result.status) == (20, GetStatus.FOUND)
        # On the way to a wanted one that is damaged: what was passed is passed, and the next get tells.
        result = view.get("t", 0, 0, tags="A || B || 标签 || BB || C")
        assert ([m.queue_offset for m in result.messages], result.next_queue_offset) == ([0], 1)
        with pytest.raises(CorruptRecordError):
            view.get("t", 0, 1, tags="BB")
        path = root / "consumequeue" / "t" / "0" / f"{0:020d}"
        raw = bytearray(path.read_bytes())
        raw[140:160] = bytes(20)
        path.write_bytes(raw)
        result = view.get("t", 0, 5, tags="nobody's")
        assert (result.status, result.next_queue_offset) == (GetStatus.NO_MATCHED_MESSAGE, 7)
        with pytest.raises(CorruptQueueError, match="entry 7"):
            view.get("t", 0, 7, tags="nobody's")
        with pytest.raises(CorruptQueueError, match="entry 7"):
            list(view.read("t", tags="nobody's"))
        assert list(view.read("t", tags="nobody's", on_corrupt="skip")) == []
        assert view.corrupt_skipped == 1


@pytest.mark.parametrize("name", ["cqext", "v2-v6", "lmq"])
def test_what_rocketmq_wrote(name: str, golden_set: Callable[[str], GoldenSet]) -> None:
    """The entries of `cqext` hold addresses of its queue extension."""
    golden = golden_set(name)
    with flightlog.open_read_only(golden.store) as view:
        for key in view.queues():
            everything = list(view.read(*key))
            tags = sorted({m.tags for m in everything if m.tags})[:3]
            for text in [*tags, " || ".join(tags), "nobody's"]:
                wanted = {tag.strip() for tag in text.split("||")}
                expected = [m for m in everything if m.tags in wanted]
                assert list(view.read(*key, tags=text or None)) == (expected if text else everything)
