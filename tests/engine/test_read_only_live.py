"""A view in this process, a writer in another one that puts, closes and opens again: what was acknowledged is seen."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.engine.open.shutdown_state import LastWriter

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

WRITER = """
import sys
import flightlog

root, mode, rounds, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
settings = flightlog.StoreSettings(
    segment_size=16384, queue_file_entries=20, flush_mode=flightlog.FlushMode[mode], flush_interval_ms=5,
    queue_flush_interval_ms=10, sync_flush_timeout_ms=240_000,
)
number = 0
for _ in range(rounds):
    with flightlog.open(root, settings) as store:
        for _ in range(count):
            body = b"%06d" % number * (1 + number % 40)
            if number % 5:
                store.put(flightlog.Message("t", body, queue_id=number % 3))
                number += 1
            else:
                store.put_many([flightlog.Message("t", body, queue_id=number % 3)])
                number += 1
            print(number, flush=True)
            if number % (rounds * count // 6) == 0:
                sys.stdin.readline()
"""
"""Prints how many puts have returned, after each. Now and then it waits for a line, so that others keep up."""


class Writer:
    """The program above, and how far it says it has come."""

    def __init__(self, root: Path, mode: str, rounds: int, count: int) -> None:
        self.total = rounds * count
        self.acknowledged = 0
        command = [sys.executable, "-P", "-c", WRITER, str(root), mode, str(rounds), str(count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.acknowledged = int(line)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def go_on(self) -> None:
        """Past one of the places where it waits."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has come to its end
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def end(self) -> None:
        self._thread.join(120)
        assert self._process.wait(60) == 0
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdout.close()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        assert self.acknowledged == self.total


def check(view: flightlog.ReadOnlyStore, at_least: int) -> int:
    """Everything from the first message on, without a gap, each one whole, and no less than was acknowledged."""
    found = sorted((m for key in view.queues() for m in view.read(*key)), key=lambda m: m.physical_offset)
    for number, message in enumerate(found):
        assert message.body == b"%06d" % number * (1 + number % 40)
        assert (message.queue_id, message.queue_offset) == (number % 3, number // 3)
    assert len(found) >= at_least
    return len(found)


@pytest.mark.parametrize(
    ("mode", "rounds", "count"), [("ASYNC", 1, 1500), ("SYNC", 1, 300), ("ASYNC", 12, 60), ("SYNC", 6, 20)]
)
@pytest.mark.parametrize("how", ["refresh", "open"])
def test_beside_a_writer_in_another_process(
    how: str, mode: str, rounds: int, count: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    (tmp_path / "commitlog").mkdir()
    writer = Writer(tmp_path, mode, rounds, count)
    seen: list[int] = []
    verified = told = 0
    with ExitStack() as stack:
        view = stack.enter_context(flightlog.open_read_only(tmp_path))
        while writer.is_running:
            acknowledged = writer.acknowledged
            if how == "refresh":
                view.refresh()
                seen.append(check(view, acknowledged))
            else:
                with flightlog.open_read_only(tmp_path) as fresh:
                    seen.append(check(fresh, acknowledged))
                    if len(seen) % 5 == 0 and fresh.shutdown_state.is_ours:
                        assert fresh.verify().findings == []
                        verified += 1
            if len(set(seen)) > told:
                told += 1
                writer.go_on()
        writer.end()
        view.refresh()
        assert check(view, writer.total) == writer.total
        assert view.shutdown_state.last_writer is LastWriter.FLIGHTLOG_CLOSED
    assert seen == sorted(seen), "what was seen once is seen again"
    assert len(set(seen)) > 3, "too quick a writer proves nothing"
    assert_clean(tmp_path)


def test_a_view_does_not_take_the_writers_lock_away(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Closing any descriptor of `lock` in a process would drop that process's lock: a view never opens it."""
    attempt = "import sys, flightlog; flightlog.open(sys.argv[1])"
    with flightlog.open(tmp_path, flightlog.StoreSettings.small()) as store:
        store.put(flightlog.Message("t", b"x"))
        with flightlog.open_read_only(tmp_path) as view:
            view.verify()
            view.refresh()
        store.verify()
        finished = subprocess.run(
            [sys.executable, "-P", "-c", attempt, str(tmp_path)], capture_output=True, text=True, timeout=240
        )
        assert finished.returncode == 1 and "StoreLockedError" in finished.stderr
        assert store.put(flightlog.Message("t", b"y")).queue_offset == 1
    assert_clean(tmp_path)
