"""What a part of `make messaging` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """One table, and what is drawn beside it."""

    name: str
    title: str
    rows: list[dict[str, Any]]
    """All with the same columns, whose names have the units."""
    series: dict[str, list[Any]] = field(default_factory=dict)
    """By label: latencies in ms, ascending, or points."""
