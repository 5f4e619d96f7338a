"""SQL92 filters: RocketMQ's rules, and what is refused. tests/interop/test_sql_filter.py compares with the real one."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Iterator

import pytest

import flightlog
from flightlog.index.filter import sql_parser
from flightlog.index.filter.sql_lexer import Token, tokens
from flightlog.index.filter.sql_parser import MAX_DEPTH, MAX_LENGTH, parse
from flightlog.index.filter.sql_values import NotComparableError
from flightlog.tests.support.sql_vectors import VECTORS, message_of

REFUSED = [
    ("", 0, "the end", "a property"),
    ("   ", 3, "the end", "a property"),
    ("a >", 3, "the end", "a number"),
    ("a > 5 b", 6, "b", "AND, OR or the end"),
    ("a LIKE 'x%'", 2, "LIKE", "CONTAINS, STARTSWITH or ENDSWITH"),
    ("a NOT LIKE 'x%'", 6, "LIKE", "CONTAINS, STARTSWITH or ENDSWITH"),
    ("a + 1 > 5", 2, "+", "no arithmetic"),
    ("a - 1 > 5", 2, "-", "no arithmetic"),
    ("a > 5 -- end", 6, "-", "ends with a line end"),
    ("a != 5", 2, "!", "<> for unequal"),
    ('a = "x"', 4, '"', "single quotes"),
    ("a = 'x", 4, "'", "the closing quote"),
    ("a = 5 && b = 5", 6, "&", "AND"),
    ("a = 5 ; b", 6, ";", "an operator"),
    ("ä = 5", 0, "ä", "a property"),
    ("a = ſ", 4, "ſ", "a property"),
    ("a = 05", 5, "5", "AND, OR or the end"),
    ("a = 0x10", 5, "x10", "AND, OR or the end"),
    ("a = 9223372036854775808", 4, "9223372036854775808", "a number up to 9223372036854775807"),
    ("a = -9223372036854775808", 5, "9223372036854775808", "a number up to"),
    ("a = 0.0", 4, "0.0", "above 0"),
    ("a = 1e400", 4, "1e400", "a double can hold"),
    ("a > 'x'", 2, ">", "compared by = and <> only"),
    ("a > TRUE", 2, ">", "numbers and properties"),
    ("a > 5 > 3", 6, ">", "numbers and properties"),
    ("a = NULL", 2, "=", "IS NULL tests for it"),
    ("TRUE = 5", 5, "=", "TRUE or FALSE"),
    ("a IS 5", 5, "5", "NULL or NOT NULL"),
    ("a BETWEEN 5 AND 1", 2, "BETWEEN", "lower bound"),
    ("a BETWEEN NULL AND 1", 2, "BETWEEN", "not NULL"),
    ("a BETWEEN 'x' AND 'y'", 2, "BETWEEN", "numbers and properties"),
    ("a BETWEEN 1, 5", 11, ",", "AND and the upper bound"),
    ("a IN (5)", 6, "5", "a text in single quotes"),
    ("a IN ()", 6, ")", "a text in single quotes"),
    ("a IN 'x'", 5, "'x'", "( and texts"),
    ("a IN ('x'", 9, "the end", ", or )"),
    ("'a' IN ('x')", 4, "IN", "a property before IN"),
    ("a CONTAINS 5", 11, "5", "a text in single quotes"),
    ("(a > 5", 6, "the end", "AND, OR or )"),
    ("a > 5)", 5, ")", "AND, OR or the end"),
    ("5", 0, "5", "no truth value"),
    ("a = 5 AND 'x'", 10, "'x'", "no truth value"),
    ("NOT 5", 0, "NOT", "no truth value"),
    ("a NOT b", 2, "NOT", "an operator"),
]


def verdict(expression: str, properties: dict[str, str]) -> str:
    try:
        value = parse(expression).evaluate(properties)
    except NotComparableError:
        return "E"
    assert value in (True, False, None)
    return "N" if value is None else "T" if value else "F"


def test_verdicts() -> None:
    for row in VECTORS:
        assert verdict(row[0], message_of(row)) == row[2], row
        assert flightlog.sql(row[0]).accepts(message_of(row)) == (row[2] == "T"), row


@pytest.mark.parametrize(("expression", "position", "found", "expected"), REFUSED)
def test_what_is_no_filter(expression: str, position: int, found: str, expected: str) -> None:
    with pytest.raises(flightlog.InvalidFilterError) as caught:
        flightlog.sql(expression)
    error = caught.value
    assert (error.position, error.found) == (position, found)
    assert expected in error.expected
    assert error.expected in str(error)
    assert repr(expression) in str(error)


def test_what_is_no_text() -> None:
    for value in (None, 5, b"a = 5", flightlog.sql("a = 5")):
        with pytest.raises(flightlog.WrongTypeError, match="a SQL92 filter as text"):
            flightlog.sql(value)  # type: ignore[arg-type]


NESTED = ("({})", "NOT {}", "-{}", "+{}", "{} IS NULL", "{} CONTAINS 'x'", "{} = TRUE", "{} <> TRUE")


@pytest.mark.parametrize("form", NESTED)
def test_depth_is_bounded(form: str) -> None:
    """Evaluation and parsing must not reach Python's limit of calls, wherever they are called from."""
    before, after = form.split("{}")

    def nested(depth: int) -> str:
        return before * depth + "a" + after * depth if form != "-{}" else f"{'- ' * depth}a = 5"

    flightlog.sql(nested(MAX_DEPTH // 2 - 1)).accepts({"a": "x"})
    with pytest.raises(flightlog.InvalidFilterError, match=f"at most {MAX_DEPTH} parts within"):
        flightlog.sql(nested(MAX_DEPTH + 1))
    with pytest.raises(flightlog.InvalidFilterError):
        flightlog.sql(nested(1000))


def test_long_filters_are_not_deep() -> None:
    is_one = flightlog.sql(" OR ".join(f"a = '{i}'" for i in range(1_000)))
    is_none = flightlog.sql(" AND ".join(f"a <> '{i}'" for i in range(1_000)))
    for text in ("0", "999", "1000"):
        assert is_one.accepts({"a": text}) is not is_none.accepts({"a": text}) is (text == "1000")


def test_length_is_bounded() -> None:
    text = f"a = '{'x' * (MAX_LENGTH - 6)}'"
    assert len(text) == MAX_LENGTH
    flightlog.sql(text)
    with pytest.raises(flightlog.InvalidFilterError, match="16,384 characters"):
        flightlog.sql(text + " ")


HOSTILE = {
    "comment": "/*" + "*" * 16_000,
    "quotes": "'" + "''" * 8_000,
    "line comment": "--" * 8_000,
    "zeros": "0" * 16_000,
    "nines": "9" * 16_000,
    "brackets": "(" * 16_000,
    "signs": "a = " + "- " * 8_000,
    "nots": "NOT " * 4_000,
}


@pytest.fixture
def tokens_read(monkeypatch: pytest.MonkeyPatch) -> list[Token]:
    """What parsers made in this test took from their lexers. A token is found in one pass over the text."""
    taken: list[Token] = []

    def counted(expression: str) -> Iterator[Token]:
        for token in tokens(expression):
            taken.append(token)
            yield token

    monkeypatch.setattr(sql_parser, "tokens", counted)
    return taken


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_left_where_it_goes_wrong(name: str, tokens_read: list[Token]) -> None:
    """A lexer that read on would look at the whole rest once a token: the square of the length."""
    with pytest.raises(flightlog.InvalidFilterError):
        flightlog.sql(HOSTILE[name])
    assert len(tokens_read) <= MAX_DEPTH + 3


def test_each_token_is_read_once(tokens_read: list[Token]) -> None:
    count = MAX_LENGTH // len("a = - -1 AND ")
    text = " AND ".join(["a = - -1"] * count)
    assert flightlog.sql(text).accepts({"a": "1"})
    assert len(tokens_read) == 6 * count


def test_a_filter_is_a_value() -> None:
    one, same, other = flightlog.sql("a > 5"), flightlog.sql("a > 5"), flightlog.sql("a>5")
    assert one == same
    assert one != other
    assert {one: 1}[same] == 1
    assert repr(one) == "sql('a > 5')"
    assert one.expression == "a > 5"
    for copied in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert copied == one
        assert copied.accepts({"a": "6"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.expression = "b"  # type: ignore[misc]
