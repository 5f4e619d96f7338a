"""README, guide, operations and cookbook: loggers, settings and errors that they name exist; no logger is left out."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from flightlog import StoreSettings

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

DOCUMENTS = ("README.md", "docs/guide.md", "docs/operations.md", "docs/cookbook.md")
PYTHON_ERRORS = {"ValueError", "TimeoutError"}


def test_readme_is_one_page(house: House) -> None:
    """5 to 7 KB: what does not fit is a link."""
    assert 5 << 10 <= (house.root / "README.md").stat().st_size <= 7 << 10


def test_every_logger_is_in_the_table_of_logs(house: House) -> None:
    logging_calls = re.compile(r'getLogger\("(flightlog\.\w+)"\)')
    used = {name for file in house.package_modules() for name in logging_calls.findall((house.root / file).read_text())}
    assert used == set(re.findall(r"`(flightlog\.[a-z_]+)`", section(house, "Logs")))


def test_settings_by_task_are_settings(house: House) -> None:
    table = "".join(line for line in section(house, "Settings by task").splitlines(True) if line.startswith("| "))
    named = set(re.findall(r"`([a-z_]+)(?:=[\w.]+)?`", table))
    assert len(named) > 25
    assert named <= {field.name for field in dataclasses.fields(StoreSettings)} | {"put_many", "put_async", "query"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_errors_that_are_named_exist(house: House, document: str) -> None:
    sources = "".join((house.root / file).read_text() for file in house.package_modules())
    defined = set(re.findall(r"^class (\w+(?:Error|Warning))\b", sources, re.MULTILINE))
    named = set(re.findall(r"\b([A-Z]\w+(?:Error|Warning))\b", (house.root / document).read_text()))
    assert named - PYTHON_ERRORS <= defined


def section(house: House, title: str) -> str:
    text = (house.root / "docs/operations.md").read_text()
    [found] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)
