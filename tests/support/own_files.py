"""The files of a store's folder `flightlog/`, by the table of docs/format.md, and since which version each is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "format.md"
ROW = re.compile(r"^\| \[`([^`]+?)/?`\]\(#[^)]*\) \| (\d+) \|", re.MULTILINE)


@cache
def since() -> dict[str, int]:
    """Name, as in the table (`cut-OFFSET`) but without the slash of a folder -> the version it came with."""
    return {name: int(version) for name, version in ROW.findall(DOCUMENT.read_text())}


def row_of(name: str) -> str | None:
    """The row that a file of the folder has in the table; None if it has none."""
    plain = name.removesuffix(".tmp").removesuffix(".bak")
    for row in since():
        if re.fullmatch(re.sub(r"[A-Z]{2,}", "[0-9TZ.]+", row), plain) and (plain == name or name.count(".json.") == 1):
            return row
    return None


def rows_in(root: Path) -> set[str]:
    """The rows of what is in the folder of this store. Fails for a file without one."""
    found = {path.name: row_of(path.name) for path in (root / "flightlog").glob("*")}
    unknown = sorted(name for name, row in found.items() if row is None)
    assert not unknown, (
        f"flightlog/ has {unknown}, which docs/format.md does not name. A new file makes a new version of the format: "
        "it needs a row there, VERSION in store/state/format_version.py, and a golden store of the version before"
    )
    return {row for row in found.values() if row is not None}
