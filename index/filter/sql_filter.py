"""SQL92 filters: which messages a reader wants, by their properties.

    sql("amount > 100 AND region IS NOT NULL")

RocketMQ's `MessageSelector.bySql`. The grammar is in `sql_parser`, what values are in `sql_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...store.errors import WrongTypeError
from ...store.stored_message import StoredMessage
from ..queue.queue_unit import Units
from .sql_expression import Evaluate
from .sql_parser import parse
from .sql_values import NotComparableError


@dataclass(frozen=True, repr=False)
class SqlFilter:
    """Messages whose properties make `expression` true. Two with the same expression are equal.

    What cannot be compared, such as `amount > 100` where a message's amount is `many`, makes a message not match,
    whatever else the expression says: RocketMQ evaluates no further.
    """

    expression: str
    _evaluate: Evaluate = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise WrongTypeError("expression", self.expression, "a SQL92 filter as text, such as \"color = 'red'\"")
        object.__setattr__(self, "_evaluate", parse(self.expression).evaluate)

    def __repr__(self) -> str:
        return f"sql({self.expression!r})"

    def __reduce__(self) -> tuple[type[SqlFilter], tuple[str]]:
        return SqlFilter, (self.expression,)

    def accepts(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties matches."""
        try:
            return self._evaluate(properties) is True
        except NotComparableError:
            return False

    # -- as the reader of a queue asks

    def may_match(self, units: Units) -> NDArray[np.bool_]:
        """Every entry: none says what properties its message has."""
        return np.ones(len(units), np.bool_)

    def has_hash(self, units: Units) -> NDArray[np.bool_]:
        """None: no entry answers for its message."""
        return np.zeros(len(units), np.bool_)

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message matches."""
        return self.accepts(message.properties)


def sql(expression: str) -> SqlFilter:
    """A filter for `filter=` of `subscribe`, `read`, `get` and `pull`: RocketMQ's `MessageSelector.bySql`.

    Raises InvalidFilterError for what is no filter: it names the place, what is there, and what was expected.
    """
    return SqlFilter(expression)
