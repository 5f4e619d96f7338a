"""The folder of a benchmark goes with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flightlog.tests.support import signals
from flightlog.tools.bench.machine.scratch import ENDING_SIGNALS, scratch_folder

LIMIT_S = 240
ENDED_BY = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
OURS = (str(Path(__file__).resolve().parents[2] / "benches" / "run.py"),)
BENCHES = {
    "append": ("-m", "flightlog", "bench", "append", "--rounds", "50"),
    "flush": ("-m", "flightlog", "bench", "flush", "--rounds", "50"),
    "readers": (*OURS, "readers", "--rounds", "50"),
    "delay": (*OURS, "delay", "--seconds", "50"),
}


@pytest.mark.parametrize("number", ENDED_BY)
@pytest.mark.parametrize("name", BENCHES)
def test_a_benchmark_that_is_ended_leaves_nothing(name: str, number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-P", *BENCHES[name], "--folder", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=signals.default_signals
    ) as bench:
        while not any(tmp_path.glob("flightlog-bench-*/*")) and bench.poll() is None:
            time.sleep(0.02)
        time.sleep(0.2)  # into the middle of something
        os.kill(bench.pid, number)
        out, err = bench.communicate(timeout=LIMIT_S)
    assert (bench.returncode, out) == (ENDED_BY[number], ""), err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_scan_that_is_interrupted_ends_spark_too(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "flightlog", "bench", "scan", "--quick", "--folder", str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=signals.default_signals,
    ) as bench:
        while not any(tmp_path.rglob("_temporary")) and bench.poll() is None:  # Spark writes Parquet
            time.sleep(0.02)
        os.killpg(bench.pid, signal.SIGINT)  # as a terminal does; Java does not listen to it
        out, err = bench.communicate(timeout=LIMIT_S)
    assert (bench.returncode, out) == (130, b""), err
    deadline_s = time.monotonic() + LIMIT_S
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline_s:  # Java's children are nobody's now, and take a moment
            os.killpg(bench.pid, 0)
            time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """As `nohup` has SIGHUP, and a shell has SIGINT of what runs behind it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with scratch_folder(tmp_path):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_as_before(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in ENDING_SIGNALS]
    with pytest.raises(ValueError, match="mine"), scratch_folder(tmp_path) as folder:
        (folder / "file").touch()
        assert [signal.getsignal(number) for number in ENDING_SIGNALS] != before
        raise ValueError("mine")
    assert [signal.getsignal(number) for number in ENDING_SIGNALS] == before
    assert list(tmp_path.iterdir()) == []


def test_a_thread_has_one_too(tmp_path: Path) -> None:
    found: list[Path] = []

    def run() -> None:
        with scratch_folder(tmp_path) as folder:
            found.append(folder)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found[0].parent == tmp_path and not found[0].exists()
