"""Links in the documents: each leads to a file of the repository, and to a heading that is there.

As long as `[project.urls]` names no repository, they are relative. Once it does, README's must be absolute and below
that address, because a package index shows README away from its repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def links(document: Path) -> list[str]:
    return LINK.findall(CODE.sub("", document.read_text()))


def anchors(document: Path) -> set[str]:
    """The names that a forge gives headings."""
    headings = re.findall(
        r"^#+ (.*)", re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in links(document):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_readme_can_be_shown_by_a_package_index(house: House) -> None:
    source = house.pyproject()["project"].get("urls", {}).get("Source")
    for link in links(ROOT / "README.md"):
        assert link.startswith(source) if source else "://" not in link
