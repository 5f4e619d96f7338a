"""Streams beside a broker that has just started: for a while it shows less than could be read while nobody had the
store open. A stream that has read that waits; it neither fails nor reads anything twice."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.spark.stream import streaming
from flightlog.store.errors import StoreChangingError
from flightlog.tests.support.stream_driver import StreamDriver

if TYPE_CHECKING:
    Stream = Callable[..., StreamDriver]

HALTED = Path(__file__).resolve().parents[1] / "data" / "rocketmq-halted.tar.xz"
NOT_DISPATCHED = 14
HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""

EVERYTHING = {"startingOffsets": "earliest"}
TOPICS = {"startingOffsets": "earliest", "subscribePattern": ".*"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store whose RocketMQ died before it had put its last messages into queues."""
    with tarfile.open(HALTED) as tar:
        tar.extractall(tmp_path)
    (tmp_path / "store" / "lock").touch()
    return tmp_path / "store"


@contextmanager
def broker_starts(path: Path) -> Iterator[None]:
    """As far as it can be seen from outside: somebody holds the lock."""
    command = [sys.executable, "-P", "-c", HOLD_LOCK, str(path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.communicate()


@pytest.mark.parametrize("dialect", ["admission", "plain"])
@pytest.mark.parametrize("options", [EVERYTHING, TOPICS], ids=["everything", "topics"])
def test_a_stream_waits_until_what_it_has_read_is_shown_again(
    path: Path, stream: Stream, dialect: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = stream(path, dialect, **options)
    first = query.batch(commit=False) or []
    with broker_starts(path):
        with flightlog.open_read_only(path) as view:
            shown = sum(end for _, end in view.queues().values())
        assert len(first) == shown + NOT_DISPATCHED
        monkeypatch.setattr(streaming, "CATCHING_UP_LIMIT_S", 0.2)
        query.start()
        with pytest.raises(StoreChangingError, match="a broker that has just started has not come to"):
            query.batch()
        new = stream(path, dialect, **options)
        assert len(new.rows()) == shown
    query.start()
    assert query.batch() == first
    with broker_starts(path):
        query.start()
        assert query.batch() is None
    assert query.batch() is None
    assert len(new.rows()) == NOT_DISPATCHED
