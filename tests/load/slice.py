"""Which test files touch clocks, threads, processes or sockets: their own code, fixtures of a conftest.py that they
take, and modules of the tests that either imports.

Left out are files that start a Java: tests beside a session of Spark, or RocketMQ. Judged by what the source names;
nothing is imported.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOUCHING = frozenset(
    (
        "_thread",
        "asyncio",
        "concurrent",
        "http",
        "multiprocessing",
        "psutil",
        "queue",
        "sched",
        "select",
        "selectors",
        "signal",
        "socket",
        "socketserver",
        "subprocess",
        "threading",
        "time",
    )
)
"""Modules whose import alone counts."""
OF_OS = frozenset(["fork", "forkpty", "kill", "killpg", "pipe", "pipe2", "posix_spawn", "wait", "waitid", "waitpid"])
"""Functions of `os` that do."""
OF_JAVA = frozenset(("LiveRocketMq", "RocketMq", "SparkSession"))
"""Types of what runs in a Java; a fixture that has to do with one names it, and so do the tests that take it."""
HELPERS = "flightlog.tests."
"""What the names of the tests' own modules begin with."""


def chosen(tests: Path) -> list[Path]:
    """The test files below the folder of the tests, sorted."""
    collects = gc.isenabled()
    gc.disable()  # it would go through all nodes of all files again and again, which are no garbage
    try:
        return [path for path in sorted(tests.rglob("test_*.py")) if touches(path, tests)]
    finally:
        for known in (_tree, _nodes, _module_touches, _touching_fixtures, _starting_fixtures):
            known.cache_clear()  # else every later collection goes through them
        if collects:
            gc.enable()


def touches(path: Path, tests: Path) -> bool:
    tree = _tree(path)
    names, taken = _names(tree), _taken(tree)
    conftest = path.with_name("conftest.py")
    starting = _starting_fixtures(conftest) if conftest.exists() else frozenset()
    if names & OF_JAVA or taken & starting:
        return False
    fixtures = _touching_fixtures(conftest, tests) if conftest.exists() else frozenset()
    return bool(names & fixtures) or _touches(tree, tests)


def _touches(tree: ast.AST, tests: Path) -> bool:
    return bool(_imported(tree) & TOUCHING) or _calls_os(tree) or any(_helpers_touch(tree, tests))


def _helpers_touch(tree: ast.AST, tests: Path) -> Iterator[bool]:
    """Whether each helper that is imported, or run as a child, touches."""
    for path in _helpers(tree, tests).values():
        yield _module_touches(path, tests)


@cache
def _module_touches(path: Path, tests: Path) -> bool:
    return _touches(_tree(path), tests)


@cache
def _touching_fixtures(conftest: Path, tests: Path) -> frozenset[str]:
    """Fixtures, and the module's functions and classes that they use, which name a module that touches; and fixtures
    that take such a one."""
    tree = _tree(conftest)
    modules = {bound for bound, module in _bindings(tree) if module in TOUCHING}
    modules |= {bound for bound, path in _helpers(tree, tests).items() if _module_touches(path, tests)}
    parts = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    found = {
        part.name for part in parts if _names(part) & modules or _calls_os(part) or any(_helpers_touch(part, tests))
    }
    while more := {part.name for part in parts if part.name not in found and _names(part) & found}:
        found |= more
    return frozenset(found)


@cache
def _starting_fixtures(conftest: Path) -> frozenset[str]:
    """Fixtures that start a Java, and those that take such a one."""
    parts = [node for node in _tree(conftest).body if isinstance(node, ast.FunctionDef)]
    found = {part.name for part in parts if _names(part) & OF_JAVA}
    while more := {part.name for part in parts if part.name not in found and _taken(part) & found}:
        found |= more
    return frozenset(found)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All that is in it: walked once, asked often."""
    return (*ast.walk(tree),)


def _bindings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name, top module) of every import."""
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0], alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, node.module.split(".")[0]


def _imported(tree: ast.AST) -> set[str]:
    return {module for _, module in _bindings(tree)}


def _names(tree: ast.AST) -> set[str]:
    """Every name that is used, arguments included, and what `usefixtures` names."""
    return {node.id for node in _nodes(tree) if isinstance(node, ast.Name)} | _taken(tree)


def _taken(tree: ast.AST) -> set[str]:
    """The names of arguments, and what `usefixtures` names."""
    names = set[str]()
    for node in _nodes(tree):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "usefixtures":
            names.update(str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))
    return names


def _calls_os(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in OF_OS
        for node in _nodes(tree)
    )


def _helpers(tree: ast.AST, tests: Path) -> dict[str, Path]:
    """The files of the helpers that are imported, by the names that they or parts of them have there, and of programs
    (`"killed_writer.py"`) that are run as children."""
    found: dict[str, Path] = {}
    for node in _nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module and (node.module + ".").startswith(HELPERS):
            place = tests.joinpath(*node.module.split(".")[2:])
            is_folder = place.is_dir()
            for alias in node.names:
                path = place / f"{alias.name}.py" if is_folder else place.with_suffix(".py")
                found[alias.asname or alias.name] = path
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
            found[node.value] = tests / "support" / node.value
    return {name: path for name, path in found.items() if path.name != "conftest.py" and path.exists()}
