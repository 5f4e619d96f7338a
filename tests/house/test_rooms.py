"""Rooms within rooms: few files a folder, no import circle, and the arrows that each room's docstring draws."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

FILES_MAX = 15
MANY_FILES: dict[str, str] = {}
"""Folders that may hold more, each with its reason."""
LATE_CIRCLES = {("store/settings.py", "store/conf/broker_conf.py")}
"""Imports inside of a function that close a circle: `StoreSettings.from_broker_conf` makes what its class is."""
UPWARDS = {("store", "native", "format")}
"""Arrows up. The kernel's reference in Python is written in the words of the formats; the formats call the kernel."""
WORDS = {
    "store": {
        "arguments",
        "errors",
        "message",
        "message_check",
        "meters",
        "queue_offsets",
        "results",
        "settings",
        "stored_message",
        "topic",
    },
    "engine": {"message_store", "read_only"},  # engine/backup and engine/repair take whole stores
    "consume/pop": {"check_point", "pop_topics"},
    "store/native": {"fast_path_protocol"},
    "spark": {"entry", "schema"},
    "tools": {
        "backlog",
        "counting_disk",
        "inspecting",
        "output",
        "program",
        "progress_bar",
        "prometheus_text",
        "rates",
        "tracing",
        "typed_values",
        "words",
    },
    "tools/commands": {"arguments", "examples", "selecting"},
    "tools/commands/change": {"opening"},
    "tools/bench": {"case", "drive", "java_program", "messages"},
}
"""Modules of a room itself that the rooms inside it may import. All other modules of a room itself stand above them."""


def module_of(file: Path) -> str:
    parts = ("flightlog", *file.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def edges(house: House, *, late: bool) -> dict[str, set[str]]:
    """Which file imports which, also for type checkers alone; `late`: inside of functions, too."""
    files = {module_of(file): str(file) for file in house.package_modules() if file.suffix == ".py"}
    found: dict[str, set[str]] = {file: set() for file in files.values()}
    for file in map(Path, files.values()):
        inside = {
            line
            for node in ast.walk(ast.parse((house.root / file).read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        for one in house.imports(file):
            target = files.get(one.target) or files.get(one.target.rpartition(".")[0])
            if target not in (None, str(file)) and (late or one.line not in inside):
                found[str(file)].add(target)
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Groups of files each of which leads to every other one (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(file: str) -> None:
        number[file] = lowest[file] = len(number)
        path.append(file)
        for target in sorted(graph[file]):
            if target not in number:
                visit(target)
            if target in path:
                lowest[file] = min(lowest[file], lowest[target])
        if lowest[file] == number[file]:
            group = set(path[path.index(file) :])
            del path[path.index(file) :]
            if len(group) > 1:
                found.append(group)

    for file in sorted(graph):
        if file not in number:
            visit(file)
    return found


def room_inside(room: str, file: str) -> str | None:
    """The room inside `room` where a file is, however deep."""
    parts = Path(file).relative_to(room).parts if Path(file).is_relative_to(room) else ()
    return parts[0] if len(parts) > 1 else None


def arrows(house: House, room: str) -> dict[str, set[str]]:
    """Which room inside this one imports from which other one."""
    found: dict[str, set[str]] = {}
    for file, targets in edges(house, late=True).items():
        if here := room_inside(room, file):
            row = found.setdefault(here, set())
            row |= {there for target in targets if (there := room_inside(room, target)) not in (None, here)}
    return found


def drawn(house: House, room: str) -> dict[str, list[str]]:
    """The same as the room's docstring draws it: `    read  -> columns, topics`, or `-> nothing`, a line a room."""
    text = ast.get_docstring(ast.parse((house.root / room / "__init__.py").read_text())) or ""
    rows = re.findall(r"^ *(\w+) +-> (.+)$", text, re.MULTILINE)
    return {name: [] if targets == "nothing" else targets.split(", ") for name, targets in rows}


def rooms_with_rooms(house: House) -> list[str]:
    return sorted({str(file.parent.parent) for file in house.package_modules() if len(file.parts) > 2})


def test_no_folder_holds_many_files(house: House) -> None:
    files = Counter(str(file.parent) for file in house.package_modules() if file.suffix == ".py")
    assert {folder for folder, count in files.items() if count > FILES_MAX} == set(MANY_FILES)


def test_no_imports_go_in_a_circle(house: House) -> None:
    assert circles(edges(house, late=False)) == []


def test_imports_inside_of_functions_close_no_other_circles(house: House) -> None:
    graph = edges(house, late=True)
    assert all(target in graph[file] for file, target in LATE_CIRCLES)
    assert circles({file: {x for x in graph[file] if (file, x) not in LATE_CIRCLES} for file in graph}) == []


def test_a_circle_is_found() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": [], "e": ["f"], "f": ["e", "d"]}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["e", "f"]]


def test_each_room_draws_the_arrows_inside_it(house: House) -> None:
    for room in rooms_with_rooms(house):
        found, rows = arrows(house, room), drawn(house, room)
        ahead = list(rows)
        ahead += sorted(set(found) - set(rows))
        due = [f"    {name} -> {', '.join(sorted(found[name], key=ahead.index)) or 'nothing'}" for name in ahead]
        assert {name: set(row) for name, row in rows.items()} == found, "\n".join([f"{room}/__init__.py:", *due])


def test_arrows_inside_a_room_lead_down(house: House) -> None:
    up = {
        (room, name, target)
        for room in rooms_with_rooms(house)
        for number, (name, targets) in enumerate(drawn(house, room).items())
        for target in targets
        if target in list(drawn(house, room))[:number]
    }
    assert up == UPWARDS


def test_rooms_inside_a_room_import_its_own_files_only_where_these_are_words(house: House) -> None:
    found = {
        (room, Path(target).stem)
        for room in rooms_with_rooms(house)
        for file, targets in edges(house, late=True).items()
        if room_inside(room, file)
        for target in targets
        if Path(target).parent == Path(room)
    }
    assert {(room, module) for room, module in found if module not in WORDS.get(room, ())} == set()


@pytest.mark.parametrize(
    ("statement", "at_once", "late"),
    [
        ("from ..b.two import name", True, True),
        ("from ..b import two", True, True),
        ("if TYPE_CHECKING:\n    from ..b.two import name", True, True),
        ("def late():\n    from ..b.two import name", False, True),
        ("from . import other", False, False),
    ],
)
def test_an_arrow_between_rooms_is_found(
    house: House, statement: str, at_once: bool, late: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    toy = house.at(tmp_path_factory.mktemp("toy"))
    for file, text in {"engine/a/one.py": statement, "engine/a/other.py": "", "engine/b/two.py": ""}.items():
        (toy.root / file).parent.mkdir(parents=True, exist_ok=True)
        (toy.root / file).write_text(text)
    assert ("engine/b/two.py" in edges(toy, late=False)["engine/a/one.py"]) is at_once
    assert ("engine/b/two.py" in edges(toy, late=True)["engine/a/one.py"]) is late
    assert arrows(toy, "engine") == {"a": {"b"} if late else set(), "b": set()}
