"""Spark closes sockets of workers whose rows it does not need, or that were idle: a healthy session prints nothing."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = b"secret"
WORKER = """
import sys
from flightlog.spark.entry import quieten_closed_sockets

def main(infile, outfile):
    {before}
    infile.read()  # until the peer is gone
    try:
        while True:
            outfile.write(bytes(1000))  # in small pieces: Python 3.13 keeps nothing of a large one that failed
    except OSError:
        sys.exit(-1)  # as pyspark.worker does
    finally:
        {finally_}
"""


def what_the_daemon_says(tmp_path: Path, before: str, finally_: str = "pass") -> str:
    """Stderr of Spark's own daemon, one of whose workers runs `before`, and loses its socket while it writes."""
    (tmp_path / "pyspark_ending.py").write_text(WORKER.format(before=before, finally_=finally_))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(),
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",  # as Spark sets it
    }
    for name in ("SPARK_PREFER_IPV6", "PYTHON_UNIX_DOMAIN_ENABLED"):
        environment.pop(name, None)
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", "-m", "pyspark.daemon", "pyspark_ending"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as daemon:
        assert daemon.stdin is not None and daemon.stdout is not None and daemon.stderr is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as peer:
            (pid,) = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
            peer.sendall(struct.pack(">i", len(SECRET)) + SECRET)
            peer.recv(6, socket.MSG_WAITALL)
        watch = os.pidfd_open(pid)
        try:
            select.select([watch], [], [])  # readable when the worker has ended
        finally:
            os.close(watch)
        daemon.stdin.close()
        return daemon.stderr.read().decode()


@pytest.mark.parametrize("before", ["quieten_closed_sockets()", "import flightlog.spark.source"])
def test_a_query_that_ends_early_leaves_no_traceback(tmp_path: Path, before: str) -> None:
    """The second is all that a worker does for certain which finds the source, plans or writes."""
    pytest.importorskip("pyspark")
    assert "BrokenPipeError" in what_the_daemon_says(tmp_path, "pass"), "Spark's daemon became quiet by itself"
    assert what_the_daemon_says(tmp_path, before) == ""


def test_any_other_error_of_a_worker_keeps_its_traceback(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    said = what_the_daemon_says(tmp_path, "quieten_closed_sockets()", "outfile.close()")
    assert "ValueError: flush of closed file" in said


def test_the_worker_that_looks_for_sources_imports_ours(spark: SparkSession) -> None:
    """Also with an editable install, which is not listed on the path: Spark asks for the source by its name there."""

    def listed(_: int) -> list[str]:
        import pkgutil

        return [module.name for module in pkgutil.iter_modules() if module.name == "pyspark_flightlog"]

    assert spark.sparkContext.parallelize([0], 1).map(listed).collect() == [["pyspark_flightlog"]]


IDLE_SESSION = """
import os, sys, time
from pathlib import Path
import flightlog
from flightlog.spark import session

with flightlog.open(sys.argv[1], flightlog.StoreSettings.small()) as store:
    store.put(flightlog.Message("orders", b"1"))
spark = session("idle", master="local[1]", conf={"spark.python.unix.domain.socket.enabled": "true"})
assert spark.read.format("flightlog").load(sys.argv[1]).count() == 1

def workers():
    parents, daemons, ours = {}, set(), {os.getpid()}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            pid, stat = int(folder.name), (folder / "stat").read_text()
            parents[pid] = int(stat.rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                daemons.add(pid)
        except OSError:
            pass  # it ended just now
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid for pid in daemons & ours if parents[pid] in daemons}

assert len(workers()) >= 4, "one each that finds, makes, plans and reads"
deadline = time.monotonic() + 600
while workers() and time.monotonic() < deadline:
    time.sleep(1)
assert not workers(), "Spark keeps idle workers"
spark.stop()
"""


@pytest.mark.ci
@pytest.mark.timeout(900)
def test_a_session_is_quiet_when_its_idle_workers_are_ended(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    command = [sys.executable, "-P", "-c", IDLE_SESSION, str(tmp_path / "store")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert [line for line in finished.stderr.splitlines() if not line.startswith("WARNING: ")] == []  # the JVM's own
