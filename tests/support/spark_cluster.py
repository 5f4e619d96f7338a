"""A Spark cluster on loopback: a standalone master and workers with a core each, as processes of their own.

What the driver and the executors import is not this checkout: they run a Python that has every package but flightlog,
which comes out of the wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from flightlog.spark.requirements import find_java

DEADLINE_S = 300.0
DAEMON_MEMORY = "256m"
MASTER_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_REGISTERED = re.compile(r"Successfully registered with master")
NOT_SHARED = re.compile(r"flightlog|pyspark_flightlog|__editable__|.*\.pth$|__pycache__$")


@dataclass
class Cluster:
    """A running one."""

    address: str
    environment: dict[str, str]


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """One that keeps its logs and scratch files in this folder."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = _start(folder / "master.log", environment, "master.Master", "--port", "0")
        started.append(master)
        address = _wait_for(folder / "master.log", MASTER_STARTED, master)[1]
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), address]
            started.append(_start(log, environment, "worker.Worker", *place))
        for number, worker in enumerate(started[1:]):
            _wait_for(folder / f"worker-{number}.log", WORKER_REGISTERED, worker)
        yield Cluster(address, environment)
    finally:
        for process in reversed(started):
            _end(process)


def _start(log: Path, environment: dict[str, str], what: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [f"{environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{what}"]
    with open(log, "wb") as out:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def _wait_for(log: Path, line: re.Pattern[str], process: subprocess.Popen[bytes]) -> re.Match[str]:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := line.search(log.read_text(errors="replace"))):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and its children, the executors."""
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.wait()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def python_without_flightlog(folder: Path) -> Path:
    """A Python with every package of this one but flightlog."""
    shared = folder / "shared"
    shared.mkdir(parents=True)
    for site in (Path(place) for place in sys.path if Path(place).name in ("site-packages", "dist-packages")):
        for entry in site.iterdir():
            if not NOT_SHARED.match(entry.name) and not (shared / entry.name).exists():
                (shared / entry.name).symlink_to(entry)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    Path(packages, "shared.pth").write_text(f"{shared}\n")
    without = subprocess.run([python, "-P", "-c", "import flightlog"], capture_output=True, text=True, cwd=folder)
    assert "No module named 'flightlog'" in without.stderr
    return python


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
