"""Which test files touch clocks, threads, processes or sockets: their own code, fixtures of a conftest.py that they
take, and modules of tests/support/ that either loads.

Left out are files that need Spark or RocketMQ. Judged by what the source names; nothing is imported.
"""

from __future__ import annotations

import ast
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
NEEDING = frozenset(("spark", "rocketmq", "rocketmq49", "live_rocketmq", "asked", "both_ways"))
"""Fixtures of those that take minutes to start."""
LOADERS = frozenset(("support", "load", "LOAD", "_load"))


def chosen(tests: Path) -> list[Path]:
    """The test files below a folder that has a support/ folder, sorted."""
    return [path for path in sorted(tests.rglob("test_*.py")) if touches(path, tests / "support")]


def touches(path: Path, support: Path) -> bool:
    tree = _tree(path)
    names = _names(tree)
    if names & NEEDING or "pyspark" in _imported(tree):
        return False
    conftest = path.with_name("conftest.py")
    fixtures = _touching_fixtures(conftest, support) if conftest.exists() else frozenset()
    return bool(names & fixtures) or _touches(tree, path.parent, support)


def _touches(tree: ast.AST, folder: Path, support: Path) -> bool:
    return bool(_imported(tree) & TOUCHING) or _calls_os(tree) or any(_loaded_touch(tree, folder, support))


def _loaded_touch(tree: ast.AST, folder: Path, support: Path) -> Iterator[bool]:
    """Of each module that is loaded, or run as a child, by name: whether it touches."""
    for name in _loaded(tree):
        for place in (support, folder):
            if (path := place / f"{name}.py").exists():
                yield _module_touches(path, support)
                break


@cache
def _module_touches(path: Path, support: Path) -> bool:
    return _touches(_tree(path), path.parent, support)


@cache
def _touching_fixtures(conftest: Path, support: Path) -> frozenset[str]:
    """Fixtures, and the module's functions and classes that they use, which name a module that touches; and fixtures
    that take such a one."""
    tree = _tree(conftest)
    modules = {bound for bound, module in _bindings(tree) if module in TOUCHING}
    parts = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    found = {
        part.name
        for part in parts
        if _names(part) & modules or _calls_os(part) or any(_loaded_touch(part, conftest.parent, support))
    }
    while more := {part.name for part in parts if part.name not in found and _names(part) & found}:
        found |= more
    return frozenset(found)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _bindings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name, top module) of every import."""
    for node in ast.walk(tree):
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
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
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
        for node in ast.walk(tree)
    )


def _loaded(tree: ast.AST) -> set[str]:
    """What the loader of tests/support/ is asked for by name, and programs (`"killed_writer.py"`) run as children."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
            found.add(Path(node.value).stem)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOADERS:
            found.update(str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant))
    return found
