"""docs/spark.md: every recipe is run as it stands there, and the answers are looked at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flightlog.engine.columns.schema import COLUMNS
from flightlog.spark.options import NAMES

if TYPE_CHECKING:
    Found = dict[str, Any]

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
ORDERS = 30
STEPS = ("create", "pay", "deduct")


def section(title: str) -> str:
    """The text below `## title`."""
    [text] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def recipes() -> dict[str, str]:
    """Title -> Python of each recipe."""
    parts = re.split(r"^### (.*)\n", section("Recipes"), flags=re.MULTILINE)[1:]
    return {
        title: "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_columns_are_those_of_a_store() -> None:
    rows = [cells(line) for line in section("Reading").splitlines() if line.startswith("| `")]
    assert rows == [[f"`{column.name}`", column.type, column.meaning] for column in COLUMNS]


def test_every_option_is_told() -> None:
    told = {cells(line)[0].strip("`") for line in section("Options").splitlines() if line.startswith("| `")}
    assert "path" in told and told <= set(NAMES)
    assert not {name for name in NAMES if f"`{name}`" not in DOCUMENT.read_text()}
