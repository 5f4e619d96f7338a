"""RocketMQ's own Java client, which Maven brings: `tests/serve/java`."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "serve" / "java"
PROGRAM = FOLDER / "Clients.java"
FETCH_S, RUN_S = 600.0, 300.0
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class JavaClientMissingError(Exception):
    """This machine lacks what it takes to run the client; the message names it."""


def fetch_client() -> Path:
    """The folder with the client's jar. Raises JavaClientMissingError."""
    return fetch_jars(FOLDER, "rocketmq-client-java")


@cache
def fetch_jars(folder: Path, name: str) -> Path:
    """The folder with what the `pom.xml` in this one asks for, among them the jar of this name. Raises
    JavaClientMissingError."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise JavaClientMissingError(f"no {program} here")
    jars = folder / "target" / "dependency"
    jars.mkdir(parents=True, exist_ok=True)
    with open(jars / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(jars.glob(f"{name}-*.jar")):
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
            found = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S)
            if found.returncode:
                raise JavaClientMissingError(f"Maven could not fetch it: {found.stdout[-2000:]}{found.stderr[-2000:]}")
    return jars


def java_command(jars: Path) -> list[str]:
    """The program with the client in this folder; a server and scenarios are to follow."""
    return ["java", *SHORT_LIVED, "-cp", f"{jars}/*", str(PROGRAM)]
