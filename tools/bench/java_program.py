"""A Java program of one source file, which `java` compiles. It runs as long as it is asked, so it stays warm."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...store.errors import FlightlogError, UsageError

OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "jdk.internal.misc", "java.lang")
"""Packages of Java that RocketMQ reaches into."""


def check_jars(option: str, folder: Path, names: Sequence[str]) -> None:
    """Raises UsageError if there is no Java, or the folder lacks one of these artifacts of org.apache.rocketmq."""
    for name in names:
        if not list(folder.glob(f"{name}-*.jar")):
            raise UsageError(
                f"{option}: no {name}-*.jar there; `mvn dependency:copy-dependencies` of "
                f"{' and '.join(f'org.apache.rocketmq:{each}' for each in names)} leaves such a folder"
            )
    if shutil.which("java") is None:
        raise UsageError(f"{option}: there is no java on the PATH; install a JDK, 11 or newer")


def java_command(jars: Path, home: Path, memory: Sequence[str], *words: str) -> list[str]:
    """Run a class, or a source file, with all jars of a folder; what it keeps for itself goes into `home`."""
    opens = [f"--add-{how}=java.base/{package}=ALL-UNNAMED" for package in OPENED for how in ("opens", "exports")]
    return ["java", *memory, *opens, f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", "-cp", f"{jars}/*", *words]


class RocketmqEndedError(FlightlogError):
    """The Java program ended early; its messages are on stderr."""


class JavaProgram:
    """Requests are lines of text, answers lines of JSON. Cases that ask it can be made before it runs."""

    def __init__(self, jars: Path, source: Path, memory: tuple[str, ...], *arguments: str) -> None:
        self._jars, self._source, self._memory, self._arguments = jars, source, memory, arguments
        self._process: subprocess.Popen[str] | None = None

    @contextmanager
    def running(self, folder: Path) -> Iterator[Path]:
        """Run the program; yields its home, which is removed at the end."""
        with TemporaryDirectory(dir=folder) as home:
            command = java_command(self._jars, Path(home), self._memory, str(self._source), *self._arguments)
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                yield Path(home)
            finally:
                self._process.communicate()

    def ask(self, order: str) -> dict[str, Any]:
        """Raises RocketmqEndedError if the program ends instead of answering."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(order + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells it
        answer = process.stdout.readline()
        if not answer:
            raise RocketmqEndedError(f"RocketMQ's program ended, see above; its order was: {order}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def kill(self) -> None:
        """Whatever is open stays as it is."""
        assert self._process is not None
        self._process.kill()
