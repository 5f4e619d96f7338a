"""Lines and branches by room, of a report that `coverage json` wrote: see `make coverage`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def main() -> None:
    rooms: dict[str, Counter[str]] = {}
    for name, file in json.loads(Path(sys.argv[1]).read_text())["files"].items():
        rooms.setdefault(Path(name).parts[0], Counter()).update(file["summary"])
    for room, found in sorted(rooms.items()):
        lines = 100 * found["covered_lines"] / found["num_statements"]
        branches = 100 * found["covered_branches"] / found["num_branches"]
        print(f"{room}: {lines:.1f} % of {found['num_statements']} lines, ", end="")
        print(f"{branches:.1f} % of {found['num_branches']} branches")


if __name__ == "__main__":
    main()
