"""docs/architecture.md and docs/design.md: every file and link in them exists, and the picture is up to date."""

from __future__ import annotations

import re
import runpy
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.house.conftest import House

DOCUMENTS = ("docs/architecture.md", "docs/design.md")
SOURCE = re.compile(r"[\w./-]+\.(?:py|pyi|c|h|java|md|svg|toml)")
"""What in code font looks like a file of the repository: a store's own files have other suffixes, or none."""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_in_code_font_exists(house: House, document: str) -> None:
    named = re.findall(r"`([^`\n]+)`", (house.root / document).read_text())
    files = {name for name in named if SOURCE.fullmatch(name)}
    assert len(files) > 10
    assert [name for name in sorted(files) if not (house.root / name).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file_or_a_heading(house: House, document: str) -> None:
    path = house.root / document
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        name, _, heading = target.partition("#")
        linked = path.parent / name if name else path
        assert linked.is_file(), target
        assert not heading or heading in _headings(linked.read_text()), target


def test_the_picture_is_the_one_that_its_program_draws(house: House) -> None:
    drawn = runpy.run_path(str(house.root / "docs/architecture_svg.py"))["drawing"]()
    assert (house.root / "docs/architecture.svg").read_text() == drawn


def _headings(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
