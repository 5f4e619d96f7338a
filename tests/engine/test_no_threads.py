"""An open that gets no thread, or no address space: an error of ours, and everything is given back."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.open import log_sync
from flightlog.store.errors import FlightlogError, ThreadStartError
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings(segment_size=1 << 16, queue_file_entries=50)
REFUSAL = "can't start new thread"


class Starts:
    """Counts the starts of threads by the caller's thread and its helpers, and refuses one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.refused = 0, -1
        monkeypatch.setattr(_thread, "start_new_thread", self._counting(_thread.start_new_thread))
        monkeypatch.setattr(threading.Thread, "start", self._counting(threading.Thread.start))

    def _counting(self, start: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count += 1
            if self.count == self.refused:
                raise RuntimeError(REFUSAL)
            return start(*arguments)

        return counted


def killed_store(path: Path, copy_store: Callable[[Path, Path], Path]) -> Path:
    """With a delayed message, which the next open starts a thread for, and a tail that it writes again."""
    with flightlog.open(path / "store", replace(SETTINGS, flush_interval_ms=3_600_000)) as store:
        store.put(Message("t", b"sound"))
        store.put(Message("t", b"later", delay_level=18))
        store.put(Message("t", b"last"))
        return copy_store(path / "store", path / "killed")


def test_each_start_of_a_thread_that_fails_while_opening(
    tmp_path: Path,
    copy_store: Callable[[Path, Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    monkeypatch.setattr(log_sync, "MUCH", 0)
    killed = killed_store(tmp_path, copy_store)
    starts = Starts(monkeypatch)
    flightlog.open(copy_store(killed, tmp_path / "counted"), SETTINGS).close()
    needed = starts.count
    assert needed >= 5, "the log's sync, and two for each service"
    for refused in range(1, needed + 1):
        path = copy_store(killed, tmp_path / str(refused))
        before = process.threads()
        starts.count, starts.refused = 0, refused
        with pytest.raises(ThreadStartError, match=REFUSAL) as raised:
            flightlog.open(path, SETTINGS)
        assert isinstance(raised.value, FlightlogError) and isinstance(raised.value, RuntimeError)
        assert raised.value.thread.startswith("flightlog-") and "ulimit" in str(raised.value)
        assert process.threads() <= before, "a thread of the failed open still runs"
        starts.refused = -1
        with flightlog.open(path, SETTINGS) as store:  # the lock is free, although the error is still held
            assert [m.body for m in store.read("t", 0)] == [b"sound", b"last"]
        assert_clean(path)


PROGRAM = """
import resource, sys, threading
import flightlog
from flightlog.store.errors import ThreadStartError

STACK_SIZE, ROOM = 1 << 30, 1 << 28
settings = flightlog.StoreSettings(segment_size=1 << 16, queue_file_entries=50, index_slots=100, index_entries=400)
in_use = 4096 * int(open("/proc/self/statm").read().split()[0])
kept = []
threading.stack_size(STACK_SIZE)
resource.setrlimit(resource.RLIMIT_AS, (in_use + ROOM, resource.RLIM_INFINITY))
try:
    kept.append(flightlog.open(sys.argv[1], settings))
except ThreadStartError as e:
    kept.append(e)  # with it, the handle that was never whole
    print("refused")
if "again" in sys.argv:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    threading.stack_size(0)
    with flightlog.open(sys.argv[1], settings) as store:
        store.put(flightlog.Message("t", b"x"))
        print([m.body for m in store.read("t", 0)])
"""


@pytest.mark.parametrize("arguments", [(), ("again",)], ids=["ends", "opens again"])
def test_without_address_space_for_a_thread(
    arguments: tuple[str, ...], tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The closer at the exit of the interpreter died of an AttributeError: the handle was registered before it was
    whole."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(tmp_path / "store"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split("\n", 1)[0] == "refused"
    assert ended.stdout.endswith("[b'x']\n") == bool(arguments)
    flightlog.open(tmp_path / "store", SETTINGS).close()
    assert_clean(tmp_path / "store")
