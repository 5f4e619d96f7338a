"""docs/architecture.md and docs/design.md: files that they name exist; picture and table of threads are complete.
docs/tools.md: its pictures are what the commands print."""

from __future__ import annotations

import ast
import re
import runpy
from typing import TYPE_CHECKING

import pytest

from flightlog.docs.screens_svg import drawings

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

DOCUMENTS = ("docs/architecture.md", "docs/design.md")
SOURCE = re.compile(r"[\w./-]+\.(?:py|pyi|c|h|java|md|svg|toml)")
"""What looks like a file of the repository; the files of a store have other suffixes, or none."""
THREAD = re.compile(r"flightlog(?:-[a-z]+)+")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_in_code_font_exists(house: House, document: str) -> None:
    named = re.findall(r"`([^`\n]+)`", (house.root / document).read_text())
    files = {name for name in named if SOURCE.fullmatch(name)}
    assert len(files) > 10
    assert [name for name in sorted(files) if not (house.root / name).is_file()] == []


@pytest.mark.parametrize("name", ["architecture", "road"])
def test_the_picture_is_the_one_that_its_program_draws(house: House, name: str) -> None:
    drawn = runpy.run_path(str(house.root / f"docs/{name}_svg.py"))["drawing"]()
    assert (house.root / f"docs/{name}.svg").read_text() == drawn


def test_the_screens_are_what_the_commands_print(house: House) -> None:
    folder = house.root / "docs/screens"
    stored = {file.name: file.read_text() for file in folder.iterdir()}
    drawn = drawings()
    wrong = [name for name in sorted(stored.keys() | drawn.keys()) if stored.get(name) != drawn.get(name)]
    assert not wrong, "draw them anew with: python -P docs/screens_svg.py"
    page = (house.root / "docs/tools.md").read_text()
    assert [name for name in drawn if f"](screens/{name})" not in page] == []


def test_every_thread_of_a_store_is_in_the_table_of_threads(house: House) -> None:
    told = (house.root / "docs/architecture.md").read_text()
    names = {
        node.value
        for file in house.package_modules()
        if file.parts[0] != "tools"
        for node in ast.walk(ast.parse((house.root / file).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and THREAD.fullmatch(node.value)
    }
    assert len(names) > 5
    assert [name for name in sorted(names) if f"| `{name}` |" not in told] == []
