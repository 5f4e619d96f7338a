"""RocketMQ's own remoting clients and admin tools, which Maven brings: `tests/serve/remoting/java`."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from flightlog.tests.support.rocketmq_java import RUN_S, SHORT_LIVED, fetch_jars

FOLDER = Path(__file__).resolve().parents[1] / "serve" / "remoting" / "java"
FOLDERS = {"5.3.3": FOLDER, "4.9.8": FOLDER / "client49"}

QUICK = ("waitInterval=500", "lockInterval=500")
"""Every 20 s unless set, and two that start together may meet only then."""


def run_remoting_program(
    name: str, *arguments: str, version: str = "5.3.3", home: Path | None = None, options: Sequence[str] = ()
) -> list[str]:
    """What the program says with RocketMQ of this version; `home` takes its files,
    `options` are the JVM's. Raises JavaClientMissingError."""
    command = java_command(name, *arguments, version=version, home=home, options=options)
    found = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, cwd=home)  # mqadmin writes there
    assert found.returncode == 0, f"{found.stdout[-4000:]}\n{found.stderr[-4000:]}"
    return found.stdout.splitlines()


def java_command(
    name: str, *arguments: str, version: str = "5.3.3", home: Path | None = None, options: Sequence[str] = ()
) -> list[str]:
    """What runs the program. Raises as `run_remoting_program`."""
    jars = fetch_jars(FOLDERS[version], "rocketmq-client")
    own = [
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        *options,
        *(f"-Drocketmq.client.rebalance.{each}" for each in QUICK),
    ]
    if home is not None:
        own += [f"-Duser.home={home}", f"-Drocketmq.client.localOffsetStoreDir={home}"]
    return ["java", *SHORT_LIVED, *own, "-cp", f"{jars}/*", str(FOLDER / f"{name}.java"), *arguments]
