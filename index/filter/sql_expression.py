"""Parts of a SQL92 filter, compiled to closures over the properties of a message.

Each function makes a part of smaller ones, and raises RefusedError for what RocketMQ's parser refuses though the
grammar has it: text beside `<`, NULL beside `=`, a BETWEEN that is upside down. The rules of three values:

| | a part is null |
|---|---|
| `=` | true where both sides are null, null where the left one is, else false |
| `<>` | NOT of that |
| `<` `<=` `>` `>=` BETWEEN IN NOT | null |
| AND, OR | null unless the other parts settle it |
| CONTAINS STARTSWITH ENDSWITH, and NOT before them | false |
| a property that stands for a truth value | null; false where the message has it: no property is a boolean |

(`rocketmq-filter`'s ComparisonExpression, LogicExpression, UnaryExpression and ConstantExpression.)
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .sql_values import INT_MAX, LONG_MAX, READERS, Long, Value, compare, double

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]
Kind = Literal["property", "constant", "number", "boolean"]

ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SEARCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class RefusedError(Exception):
    """`expected` is what would have been taken."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


@dataclass(frozen=True)
class Part:
    """`kind` says what it may stand for; TRUE, FALSE and NULL are boolean and constant in one."""

    kind: Kind
    evaluate: Evaluate
    depth: int = 1
    """Calls within calls that an evaluation makes."""
    name: str = ""
    """The name of a property."""
    constant: tuple[Value] | None = None
    """The value of a constant."""


def property_named(name: str) -> Part:
    return Part("property", lambda properties: properties.get(name), name=name)


def constant(value: Value) -> Part:
    kind: Kind = "boolean" if value is None or isinstance(value, bool) else "constant"
    return Part(kind, lambda _: value, constant=(value,))


def whole_number(image: str) -> Part:
    number = int(image.rstrip("lL")) if len(image) <= len(str(LONG_MAX)) + 1 else LONG_MAX + 1
    if number > LONG_MAX:
        raise RefusedError(f"a number up to {LONG_MAX}")
    return constant(number if number <= INT_MAX else Long(number))


def float_number(image: str) -> Part:
    number = float(image)
    if not 0.0 < number <= sys.float_info.max:
        raise RefusedError("a floating-point number above 0 that a double can hold: zero is written 0")
    return constant(number)


def truth(part: Part) -> Part:
    """`part` as an operand of AND, OR and NOT, or as the whole filter."""
    if part.kind == "boolean":
        return part
    if part.kind != "property":
        raise RefusedError("a comparison, TRUE or FALSE, or a property: this has no truth value")
    inner = part.evaluate
    return Part("boolean", lambda properties: None if inner(properties) is None else False, part.depth + 1)


def negative(part: Part) -> Part:
    """Negate a number; null for anything else."""
    inner = part.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        if isinstance(value, Long):
            return Long(-value)
        return None if value is None or isinstance(value, str | bool) else -value

    return Part("number", evaluate, part.depth + 1)


def negation(part: Part) -> Part:
    operand = truth(part)
    inner = operand.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return Part("boolean", evaluate, operand.depth + 1)


def logic(parts: Sequence[Part], settling: bool) -> Part:
    """OR if `settling`, else AND: the first operand with that value is the answer, and later ones are not looked at."""
    operands = [truth(part) for part in parts]
    inner = [part.evaluate for part in operands]

    def evaluate(properties: Properties) -> Value:
        answer: Value = not settling
        for operand in inner:
            value = operand(properties)
            if value is settling:
                return settling
            if value is None:
                answer = None
        return answer

    return Part("boolean", evaluate, 1 + max(part.depth for part in operands))


def equal(left: Part, right: Part) -> Part:
    if (None,) in (left.constant, right.constant):
        raise RefusedError("a value that is not NULL: IS NULL tests for it")
    if left.kind == "boolean" and left.constant and right.kind == "constant":
        raise RefusedError("no TRUE or FALSE before =, where the other side is a number or a text")
    return _equal(left, right)


def is_null(part: Part) -> Part:
    return _equal(part, constant(None))


def _equal(left_part: Part, right_part: Part) -> Part:
    left, right = left_part.evaluate, right_part.evaluate

    def evaluate(properties: Properties) -> Value:
        one, other = left(properties), right(properties)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return Part("boolean", evaluate, 1 + max(left_part.depth, right_part.depth))


def ordered(left_part: Part, symbol: str, right_part: Part) -> Part:
    """One of `<`, `<=`, `>`, `>=`. A text beside a text is compared as a double."""
    for part in (left_part, right_part):
        if part.kind == "boolean" or (part.constant and isinstance(part.constant[0], str)):
            raise RefusedError(f"numbers and properties beside {symbol}: texts are compared by = and <> only")
    left, right, holds = left_part.evaluate, right_part.evaluate, ORDERS[symbol]
    if left_part.kind == "property" and right_part.constant and isinstance(right_part.constant[0], int):
        return _property_beside_number(left_part.name, holds, right_part.constant[0])

    def evaluate(properties: Properties) -> Value:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            one, other = double(one), double(other)
        return holds(compare(one, other), 0)

    return Part("boolean", evaluate, 1 + max(left_part.depth, right_part.depth))


def _property_beside_number(name: str, holds: Callable[[Any, Any], bool], number: int) -> Part:
    """What most filters are made of, in one call."""
    read = READERS[type(number)]

    def evaluate(properties: Properties) -> Value:
        text = properties.get(name)
        return None if text is None else holds(read(text), number)

    return Part("boolean", evaluate)


def between(part: Part, low: Part, high: Part) -> Part:
    if low.constant and high.constant:
        first, last = low.constant[0], high.constant[0]
        if first is None or last is None:
            raise RefusedError("bounds that are not NULL")
        # Bounds of another type are refused by `ordered`.
        if isinstance(first, int | float) and isinstance(last, int | float) and compare(last, first) < 0:
            raise RefusedError("a lower bound that is not above the upper one")
    return logic((ordered(part, ">=", low), ordered(part, "<=", high)), settling=False)


def not_between(part: Part, low: Part, high: Part) -> Part:
    return logic((ordered(part, "<", low), ordered(part, ">", high)), settling=True)


def among(part: Part, texts: Sequence[str], *, is_in: bool) -> Part:
    if part.kind != "property":
        raise RefusedError("a property before IN")
    name, wanted = part.name, frozenset(texts)

    def evaluate(properties: Properties) -> Value:
        text = properties.get(name)
        return None if text is None else (text in wanted) is is_in

    return Part("boolean", evaluate)


def search(part: Part, word: str, text: str, *, is_found: bool) -> Part:
    """CONTAINS, STARTSWITH, ENDSWITH. False of what is no text, and for the empty text: with NOT, too."""
    if not text:
        return Part("boolean", lambda _: False)
    inner, found = part.evaluate, SEARCHES[word]

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return isinstance(value, str) and found(value, text) is is_found

    return Part("boolean", evaluate, part.depth + 1)
