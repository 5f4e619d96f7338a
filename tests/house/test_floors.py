"""Who may import whom: a room imports from the floors below its own, and rooms on one floor do not know each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House, Import

FLOOR = {
    "store": 1,
    "index": 2,
    "schedule": 3,
    "engine": 4,
    "produce": 5,
    "consume": 5,
    "spark": 5,
    "serve": 6,
    "handover": 6,
    "testing": 7,
    "tools": 7,
}
REQUIRED_FOLDERS = {"store", "index", "schedule", "tools", "tests", "benches"}
NO_ROOM = {"tests", "benches", "docs"}


def breaks_the_floors(found: Import) -> bool:
    """Whether this import inside a room leads anywhere but downwards or into the room itself."""
    room, (package, *rest) = found.file.parts[0], found.target.split(".")
    if package != "flightlog" or room not in FLOOR:
        return False
    imported = rest[0] if rest else ""
    return imported != room and FLOOR.get(imported, 99) >= FLOOR[room]


def test_every_folder_of_the_root_is_a_known_room(house: House) -> None:
    folders = set(house.folders())
    assert folders <= set(FLOOR) | NO_ROOM
    assert folders >= REQUIRED_FOLDERS


def test_contributing_names_every_room_and_the_rooms_inside(house: House) -> None:
    text = (house.root / "CONTRIBUTING.md").read_text()
    floors = {room: int(floor) for floor, room in re.findall(r"^\| (\d) \| `(\w+)/` \|", text, re.MULTILINE)}
    assert floors == FLOOR
    inside = re.findall(r"^\| `(\w+)/` \|[^|]*\| (.+) \|$", text, re.MULTILINE)
    named = {room: {part.split("/`")[0].strip(" `") for part in parts.split(" · ")} for room, parts in inside}
    files = [file for file in house.sources(".py") if file.name == "__init__.py" and len(file.parts) == 3]
    there = {room: {file.parts[1] for file in files if file.parts[0] == room} for room in FLOOR}
    assert named == {room: rooms for room, rooms in there.items() if rooms}


def test_rooms_import_only_from_lower_floors(house: House) -> None:
    files = [*house.package_modules(), *house.sources(".py")]
    broken = {str(found) for file in files for found in house.imports(file) if breaks_the_floors(found)}
    assert not broken, "\n".join(sorted(broken))


def test_imports_inside_the_package_are_relative(house: House) -> None:
    broken = [
        str(found)
        for file in house.package_modules()
        for found in house.imports(file)
        if not found.relative and found.target.split(".")[0] == "flightlog"
    ]
    assert not broken, "\n".join(broken)


def test_main_hands_over_to_tools_and_knows_no_other_room(house: House) -> None:
    [main] = [file for file in house.package_modules() if str(file) == "__main__.py"]
    rooms = {found.target.split(".")[1] for found in house.imports(main) if found.target.startswith("flightlog.")}
    assert rooms <= {"tools", "store"}, "the errors of the store are told before the tools can be imported"


@pytest.mark.parametrize(
    ("file", "statement", "broken"),
    [
        ("index/dispatch.py", "from ..store.record import decode", False),
        ("index/dispatch.py", "from .queue import ConsumeQueue", False),
        ("index/dispatch.py", "from ..engine import store", True),
        ("index/dispatch.py", "from .. import engine", True),
        ("index/dispatch.py", "from .. import open", True),
        ("store/native/pure.py", "from ...index import queue", True),
        ("store/native/pure.py", "from ..record import HEADER", False),
        ("spark/reader.py", "from ..consume import group", True),
        ("spark/autoload/__init__.py", "from flightlog.tools import demo", True),
        ("tools/demo.py", "from ..spark import session", False),
        ("tools/demo.py", "import numpy", False),
    ],
)
def test_the_scan_tells_a_broken_import_from_a_good_one(
    house: House, file: str, statement: str, broken: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    toy = house.at(tmp_path_factory.mktemp("toy"))
    path = toy.root / file
    path.parent.mkdir(parents=True)
    path.write_text(statement)
    [found] = toy.imports(path.relative_to(toy.root))
    assert breaks_the_floors(found) is broken
