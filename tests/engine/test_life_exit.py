"""A program that never closes its store leaves a cleanly closed one, however it ends; one that is ended leaves a whole
one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.tests.support import signals

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

PROGRAM = """
import atexit, os, signal, sys, threading, time
import flightlog
from flightlog.store.errors import StoreClosedError

store = flightlog.open(sys.argv[1], flightlog.StoreSettings.small())
for i in range(100):
    store.put(flightlog.Message("orders", b"%d" % i))

def put_until_closed():
    try:
        while True:
            store.put(flightlog.Message("more", b"more"))
    except StoreClosedError:
        print("a put was refused", flush=True)

def raises():
    raise RuntimeError("the program's own error")

def thread_goes_on():
    def work():
        time.sleep(0.2)
        store.put(flightlog.Message("orders", b"100"))
    threading.Thread(target=work).start()

def daemon_puts():
    threading.Thread(target=put_until_closed, daemon=True).start()
    time.sleep(0.1)

def in_a_cycle():
    global store
    holder = [store]
    holder.append(holder)
    store = None

ENDS = {
    "falls off its end": lambda: None,
    "exits": lambda: sys.exit(3),
    "raises": raises,
    "reads to the end": lambda: [list(store.read("orders")), store.read("orders")],
    "has a thread that puts once more": thread_goes_on,
    "has a daemon thread that puts for ever": daemon_puts,
    "loses its handle": in_a_cycle,
    "is interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
    "dies": lambda: os._exit(4),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
}
ENDS[sys.argv[2]]()
"""

CLEAN_ENDS = {
    "falls off its end": 0,
    "exits": 3,
    "raises": 1,
    "reads to the end": 0,
    "has a thread that puts once more": 0,
    "has a daemon thread that puts for ever": 0,
    "loses its handle": 0,
    "is interrupted": -2,
}
KILLED_ENDS = {"dies": 4, "is killed": -9, "is terminated": -15}


Run = Callable[[Path, str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    def run_to_its_end(path: Path, end: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", PROGRAM, str(path), end]
        start = signals.default_signals
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, preexec_fn=start)

    return run_to_its_end


def bodies(path: Path) -> list[bytes]:
    with flightlog.open_read_only(path) as view:
        return [message.body for message in view.read("orders")]


@pytest.mark.parametrize("end", CLEAN_ENDS)
def test_a_program_that_never_closes(end: str, run: Run, tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    done = run(path, end)
    assert done.returncode == CLEAN_ENDS[end], done.stderr
    assert done.stderr.count("Traceback") == (end in ("raises", "is interrupted")), done.stderr
    assert not (path / "abort").exists()
    report = assert_clean(path)
    assert report.last_writer.value == "flightlog, closed"
    expected = 101 if end == "has a thread that puts once more" else 100
    assert bodies(path) == [b"%d" % i for i in range(expected)]
    with flightlog.open(path) as store:
        assert store.recovery_report.scanned_from == store.recovery_report.end, "there was something to recover"


@pytest.mark.parametrize("end", KILLED_ENDS)
def test_a_program_that_is_ended(end: str, run: Run, tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    assert run(path, end).returncode == KILLED_ENDS[end]
    assert (path / "abort").exists()
    assert bodies(path) == [b"%d" % i for i in range(100)]
    with flightlog.open(path) as store:
        assert store.recovery_report.last_writer.value == "flightlog, killed or running"
        assert store.put(flightlog.Message("orders", b"100")).queue_offset == 100
    assert bodies(path) == [b"%d" % i for i in range(101)]
    assert assert_clean(path).records == 101
