"""What a worker holds of large bodies, and of a scan of two gibibytes."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flightlog
from flightlog import CompressionType, Message

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


WORKER_LIMIT = 512 << 20
READ = """
import sys
from pathlib import Path
import psutil
import flightlog.spark
path = sys.argv[1]
spark = flightlog.spark.session("memory", master="local[2]")
def read(**options):
    frame = spark.read.format("flightlog").options(splitBytes=64 << 20, **options).load(path)
    print(*frame.selectExpr("count(*)", "sum(length(value))", "count(properties)").head())
read()
read(subscribe="large")
read(decompress=True, includeHeaders=True, includeInternal=True, onCorrupt="rows")
me = psutil.Process()
sizes = []
for process in me.children(recursive=True):
    try:
        text, name = Path(f"/proc/{process.pid}/status").read_text(), process.name()
    except (OSError, psutil.Error):
        continue  # it ended just now
    status = dict(line.split(":", 1) for line in text.splitlines())
    if name != "java" and "VmHWM" in status:  # a process that has ended has none
        sizes.append(int(status["VmHWM"].split()[0]) << 10)
print(len(sizes), max(sizes))
"""


@pytest.mark.ci
def test_a_worker_with_bodies_of_4_mib_stays_below_512(tmp_path: Path) -> None:
    """The most that a worker ever held, by the kernel's own count: all columns, by the log and by queues, and bodies of
    4 MiB that come out of compressed ones: of these there are more than a worker may hold."""
    count, body = 144, random.Random(4).randbytes(4 << 20)
    with flightlog.open(tmp_path / "store") as store:
        for i in range(count):
            packed = CompressionType.ZLIB if i < 120 else None
            store.put(Message("large", bytes(4 << 20) if packed else body, keys=f"k{i}", compress=packed))
        stored = sum(len(message.body) for message in store.read("large", 0))
        assert store.verify().is_clean
    command = [sys.executable, "-P", "-c", READ, str(tmp_path / "store")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    *answers, (workers, most) = [tuple(map(int, line.split())) for line in finished.stdout.splitlines()]
    assert answers == [(count, stored, count)] * 2 + [(count, count * (4 << 20), count)]
    print(f"{workers} processes of Python, {most >> 20} MiB at most")
    assert workers >= 2, "the daemon, and a worker"
    assert most < WORKER_LIMIT


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
