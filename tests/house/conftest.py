"""The checkout as the house rules see it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_SOURCE = {"build", "dist", "site", "__pycache__", "target"}
AUTOLOAD = Path("spark/autoload")  # installed beside the package, as `pyspark_flightlog`
BUILD_TIME = Path("store/native/packaging")  # runs while flightlog is built, with setuptools at hand


def _is_source_folder(path: Path) -> bool:
    return (
        path.is_dir() and path.name not in NOT_SOURCE and not path.name.startswith(".") and path.suffix != ".egg-info"
    )


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if _is_source_folder(path):
            yield from _sources(path)
        elif path.suffix in (".py", ".pyi", ".c", ".h", ".java") and path.is_file():
            yield path


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if _is_source_folder(path):
            yield from _files(path)
        elif path.is_file():
            yield path


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target, as the absolute dotted name that Python would look for."""

    file: Path
    line: int
    target: str
    relative: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


class House:
    """Paths are relative to the root of the checkout."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._imports: dict[Path, list[Import]] = {}

    def at(self, root: Path) -> House:
        """The same questions about another folder: the rules are tried on toys."""
        return House(root)

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if _is_source_folder(path))

    def sources(self, *suffixes: str) -> list[Path]:
        return [path.relative_to(self.root) for path in _sources(self.root) if path.suffix in suffixes]

    def tracked_files(self) -> list[Path]:
        """What git tracks; in a copy of the sources without git, every file outside of what builds and runs leave."""
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
        if (self.root / ".git").exists() and shutil.which("git"):
            listed = subprocess.run(command, cwd=self.root, capture_output=True, check=True).stdout
            files = [Path(os.fsdecode(name)) for name in listed.split(b"\0") if name]
            return [file for file in files if (self.root / file).is_file()]
        return [path.relative_to(self.root) for path in _files(self.root) if path.suffix != ".so"]

    def package_modules(self) -> list[Path]:
        """Every Python file that the installed package consists of, but for the top-level `pyspark_flightlog`."""
        return [
            path
            for path in self.sources(".py", ".pyi")
            if path.parts[0] not in ("tests", "benches", "docs")
            and not path.is_relative_to(AUTOLOAD)
            and not path.is_relative_to(BUILD_TIME)
        ]

    def imports(self, file: Path) -> list[Import]:
        """The imports of a file, cached: several rules ask about each file, and parsing all of them takes seconds."""
        if file not in self._imports:
            self._imports[file] = self._parsed_imports(file)
        return self._imports[file]

    def _parsed_imports(self, file: Path) -> list[Import]:
        found: list[Import] = []
        package = ["flightlog", *file.parent.parts]
        for node in ast.walk(ast.parse((self.root / file).read_text(), str(file))):
            if isinstance(node, ast.Import):
                found += [Import(file, node.lineno, alias.name, relative=False) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                prefix = ".".join([*base, *([node.module] if node.module else [])])
                # `from .. import store` names a room by its alias, `from ..store import record` by its module.
                found += [
                    Import(file, node.lineno, f"{prefix}.{alias.name}", relative=node.level > 0) for alias in node.names
                ]
        return found

    def pyproject(self) -> dict[str, Any]:
        return tomllib.loads((self.root / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def house() -> House:
    return House()
