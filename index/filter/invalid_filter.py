"""The error of an expression that is no filter."""

from __future__ import annotations

from ...store.errors import InvalidArgumentError, shown


class InvalidFilterError(InvalidArgumentError):
    """An expression that is no SQL92 filter. `position` is the number of characters before `found`."""

    def __init__(self, expression: str, position: int, found: str, expected: str) -> None:
        super().__init__("expression", expression, f"{expected}; found {shown(found)} at position {position}")
        self.position, self.found, self.expected = position, found, expected
