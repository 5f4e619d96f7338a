"""flightlog beside a RocketMQ that is writing, and the other way round: one writer, any number of readers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.store.errors import StoreLockedError

if TYPE_CHECKING:
    from tests.interop.harness import Line, RocketMq
    from tests.interop.live import LiveRocketMq

    StartLive = Callable[..., AbstractContextManager[LiveRocketMq]]

pytestmark = pytest.mark.ci

FEATURES = ("v2", "v6", "unicode", "empty", "noprops", "batch")
TRY_TO_WRITE = """
import sys, flightlog
from flightlog.store.errors import StoreLockedError
try:
    flightlog.open(sys.argv[1])
except StoreLockedError as e:
    sys.exit(42)
"""


def assert_locked(path: Path) -> None:
    """A third process is refused: RocketMQ still has its lock, whatever this process has opened and closed."""
    done = subprocess.run([sys.executable, "-P", "-c", TRY_TO_WRITE, str(path)], capture_output=True, text=True)
    assert done.returncode == 42, done.stderr


class Seen:
    """What readers saw while RocketMQ was writing; checked against what it wrote once that is known."""

    def __init__(self, mixed: ModuleType) -> None:
        self._mixed = mixed
        self.pictures: list[tuple[str, int, list[Line]]] = []
        """Who looked, how many messages had been acknowledged before, and what was there."""

    def add(self, who: str, acknowledged: int, view: flightlog.ReadOnlyStore) -> None:
        lines = self._mixed.read_all(view)
        assert view.queues() == self._mixed.bounds(lines)
        self.pictures.append((who, acknowledged, lines))

    def check(self, written: list[Line]) -> None:
        """Every picture shows the beginning of every queue, without a hole, a repetition or a wrong message."""
        for who, _, lines in self.pictures:
            ends = self._mixed.bounds(lines)
            beginning = [line for line in written if line["queueOffset"] < ends.get((line["topic"], line["queueId"]), (0, 0))[1]]
            try:
                self._mixed.compare(lines, beginning)
            except AssertionError as e:
                raise AssertionError(f"{who}, which saw {len(lines)} messages: {e}") from e


def test_readers_beside_a_rocketmq_that_is_writing(
    live_rocketmq: StartLive, rocketmq: RocketMq, mixed: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    seen = Seen(mixed)
    verified = 0
    with live_rocketmq(path, seed=41, count=5000, pause_ms=1, features=FEATURES, **mixed.SMALL) as live:
        live.put(200)
        live.await_caught_up()
        with flightlog.open_read_only(path) as followed:
            mixed.check_flightlog(followed, map(mixed.their_line, live.messages))
            assert followed.verify().is_clean
            for _ in range(3):
                live.put(500)
                while live.is_putting:
                    acknowledged = len(live.messages)
                    with pytest.raises(StoreLockedError, match="another process"):
                        flightlog.open(path)
                    with flightlog.open_read_only(path) as view:
                        seen.add("a new view", acknowledged, view)
                        report = view.verify()
                    assert report.is_clean, "\n".join(map(str, report.findings))
                    verified += 1
                    followed.refresh()
                    seen.add("a refreshed view", acknowledged, followed)
                live.await_caught_up()
                assert_locked(path)
                followed.refresh()
                mixed.check_flightlog(followed, map(mixed.their_line, live.messages))
                with flightlog.open_read_only(path) as view:
                    mixed.check_flightlog(view, map(mixed.their_line, live.messages))
        live.close()
        written = list(map(mixed.their_line, live.messages))
    assert verified >= 3 and len({len(lines) for _, _, lines in seen.pictures}) >= 6
    seen.check(written)
    mixed.check_rocketmq(rocketmq.open_store(path, **mixed.SMALL), written)
    with flightlog.open(path) as store:
        mixed.check_flightlog(store, written)
        assert store.verify().is_clean
