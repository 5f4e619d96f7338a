"""flightlog beside a RocketMQ that is writing, and the other way round: one writer, any number of readers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DiskError, StoreLockedError, StorePoisonedError
from flightlog.store.state.progress import read_progress
from flightlog.tests.interop import harness, mixed
from flightlog.tests.interop.harness import Line, QueueName, RocketMq
from flightlog.tests.interop.live import LiveRocketMq
from flightlog.tests.support import process

if TYPE_CHECKING:
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

    def __init__(self) -> None:
        self._mixed = mixed
        self.pictures: list[list[Line]] = []

    def add(self, view: flightlog.ReadOnlyStore) -> None:
        lines = self._mixed.read_all(view)
        # RocketMQ makes the file of a new queue a moment before its first entry.
        assert {queue: ends for queue, ends in view.queues().items() if ends[1]} == self._mixed.bounds(lines)
        self.pictures.append(lines)

    def check(self, written: list[Line]) -> None:
        """Every picture shows the beginning of every queue, without a hole, a repetition or a wrong message, and no
        less than the picture before it."""
        for lines in self.pictures:
            ends = self._mixed.bounds(lines)
            self._mixed.compare(lines, (line for line in written if is_before(line, ends)))
        sizes = list(map(len, self.pictures))
        assert sizes == sorted(sizes)

    @property
    def is_enough(self) -> bool:
        return len(set(map(len, self.pictures))) >= 6


def is_before(line: Line, ends: dict[QueueName, tuple[int, int]]) -> bool:
    _, end = ends.get((line["topic"], line["queueId"]), (0, 0))
    return bool(line["queueOffset"] < end)


def test_readers_beside_a_rocketmq_that_is_writing(
    live_rocketmq: StartLive, rocketmq: RocketMq, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    seen = Seen()
    verified = 0
    with live_rocketmq(path, seed=41, count=50_000, pause_ms=1, features=FEATURES, **mixed.SMALL) as live:
        live.put(200)
        live.await_caught_up()
        with flightlog.open_read_only(path) as followed:
            mixed.check_flightlog(followed, map(mixed.their_line, live.messages))
            assert followed.verify().is_clean
            orders = 0
            while orders < 3 or verified < 3 or not seen.is_enough:  # more of them where the readers are slow
                orders += 1
                live.put(500)
                while live.is_putting:
                    with pytest.raises(StoreLockedError, match="another process"):
                        flightlog.open(path)
                    with flightlog.open_read_only(path) as view:
                        seen.add(view)
                        report = view.verify()
                    assert report.is_clean, "\n".join(map(str, report.findings))
                    verified += 1
                    followed.refresh()
                    seen.add(followed)
                live.await_caught_up()
                assert_locked(path)
                followed.refresh()
                mixed.check_flightlog(followed, map(mixed.their_line, live.messages))
                with flightlog.open_read_only(path) as view:
                    mixed.check_flightlog(view, map(mixed.their_line, live.messages))
        live.close()
        written = list(map(mixed.their_line, live.messages))
    seen.check(written)
    mixed.check_rocketmq(rocketmq.open_store(path, **mixed.SMALL), written)
    with flightlog.open(path) as store:
        mixed.check_flightlog(store, written)
        assert store.verify().is_clean


def refuse_rocketmq(rocketmq: RocketMq, path: Path) -> None:
    """RocketMQ loads and recovers before it asks for the lock; whatever it did by then, it did not start."""
    with pytest.raises(harness.InteropError, match="Lock failed,MQ already started"):
        rocketmq.open_store(path, append=10, **mixed.SMALL)


def without_index(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not name.startswith("index/")}


def files_of(path: Path) -> dict[str, bytes]:
    """All but `lock`: whoever opens it in this process drops this process's lock."""
    found = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != "lock":
            with suppress(FileNotFoundError):  # a temporary file that has got its name since
                found[str(file.relative_to(path))] = file.read_bytes()
    return found


def is_all_flushed(path: Path) -> bool:
    """Whether the flush service has synced the log, its queues and its keys, and sealed every full segment."""
    progress = read_progress(RealDisk(), path)
    assert progress is not None
    full = [int(file.name) for file in (path / "commitlog").iterdir()]
    full = [base for base in full if base + progress.segment_size <= progress.appended]
    is_sealed = all((path / "flightlog" / "seals" / f"{base:020d}").exists() for base in full)
    flushed = {progress.flushed, progress.queues_flushed, progress.index_flushed}
    return is_sealed and flushed == {progress.appended}


def test_rocketmq_is_refused_and_harms_the_index_alone_while_flightlog_rests(
    rocketmq: RocketMq, tmp_path: Path
) -> None:
    """The store was taken over from a halted RocketMQ, which leaves empty segments behind: RocketMQ deletes such files
    before it looks at the lock, and index files. The latter flightlog makes anew."""
    path = tmp_path / "store"
    written = rocketmq.write_store(path, seed=51, count=300, halt=True, features=FEATURES, **mixed.SMALL)
    lines = list(map(mixed.their_line, written))
    store = flightlog.open(path, mixed.small_settings(queue_flush_interval_ms=10, flush_interval_ms=10))
    lines += mixed.put_from_threads(store, 52, 300)
    mixed.check_flightlog(store, lines)
    process.wait_until(lambda: is_all_flushed(path))
    process.wait_until_still(lambda: files_of(path), 0.5)  # the flush service has nothing left to write
    before = files_of(path)

    refuse_rocketmq(rocketmq, path)

    assert without_index(files_of(path)) == without_index(before)
    assert_locked(path)
    lines += mixed.put_from_threads(store, 53, 1000)
    mixed.check_flightlog(store, lines)
    store.close()
    with flightlog.open(path) as store:
        assert store.recovery_report.keys_put == 0
        mixed.check_flightlog(store, lines)
        assert store.verify().is_clean
        for line in filter(mixed.is_listed, lines):
            if line["uniqKey"] is not None:
                found = store.message_by_uniq_key(line["topic"], line["uniqKey"])
                assert found is not None and found.physical_offset == line["commitLogOffset"]
    mixed.check_rocketmq(rocketmq.open_store(path, **mixed.SMALL), lines)


def test_rocketmq_is_refused_and_loses_nothing_while_flightlog_writes(rocketmq: RocketMq, tmp_path: Path) -> None:
    """RocketMQ may delete a queue file that was made while it recovered: flightlog then refuses puts, or reads of that
    queue, or cannot close cleanly. The log stays whole, so the next open has every message."""
    path = tmp_path / "store"
    lines: list[Line] = []
    has_ended = threading.Event()
    store = flightlog.open(path, mixed.small_settings())

    def put_on() -> None:
        seed = 100
        while not has_ended.is_set():
            seed += 1
            try:
                lines.extend(mixed.put_from_threads(store, seed, 50, threads=1))
            except StorePoisonedError:
                return

    writer = threading.Thread(target=put_on)
    writer.start()
    try:
        for _ in range(2):
            refuse_rocketmq(rocketmq, path)
    finally:
        has_ended.set()
        writer.join()
        assert_locked(path)
        with suppress(DiskError):
            store.close()
    assert len(lines) > 500
    with flightlog.open(path) as store:
        mixed.check_contains(mixed.read_all(store), filter(mixed.is_listed, lines))
        assert store.verify().is_clean
