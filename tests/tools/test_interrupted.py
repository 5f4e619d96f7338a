"""Ctrl-C and a closed pipe: no traceback, and a store that is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.store.errors import FlightlogError
from flightlog.tests.support import signals
from flightlog.tools.program import EXIT_INTERRUPTED, EXIT_NO_READER

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

PATIENCE_S = 300


def start(*arguments: str | Path, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    call = [sys.executable, "-P", "-m", "flightlog", *map(str, arguments)]
    return subprocess.Popen(call, stdout=stdout, stderr=subprocess.PIPE, preexec_fn=signals.default_signals)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Exit code and stderr."""
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, err


def has_messages(path: Path) -> bool:
    try:
        with flightlog.open_read_only(path) as view:
            return bool(view.queues())
    except FlightlogError:  # it is being made
        return False


def test_ctrl_c_leaves_a_replayed_store_whole(clean_store: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    new = tmp_path / "new"
    process = start("replay", clean_store, new, "--rate", "0.01", "--write")
    deadline_s = time.monotonic() + PATIENCE_S
    while not has_messages(new):
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (EXIT_INTERRUPTED, b"")
    assert_clean(new)


@pytest.mark.parametrize("call", [("cat", "--form", "json"), ("cat", "--form", "csv"), ("info", "--json")])
def test_a_closed_pipe_is_no_error(clean_store: Path, call: tuple[str, ...]) -> None:
    if call[0] == "cat":  # more than a pipe holds
        process = start(call[0], clean_store, *call[1:])
        assert process.stdout is not None and process.stdout.readline()
        process.stdout.close()
        process.stdout = None
    else:
        reader, writer = os.pipe()
        os.close(reader)  # before it starts: the pipe would hold all that it prints
        process = start(call[0], clean_store, *call[1:], stdout=writer)
        os.close(writer)
    assert ended(process) == (EXIT_NO_READER, b"")
