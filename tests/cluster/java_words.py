"""Runs one of java/*.java in a process of its own, and gives what it prints."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from flightlog.tests.cluster.processes import MEMORY, QUICK_START
from flightlog.tools.bench.java_program import java_command

RUN_S = 600.0
SHOWN = 4000  # characters


def program_of(source: str, jars: Path, home: Path, options: list[str], *arguments: object) -> list[str]:
    """Its command."""
    home.mkdir(parents=True, exist_ok=True)
    options = [*MEMORY, QUICK_START, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", *options]
    program = Path(__file__).resolve().with_name("java") / source
    return java_command(jars, home, options, str(program), *map(str, arguments))


def words_of(source: str, jars: Path, home: Path, options: list[str], *arguments: object) -> Iterator[list[str]]:
    """Each line's words, first what kind of line it is. Raises AssertionError with the program's output where it
    failed, or waited in vain."""
    command = program_of(source, jars, home, options, *arguments)
    environment = {**os.environ, "NAMESRV_ADDR": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, cwd=home, env=environment)
    is_done = False
    for line in done.stdout.splitlines():
        kind, *rest = line.split("\t")
        if kind == "missing":
            raise AssertionError(f"the group {rest[0]!r} waited in vain for {rest[1]} messages\n{done.stderr[-SHOWN:]}")
        is_done |= kind == "done"
        yield [kind, *rest]
    assert is_done, f"{done.stdout[-SHOWN:]}\n{done.stderr[-SHOWN:]}"
