"""What a scan of two gibibytes holds in memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flightlog
from flightlog import Message

SCAN = """
import sys, threading, time
import psutil
import flightlog.spark
path = sys.argv[1]
conf = {"spark.driver.memory": "512m"}  # the JVM of a local session is the driver and the executor at once
spark = flightlog.spark.session("memory", master="local[2]", conf=conf)
source = spark.read.format("flightlog").option("columns", "value").load(path)
me, grown = psutil.Process(), {}
def watch():
    while True:
        for process in [me, *me.children(recursive=True)]:
            try:
                name, size = process.name(), process.memory_info().rss
            except psutil.Error:
                continue
            kind = "driver" if process == me else "jvm" if name == "java" else "worker"
            grown[kind] = max(grown.get(kind, 0), size)
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
start = me.memory_info().rss
count, size = source.selectExpr("count(*)", "sum(length(value))").head()
print(count, size, grown["driver"] - start, grown["jvm"], grown["worker"])
"""


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_memory_stays_flat_at_two_gibibytes(tmp_path: Path) -> None:
    """Four times what the JVM may hold goes through it, and no Python process grows, of the driver's or of a task's.

    There are no seals, so the driver finds the cuts by walking.
    """
    body = b"x" * 16_384
    count = (2200 << 20) // len(body)
    with flightlog.open(tmp_path / "store") as opened:
        for start in range(0, count, 500):
            opened.put_many([Message("large", body)] * min(500, count - start))
    shutil.rmtree(tmp_path / "store" / "flightlog" / "seals")
    command = [sys.executable, "-P", "-c", SCAN, str(tmp_path / "store")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    found_count, size, driver_grown, jvm, worker = map(int, finished.stdout.split())
    assert (found_count, size) == (count, count * len(body))
    assert driver_grown < 32 << 20
    assert worker < 300 << 20
    assert jvm < 1400 << 20
