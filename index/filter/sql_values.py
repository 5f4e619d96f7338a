"""Values of a SQL92 filter, and comparisons of two of them, by Java's rules, which differ from Python's.

| here | Java | from |
|---|---|---|
| str | String | a property, a text |
| int; Long | Integer; Long, for what takes more than 32 bits | a number |
| float | Double | a number with a point or an exponent |
| bool | Boolean | TRUE, FALSE, a comparison |
| None | null | a property that the message does not have |

A property is text. It is converted by the other side: beside 5 to an Integer, so that 5.5 and 5000000000 are no numbers
there; beside 5.0 to a Double. What cannot be compared raises NotComparableError, and the message does not match,
whatever stands around the comparison.

(`rocketmq-filter`'s ComparisonExpression#__compare; Java's Integer, Long and Double#valueOf and #compareTo.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

_WHOLE = re.compile(r"([+-]?)0*(\d+)")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?",
)
_JAVA_WHITESPACE = "".join(map(chr, range(ord(" ") + 1)))
_LAST_OF_16_BITS = "\uffff"
"""Java checks digits by UTF-16 unit, so that no character beyond this is one."""

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


class Long(int):
    """A number that Java holds in 64 bits."""

    __slots__ = ()


Value = str | int | float | None
"""`bool` and `Long` are kinds of `int`."""


class NotComparableError(Exception):
    """Two values of a message cannot be compared. Never leaves the filter: the message does not match."""


def integer(text: str) -> int:
    """`Integer.valueOf`: digits of any script, and nothing else."""
    return _whole(text, INT_MIN, INT_MAX)


def long(text: str) -> int:
    """`Long.valueOf`."""
    return _whole(text, LONG_MIN, LONG_MAX)


def _whole(text: str, low: int, high: int) -> int:
    if len(text) < 10 and text.isascii() and text.isdecimal():  # nearly always, and within any bounds
        return int(text)
    match = _WHOLE.fullmatch(text)
    if match is None or max(text) > _LAST_OF_16_BITS:
        raise NotComparableError
    try:
        number = int(match[1] + match[2])
    except ValueError:  # more digits than Python converts
        raise NotComparableError from None
    if not low <= number <= high:
        raise NotComparableError
    return number


def double(text: str) -> float:
    """`Double.valueOf`: white space around it, NaN, Infinity, hexadecimal, and an f or d behind it are taken."""
    text = text.strip(_JAVA_WHITESPACE)
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("fFdD"))
    match = _HEX_DOUBLE.fullmatch(text)
    if match is None:
        raise NotComparableError
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return -math.inf if text[0] == "-" else math.inf


def boolean(text: str) -> bool:
    """`Boolean.valueOf`."""
    return text.lower() == "true"


READERS: dict[type, Callable[[str], int | float]] = {int: integer, Long: long, float: double, bool: boolean}
"""What makes of a text a value of the other side's type."""


def compare(left: str | float, right: str | float) -> int:
    """Below 0, 0, or above: as left is less, equal or greater. Texts are only compared with what is no text, or for
    equality. Raises NotComparableError."""
    if type(left) is not type(right):
        if isinstance(left, str):
            left = READERS[type(right)](left)
        elif isinstance(right, str):
            if isinstance(left, bool):  # RocketMQ casts the wrong side, and fails
                raise NotComparableError
            right = READERS[type(left)](right)
        elif isinstance(left, bool) or isinstance(right, bool):
            return -1
        elif isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
    if isinstance(left, float) and isinstance(right, float):
        return compare_doubles(left, right)
    if isinstance(left, str) or isinstance(right, str):
        return 0 if left == right else 1
    return (left > right) - (left < right)


def compare_doubles(left: float, right: float) -> int:
    """`Double.compareTo`: NaN equals itself and is above everything, -0.0 is below 0.0."""
    if left != left or right != right:
        return (left != left) - (right != right)
    if left == right:
        left, right = math.copysign(1.0, left), math.copysign(1.0, right)
    return (left > right) - (left < right)
