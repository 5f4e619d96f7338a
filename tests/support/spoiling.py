"""How mutants of the store are made: a function of its own takes the place of one of the store's."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Real = Callable[..., Any]


def around(patch: pytest.MonkeyPatch, owner: type | ModuleType, name: str, spoilt: Real) -> None:
    """Have `spoilt` called in place of the function `name`, which it is handed before all other arguments."""
    real = getattr(owner, name)
    patch.setattr(owner, name, lambda *arguments, **options: spoilt(real, *arguments, **options))
