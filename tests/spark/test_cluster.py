"""A cluster for real: a standalone master and two workers with a core each, flightlog shipped in its wheel, and an
executor that is killed in the middle of a job."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.support import spark_cluster

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1200), pytest.mark.xdist_group("cluster")]

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ("orders", "payments", "parcels")
BODY_SIZE = 8000
DEADLINE_S = 600.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns(".*", "build", "dist", "target", "*.egg-info", "__pycache__", "*.so", "tests")
    copy = shutil.copytree(ROOT, folder / "flightlog", ignore=left_out)
    command = [sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "out")]
    built = subprocess.run([*command, str(copy)], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    [found] = (folder / "out").iterdir()
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, scale: Any) -> tuple[Path, dict[str, tuple[int, int, int]]]:
    """A store, and for each topic: messages, bytes of bodies, the sum of physical offsets. Read it, never write."""
    path = tmp_path_factory.mktemp("cluster") / "store"
    size = scale.pick(ci=256 << 20, full=4 << 30)
    counts: Counter[str] = Counter()
    offsets: Counter[str] = Counter()
    with flightlog.open(path, StoreSettings(segment_size=size // 4)) as opened:
        for first in range(0, size // BODY_SIZE, 1000):
            topics = [TOPICS[i % 7 % 3] for i in range(first, first + 1000)]
            for put in opened.put_many([Message(topic, bytes(BODY_SIZE), queue_id=0) for topic in topics]):
                counts[put.topic] += 1
                offsets[put.topic] += put.physical_offset
    return path, {topic: (counts[topic], counts[topic] * BODY_SIZE, offsets[topic]) for topic in TOPICS}


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, store: tuple[Path, dict[str, tuple[int, int, int]]]
) -> dict[str, Any]:
    """What the job says after one of its executors was killed."""
    folder, parts = tmp_path_factory.mktemp("spark"), spark_cluster
    archive, held = folder / "flightlog.zip", folder / "held"
    shutil.copy(wheel, archive)  # Spark unpacks archives by their names
    python = parts.python_without_flightlog(folder / "python")
    path, _ = store
    segments = sorted((path / "commitlog").iterdir())
    split_bytes = segments[0].stat().st_size // 4
    program = [str(python), "-P", str(ROOT / "tests" / "support" / "cluster_job.py")]
    with parts.cluster(folder) as cluster, open(folder / "job.log", "wb") as log:
        job = subprocess.Popen(
            [*program, cluster.address, str(archive), str(path), str(split_bytes), str(held)],
            env={**cluster.environment, "PYTHONPATH": str(parts.unpacked(wheel, folder / "wheel"))},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not held.exists():
                assert job.poll() is None and time.monotonic() < deadline, tail(folder)
                time.sleep(0.1)
            os.kill(int(held.read_text()), signal.SIGKILL)
            said, _ = job.communicate(timeout=DEADLINE_S)
        finally:
            job.kill()
            job.wait()
        assert job.returncode == 0, tail(folder)
    return {**json.loads(said.splitlines()[-1]), "wheel": str(folder / "wheel"), "work": str(folder)}


def tail(folder: Path) -> str:
    return "\n".join(log.read_text(errors="replace")[-3000:] for log in sorted(folder.glob("*.log")))


def test_a_cluster_reads_a_store_with_flightlog_out_of_its_wheel(
    found: dict[str, Any], store: tuple[Path, dict[str, tuple[int, int, int]]]
) -> None:
    _, expected = store
    assert found["grouped"] == [[topic, *expected[topic]] for topic in sorted(TOPICS)]
    assert found["tasks"] >= 8, "each core had several"
    for file, kernel in found["executors"]:
        assert file.startswith(f"{found['work']}/work-") and kernel == "c", "unpacked by a worker"
    assert len(found["executors"]) == 2, "both workers took part"
    assert found["driver"] == [f"{found['wheel']}/flightlog/__init__.py", "c"]


def test_an_executor_killed_in_the_middle_of_a_job_changes_no_answer(
    found: dict[str, Any], store: tuple[Path, dict[str, tuple[int, int, int]]]
) -> None:
    _, expected = store
    assert found["held"] == [[topic, expected[topic][0], expected[topic][2]] for topic in sorted(TOPICS)]
