"""The jars of one release of RocketMQ, which Maven fetches once into `target/`."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
POM = HERE / "java" / "pom.xml"
OLDEST, FIRST, NEWEST = "4.9.7", "5.3.3", "5.5.0"
"""The last one of 4.9 whose broker Maven has; the one that most tests here speak of; the newest."""
FETCH_LIMIT_S = 900.0
SHOWN = 4000  # characters of Maven's output; the end says why


class ClusterUnavailableError(Exception):
    """This machine lacks Java or Maven."""


def jars_of(version: str) -> Path:
    """The folder with the jars of this release and what they need, however many processes ask for it at once.

    Raises ClusterUnavailableError.
    """
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise ClusterUnavailableError("RocketMQ's processes need java (a JDK, 11 or newer) and mvn in PATH")
    target = HERE / "target"
    target.mkdir(exist_ok=True)
    folder, stamp = target / version, target / f"{version}.pom"
    wanted = POM.read_text()
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            _fetch(maven, version, folder)
            stamp.write_text(wanted)
    return folder


def _fetch(maven: str, version: str, folder: Path) -> None:
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += [f"-Dversion.rocketmq={version}", f"-DoutputDirectory={folder}"]
    if version.startswith("4."):
        command.append("-Dwithout.proxy")
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-SHOWN:]}"
        )
