"""Random SQL92 filters and messages: most are filters, some are nearly one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

NAMES = ("a", "b", "c", "A", "amount", "region", "$x", "_y1", "TAGS", "nothing", "likely")
TEXTS = (
    "",
    "x",
    "y",
    "xy",
    "red",
    "true",
    "TRUE",
    "false",
    "5",
    "-5",
    "5.5",
    "1e3",
    "it''s",
    "ä订🚀",
    " 5",
    "NaN",
    "null",
)
WHOLE = ("0", "1", "5", "7L", "10l", "1000", "2147483647", "2147483648", "3000000000", "9223372036854775807")
FLOATS = (
    "0.5",
    "5.0",
    "5.",
    ".5",
    "5.5",
    "1e3",
    "1E+3",
    "5e0",
    "5.5e-3",
    "1e300",
    "00.5",
    "4.9e-324",
    "1.7976931348623157e308",
)
REFUSED = (
    "9223372036854775808",
    "99999999999999999999L",
    "0.0",
    "1e400",
    "1e-400",
    "012",
    "0x10",
    "5LL",
    "1e",
    "0L",
    "1.5L",
)
VALUES = (
    *(
        "0",
        "1",
        "5",
        "-5",
        "+5",
        "7",
        "10",
        "1000",
        "05",
        "005",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
    ),
    *("3000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "9007199254740993"),
    *(
        "0.5",
        "5.0",
        "5.",
        ".5",
        "5.5",
        "-5.5",
        "1e3",
        "1E3",
        "1e400",
        "-1e400",
        "1e-400",
        "5f",
        "5.5d",
        "5D",
        "5e",
        "5.5L",
    ),
    *("0x10", "0x1p3", "0x1.8P-2f", "0x.8p1", "0xp1", "0x1p99999", "0X1p-99999", "-0x1p4", "NaN", "-NaN", "nan"),
    *(
        "Infinity",
        "-Infinity",
        "+Infinity",
        "inf",
        "infinity",
        "-0.0",
        "0.0",
        "+0",
        "-0",
        "--5",
        "+",
        "-",
        ".",
        "1_000",
    ),
    *(
        " 5",
        "5 ",
        "\t5\n",
        "\x005.5\x1f",
        "\xa05",
        "٥",
        "５",
        "\U0001d7d3",
        "5٥",
        "1,5",
        "true",
        "TRUE",
        "True",
        "false",
    ),
    *(
        "x",
        "y",
        "xy",
        "yx",
        "red",
        "reddish",
        "it's",
        "ä订🚀",
        "🚀",
        "null",
        "NULL",
        " ",
        "-",
        "0" * 30 + "5",
        "9" * 40,
    ),
)
SPACES = (
    " ",
    " ",
    " ",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\f",
    "/* c */",
    "/***/",
    "/* * / */",
    "-- c\n",
    "--\r",
    "-- 'c'\r\n",
)
NOISE: tuple[str, ...] = (
    *"'\"()=<>,+-*/!;:%&|#.@\\ \x00\x0b\xa0ſKä0L",
    "''",
    "--",
    "/*",
    "*/",
    "==",
    "LIKE",
    "ESCAPE",
    "NOW",
    "XPATH",
    "\u2028",
)
WORDS = (
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "TRUE",
    "FALSE",
    "NULL",
    "IS",
    "CONTAINS",
    "STARTSWITH",
    "ENDSWITH",
    "LIKE",
)

Make = Callable[[random.Random, int], list[str]]


def some_message(rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(VALUES if rng.random() < 0.7 else ("5", "x")) for name in NAMES if rng.random() < 0.6}


def some_filter(rng: random.Random) -> str:
    """Nearly always of the grammar; one in four was damaged afterwards."""
    words = _logic(rng, rng.choice((1, 1, 2, 2, 3, 4)))
    if rng.random() < 0.12:
        _damage(rng, words)
    text = _written(rng, words)
    return _damaged(rng, text) if rng.random() < 0.12 else text


def _written(rng: random.Random, words: Sequence[str]) -> str:
    is_plain, found = rng.random() < 0.6, ""
    for word in words:
        if word in WORDS and not is_plain:
            word = rng.choice((word.lower(), word.title(), word))
        is_needed = found and (found[-1].isalnum() or found[-1] in "_$") and (word[0].isalnum() or word[0] in "_$")
        if is_needed or is_plain or rng.random() < 0.5:
            found += " " if is_plain else rng.choice(SPACES)
        found += word
    return found


def _damage(rng: random.Random, words: list[str]) -> None:
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(words) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            words.insert(at, rng.choice((*WORDS, *NOISE, *REFUSED, *NAMES)))
        elif kind == 1 and len(words) > 1:
            del words[at - 1]
        elif kind == 2:
            words[at - 1 :] = [*words[at - 1 :][:1], *words[at - 1 :]]
        else:
            other = rng.randrange(len(words))
            words[at - 1], words[other] = words[other], words[at - 1]


def _damaged(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    kind = rng.randrange(3)
    if kind == 0:
        return text[:at] + rng.choice(NOISE) + text[at:]
    return text[:at] + text[at + rng.randint(1, 3) :] if kind == 1 else text[:at]


def _logic(rng: random.Random, depth: int) -> list[str]:
    found = _equality(rng, depth)
    while rng.random() < 0.3:
        found += [rng.choice(("AND", "OR")), *_equality(rng, depth)]
    return found


def _equality(rng: random.Random, depth: int) -> list[str]:
    found = _comparison(rng, depth)
    while rng.random() < 0.3:
        kind = rng.randrange(4)
        if kind < 2:
            found += [rng.choice(("=", "<>")), *_comparison(rng, depth)]
        else:
            found += ["IS", "NULL"] if kind == 2 else ["IS", "NOT", "NULL"]
    return found


def _comparison(rng: random.Random, depth: int) -> list[str]:
    kind = rng.randrange(13)
    negated = ["NOT"] if rng.random() < 0.4 else []
    if kind < 5:
        return [*_number_like(rng, depth), rng.choice(("<", "<=", ">", ">=")), *_number_like(rng, depth)]
    if kind == 5:
        return [
            *_number_like(rng, depth),
            *negated,
            "BETWEEN",
            *_number_like(rng, depth),
            "AND",
            *_number_like(rng, depth),
        ]
    if kind == 6:
        texts = [word for _ in range(rng.choice((1, 2, 3, 6))) for word in (",", _text(rng))]
        return [rng.choice(NAMES), *negated, "IN", "(", *texts[1:], ")"]
    if kind == 7:
        word = rng.choice(("CONTAINS", "STARTSWITH", "ENDSWITH"))
        return [*_unary(rng, depth), *negated, word, _text(rng)]
    if kind < 11:
        return [*_unary(rng, depth), rng.choice(("=", "<>")), *_unary(rng, depth)]
    return _unary(rng, depth)


def _number_like(rng: random.Random, depth: int) -> list[str]:
    """What may be beside `<`, most of the time."""
    kind = rng.random()
    if kind < 0.55:
        return [rng.choice(NAMES)]
    if kind < 0.93:
        return [*(["-"] if rng.random() < 0.3 else []), rng.choice(WHOLE if rng.random() < 0.6 else FLOATS)]
    return _unary(rng, depth)


def _unary(rng: random.Random, depth: int) -> list[str]:
    kind = rng.random()
    if kind < 0.15 and depth:
        return [rng.choice(("NOT", "NOT", "-", "+")), *_unary(rng, depth - 1)]
    if kind < 0.35 and depth:
        return ["(", *_logic(rng, depth - 1), ")"]
    if kind < 0.7:
        return [rng.choice(NAMES)]
    if kind < 0.8:
        return [_text(rng)]
    if kind < 0.87:
        return [rng.choice(("TRUE", "FALSE", "TRUE", "FALSE", "NULL"))]
    return [rng.choice((*WHOLE, *FLOATS, *(REFUSED if rng.random() < 0.1 else ())))]


def _text(rng: random.Random) -> str:
    return f"'{rng.choice(TEXTS)}'"
