"""A query that needs no more rows closes its workers' sockets: a healthy session says nothing about it."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = b"secret"
WORKER = """
import sys
from flightlog.spark.entry import expect_early_end

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


def test_a_query_that_ends_early_leaves_no_traceback(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    assert "BrokenPipeError" in what_the_daemon_says(tmp_path, "pass"), "Spark's daemon became quiet by itself"
    assert what_the_daemon_says(tmp_path, "expect_early_end()") == ""


def test_any_other_error_of_a_worker_keeps_its_traceback(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    said = what_the_daemon_says(tmp_path, "expect_early_end()", "outfile.close()")
    assert "ValueError: flush of closed file" in said
