"""The words of a SQL92 filter.

    white space    space, tab, line feed, carriage return, form feed; comments `-- to the end of the line` and `/* … */`
    keyword        any case: NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH
    integer        0, or digits that begin with 1 to 9, with or without an L behind: neither octal nor hexadecimal
    float          5.5  5.  .5  5e10  5.5E-3
    text           'in single quotes', where '' is one quote
    name           of a property: ASCII letters, digits, `_` and `$`, no digit first; case matters
    symbol         = <> > >= < <= ( ) , + -

As in RocketMQ the longest match wins (`01` is two words), and a line comment needs its line end. (The tokens of
`rocketmq-filter`'s SelectorParser.jj.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from .invalid_filter import InvalidFilterError

KEYWORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
INTEGER: Final = "integer"
FLOAT: Final = "float"
TEXT: Final = "text"
NAME: Final = "name"
END: Final = "end"

_EXPONENT = "(?:[eE][+-]?[0-9]+)"
_WORD = re.compile(
    r"(?P<skipped>[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)"
    rf"|(?P<float>[0-9]+\.[0-9]*{_EXPONENT}?|\.[0-9]+{_EXPONENT}?|[0-9]+{_EXPONENT})"
    r"|(?P<integer>0|[1-9][0-9]*[lL]?)"
    r"|(?P<text>'(?:''|[^'])*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<symbol><>|<=|>=|[=<>(),+-])"
)
_HINTS = {
    "'": "the closing quote of a text: a quote inside it is doubled",
    '"': "text in single quotes",
    "!": "<> for unequal, or NOT",
    "&": "AND",
    "|": "OR",
}


class Token(NamedTuple):
    """`kind` is a keyword in capitals, a symbol, or one of INTEGER, FLOAT, TEXT, NAME and END."""

    kind: str
    image: str
    position: int
    """Characters before it."""

    @property
    def shown(self) -> str:
        """As an error names it."""
        return "the end" if self.kind == END else self.image


def tokens(expression: str) -> Iterator[Token]:
    """All of them, END last. Raises InvalidFilterError where no token begins."""
    position = 0
    while position < len(expression):
        match = _WORD.match(expression, position)
        if match is None:
            character = expression[position]
            expected = _HINTS.get(character, "a property, a number, a text in single quotes, or an operator")
            raise InvalidFilterError(expression, position, character, expected)
        kind, image = str(match.lastgroup), match.group()
        if kind == "symbol":
            kind = image
        elif kind == NAME and image.upper() in KEYWORDS:
            kind = image.upper()
        if kind != "skipped":
            yield Token(kind, image, position)
        position = match.end()
    yield Token(END, "", position)
