"""Many threads on one store: every queue exact, every message once, readers beside writers, verify beside both."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

THREADS = 8
SHARED = "shared"
Key = tuple[str, int]


def settings(mode: FlushMode) -> StoreSettings:
    return StoreSettings(
        segment_size=64 << 10,
        queue_file_entries=200,
        allocate_step_size=16 << 10,
        flush_mode=mode,
        flush_interval_ms=2,
        queue_flush_interval_ms=5,
        sync_flush_timeout_ms=240_000,
    )


def follow(store: flightlog.Store, key: Key, done: threading.Event) -> list[bytes]:
    """Read a queue to its end again and again while it grows: nothing is skipped, nothing changes."""
    seen: list[bytes] = []
    while True:
        is_last = done.is_set()
        for message in store.read(*key, len(seen)):
            assert message.queue_offset == len(seen)
            seen.append(message.body)
        if is_last:
            return seen


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
def test_writers_and_readers_on_shared_and_own_queues(
    mode: FlushMode, kernel: str, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    threads = process.threads()
    puts = scale.pick(ci=300 if mode is FlushMode.ASYNC else 100, full=5000)
    path = tmp_path / "store"
    placed: dict[Key, dict[int, bytes]] = defaultdict(dict)
    followed: dict[Key, list[bytes]] = {}
    failures: list[BaseException] = []
    lock, done = threading.Lock(), threading.Event()

    with flightlog.open(path, settings(mode)) as store:

        def write(me: int) -> None:
            for i in range(puts):
                own = Message(f"own-{me}", b"%d %d own" % (me, i) * (1 + i % 30))
                shared = [Message(SHARED, b"%d %d %d" % (me, i, j), queue_id=j % 2) for j in range(1 + i % 3)]
                results = [store.put(own), *store.put_many(shared)]
                with lock:
                    for message, result in zip([own, *shared], results, strict=True):
                        assert result.status is PutStatus.PUT_OK
                        queue = placed[result.topic, result.queue_id]
                        assert result.queue_offset not in queue, "one queue offset for two messages"
                        queue[result.queue_offset] = message.body
                if i % 50 == 0:  # a put that returned is visible to the next read
                    [found] = store.get(f"own-{me}", 0, results[0].queue_offset, 1).messages
                    assert found.body == own.body

        def read(key: Key) -> None:
            followed[key] = follow(store, key, done)

        def guarded(work: object, *arguments: object) -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as e:
                failures.append(e)

        writers = [threading.Thread(target=guarded, args=(write, i)) for i in range(THREADS)]
        readers = [
            threading.Thread(target=guarded, args=(read, key))
            for key in ((SHARED, 0), (SHARED, 1), ("own-0", 0), ("own-7", 0))
        ]
        for thread in writers + readers:
            thread.start()
        reports = []
        while any(writer.is_alive() for writer in writers):
            reports.append(store.verify())
            with flightlog.open_read_only(path) as view:
                reports.append(view.verify())
                view.refresh()
                for key in view.queues():
                    assert [m.queue_offset for m in view.read(*key)] == list(range(view.queues()[key][1]))
        for writer in writers:
            writer.join()
        done.set()
        for reader in readers:
            reader.join()
        assert not failures, failures
        findings = [str(finding) for report in reports for finding in report.findings]
        assert not findings, f"{len(findings)} in {len(reports)} reports beside writers: {findings[:3]}"
        for key, seen in followed.items():
            assert dict(enumerate(seen)) == placed[key]
    assert process.threads() <= threads
    with flightlog.open_read_only(path) as view:
        assert {key: dict(enumerate(m.body for m in view.read(*key))) for key in view.queues()} == placed
    assert assert_clean(path).records == sum(map(len, placed.values()))


@pytest.mark.ci
def test_offsets_and_times_rise_with_the_log(tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    results: list[flightlog.PutResult] = []
    with flightlog.open(path, settings(FlushMode.ASYNC)) as store:

        def write() -> None:
            mine = [store.put(Message("orders", b"x" * (1 + i % 300), queue_id=i % 5)) for i in range(300)]
            assert sorted(mine, key=lambda r: r.physical_offset) == mine, "a thread's own puts changed their order"
            results.extend(mine)

        threads = [threading.Thread(target=write) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    results.sort(key=lambda result: result.physical_offset)
    for before, after in itertools.pairwise(results):
        assert before.physical_offset + before.size <= after.physical_offset
        assert before.store_timestamp_ms <= after.store_timestamp_ms
    for queue_id in range(5):
        offsets = [result.queue_offset for result in results if result.queue_id == queue_id]
        assert offsets == list(range(len(offsets)))
    assert assert_clean(path).records == THREADS * 300
