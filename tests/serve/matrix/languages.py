"""RocketMQ's gRPC clients of every language at their oldest and newest versions, fetched from their registries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flightlog.tests.support.rocketmq_java import java_command
from flightlog.tests.support.rocketmq_node import NodeClientMissingError, node_command

SERVE = Path(__file__).resolve().parents[1]
FETCH_S = 3600.0
SAID_MAX = 2000


class ClientMissingError(Exception):
    """This machine lacks a program that the client takes, or its registry did not give the client."""


@dataclass(frozen=True)
class Client:
    """A client of one version."""

    language: str
    version: str
    fetch: Callable[[str, Path], Sequence[str]]
    """By version and a folder of its own: the command that runs the program."""


def _java(version: str, folder: Path) -> Sequence[str]:
    _need("java", "mvn")
    if not list(folder.glob("rocketmq-client-java-*.jar")):
        _run("mvn", "-q", "-B", "-f", str(SERVE / "java" / "pom.xml"), "dependency:copy-dependencies",
             f"-Dclient.version={version}", f"-DoutputDirectory={folder}")  # fmt: skip
    return java_command(folder)


def _python(version: str, folder: Path) -> Sequence[str]:
    python = folder / "bin" / "python"
    if not (folder / ".fetched").exists():
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "-q", "--disable-pip-version-check", "install",
             f"rocketmq-python-client=={version}")  # fmt: skip
        (folder / ".fetched").touch()
    return (str(python), "-P", str(SERVE / "python" / "clients.py"))


def _node(version: str, folder: Path) -> Sequence[str]:
    try:
        return node_command()
    except NodeClientMissingError as e:
        raise ClientMissingError(str(e)) from e


def _go(version: str, folder: Path) -> Sequence[str]:
    _need("go")
    program = folder / "clients"
    _run("go", "build", "-o", str(program), ".", folder=SERVE / "go")
    return (str(program),)


def _rust(version: str, folder: Path) -> Sequence[str]:
    _need("cargo")
    _run("cargo", "build", "-q", "--locked", "--target-dir", str(folder), folder=SERVE / "rust")
    return (str(folder / "debug" / "clients"),)


CLIENTS = (
    Client("Java", "5.0.0", _java),
    Client("Java", "5.2.0", _java),
    Client("Python", "5.0.1", _python),
    Client("Python", "5.1.2", _python),
    Client("Node.js", "1.0.8", _node),
    Client("Go", "5.1.4", _go),
    Client("Rust", "5.0.0", _rust),
)
"""npm and Go's module proxy have one version each. Those of Node.js, Go and Rust are in their lock files."""


def _need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise ClientMissingError(f"no {program} here")


def _run(*command: str, folder: Path | None = None) -> None:
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S)
    if found.returncode:
        said = f"{found.stdout[-SAID_MAX:]}{found.stderr[-SAID_MAX:]}"
        raise ClientMissingError(f"{' '.join(command)} ended with {found.returncode}: {said}")
