"""Docstrings of methods that only check and delegate: `help()` shows what the method behind them promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def documented_by(source: Callable[..., object]) -> Callable[[F], F]:
    """Give a function the docstring of `source`, which it delegates to."""

    def document(function: F) -> F:
        function.__doc__ = source.__doc__
        return function

    return document
