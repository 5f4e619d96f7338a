"""The grammar of a SQL92 filter: RocketMQ 5.3.3's, by recursive descent.

    filter      = or END
    or          = and { OR and }
    and         = equality { AND equality }
    equality    = comparison { ("=" | "<>") comparison | IS [NOT] NULL }
    comparison  = unary { ("<" | "<=" | ">" | ">=") unary
                        | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text
                        | [NOT] BETWEEN unary AND unary
                        | [NOT] IN "(" text { "," text } ")" }
    unary       = ("+" | "-" | NOT) unary | primary
    primary     = text | integer | float | TRUE | FALSE | NULL | name | "(" or ")"

NOT binds closer than a comparison: `NOT a = 1` compares `NOT a`. RocketMQ stops at the first word that continues
nothing and ignores the rest, so that `a LIKE 'x'` is the property `a` alone; here the rest is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from . import sql_expression as parts
from .invalid_filter import InvalidFilterError
from .sql_expression import ORDERS, SEARCHES, Part, RefusedError
from .sql_lexer import END, FLOAT, INTEGER, NAME, TEXT, Token, tokens

MAX_LENGTH = 16_384
"""Characters of an expression."""
MAX_DEPTH = 50
"""Parts within parts: each takes up to seven calls of Python's thousand."""

VALUE = "a property, a number, a text in single quotes, TRUE, FALSE or ("
REST = "an operator, AND, OR or the end"
REST_IN_BRACKETS = "an operator, AND, OR or )"
HINTS = {
    "LIKE": "CONTAINS, STARTSWITH or ENDSWITH: RocketMQ's filters have no LIKE",
    "+": "an operator that compares: there is no arithmetic",
    "-": "an operator that compares: there is no arithmetic; a comment that begins with -- ends with a line end",
}
CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}


def parse(expression: str) -> Part:
    """The filter as one part that has a truth value. Raises InvalidFilterError."""
    if len(expression) > MAX_LENGTH:
        raise InvalidFilterError(expression, MAX_LENGTH, "more", f"at most {MAX_LENGTH:,} characters")
    return _Parser(expression).parse()


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        # One by one: to look at all of a text that is wrong soon can take time in the square of its length.
        self._unread = tokens(expression)
        self._ahead: list[Token] = []
        self._open = 0

    def parse(self) -> Part:
        start = self._peek()
        part = self._or()
        if self._peek().kind != END:
            raise self._unexpected(REST)
        return self._made(start, parts.truth, part)

    def _peek(self, index: int = 0) -> Token:
        """The next token, or one behind it, which is not END."""
        while len(self._ahead) <= index:
            self._ahead.append(next(self._unread))
        return self._ahead[index]

    def _error(self, token: Token, expected: str) -> InvalidFilterError:
        return InvalidFilterError(self._expression, token.position, token.shown, expected)

    def _unexpected(self, expected: str) -> InvalidFilterError:
        """The next token is not what may come here; `a NOT LIKE` is about LIKE."""
        token = self._peek()
        if token.kind == "NOT" and self._peek(1).image.upper() in HINTS:
            token = self._peek(1)
        return self._error(token, HINTS.get(token.image.upper(), expected))

    def _take(self, *kinds: str) -> Token | None:
        """The next token if it is of one of these kinds."""
        token = self._peek()
        if token.kind not in kinds:
            return None
        return self._ahead.pop(0)

    def _take_not(self, *kinds: str) -> Token | None:
        """NOT and a token of one of these kinds, if both come next."""
        if self._peek().kind != "NOT" or self._peek(1).kind not in kinds:
            return None
        del self._ahead[0]
        return self._ahead.pop(0)

    def _need(self, kind: str, expected: str) -> Token:
        token = self._take(kind)
        if token is None:
            raise self._unexpected(expected)
        return token

    def _made(self, at: Token, make: Callable[..., Part], *given: object, **named: object) -> Part:
        """What `make` returns; its refusal names `at`."""
        try:
            part = make(*given, **named)
        except RefusedError as refused:
            raise self._error(at, refused.expected) from None
        self._check_depth(at, part.depth)
        return part

    def _check_depth(self, at: Token, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._error(at, f"at most {MAX_DEPTH} parts within each other")

    def _or(self) -> Part:
        return self._logic("OR", self._and, settling=True)

    def _and(self) -> Part:
        return self._logic("AND", self._equality, settling=False)

    def _logic(self, word: str, operand: Callable[[], Part], *, settling: bool) -> Part:
        start = self._peek()
        found = [operand()]
        while self._take(word):
            found[-1] = self._made(start, parts.truth, found[-1])
            start = self._peek()
            found.append(operand())
        if len(found) == 1:
            return found[0]
        return self._made(start, parts.logic, found, settling=settling)

    def _equality(self) -> Part:
        part = self._comparison()
        while token := self._take("=", "<>", "IS"):
            if token.kind == "IS":
                is_not = self._take("NOT")
                self._need("NULL", "NULL" if is_not else "NULL or NOT NULL")
                part = self._made(token, parts.is_null, part)
                if is_not:
                    part = self._made(token, parts.negation, part)
            else:
                part = self._made(token, parts.equal, part, self._comparison())
                if token.kind == "<>":
                    part = self._made(token, parts.negation, part)
        return part

    def _comparison(self) -> Part:
        part = self._unary()
        while True:
            if token := self._take(*ORDERS):
                part = self._made(token, parts.ordered, part, token.kind, self._unary())
            elif token := self._take(*SEARCHES):
                part = self._made(token, parts.search, part, token.kind, self._text(), is_found=True)
            elif token := self._take_not(*SEARCHES):
                part = self._made(token, parts.search, part, token.kind, self._text(), is_found=False)
            elif token := self._take("BETWEEN"):
                part = self._made(token, parts.between, part, *self._bounds())
            elif token := self._take_not("BETWEEN"):
                part = self._made(token, parts.not_between, part, *self._bounds())
            elif token := self._take("IN"):
                part = self._made(token, parts.among, part, self._texts(), is_in=True)
            elif token := self._take_not("IN"):
                part = self._made(token, parts.among, part, self._texts(), is_in=False)
            else:
                return part

    def _bounds(self) -> tuple[Part, Part]:
        low = self._unary()
        self._need("AND", "AND and the upper bound")
        return low, self._unary()

    def _texts(self) -> list[str]:
        self._need("(", "( and texts in single quotes")
        found = [self._text()]
        while self._take(","):
            found.append(self._text())
        self._need(")", ", or )")
        return found

    def _text(self) -> str:
        return self._need(TEXT, "a text in single quotes").image[1:-1].replace("''", "'")

    def _unary(self) -> Part:
        token = self._take("+", "-", "NOT")
        if token is None:
            return self._primary()
        self._enter(token)
        part = self._unary()
        self._open -= 1
        if token.kind == "+":
            return part
        return self._made(token, parts.negative if token.kind == "-" else parts.negation, part)

    def _primary(self) -> Part:
        token = self._take(TEXT, INTEGER, FLOAT, NAME, "(", *CONSTANTS)
        if token is None:
            raise self._unexpected(VALUE)
        if token.kind == TEXT:
            return parts.constant(token.image[1:-1].replace("''", "'"))
        if token.kind == INTEGER:
            return self._made(token, parts.whole_number, token.image)
        if token.kind == FLOAT:
            return self._made(token, parts.float_number, token.image)
        if token.kind == NAME:
            return parts.property_named(token.image)
        if token.kind in CONSTANTS:
            return parts.constant(CONSTANTS[token.kind])
        self._enter(token)
        part = self._or()
        self._open -= 1
        self._need(")", REST_IN_BRACKETS)
        return part

    def _enter(self, token: Token) -> None:
        """One bracket or sign deeper."""
        self._open += 1
        self._check_depth(token, self._open)
