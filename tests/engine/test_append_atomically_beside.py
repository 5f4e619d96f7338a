"""`append_atomically` beside other threads of its process, and readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog
from flightlog import Message, StoreSettings, TopicColumns
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings(
    segment_size=64 << 10,
    queue_file_entries=1000,
    index_slots=500,
    index_entries=2000,
    flush_interval_ms=1,
    queue_flush_interval_ms=1,
)
TOPICS = ("a", "b", "a", "c")


def parts() -> Iterator[TopicColumns]:
    """80 rows of three topics, in two queues each."""
    for number, topic in enumerate(TOPICS):
        bodies = [b"%d %d " % (number, row) + bytes(200) for row in range(20)]
        yield TopicColumns(topic, {"value": bodies, "partition": [row % 2 for row in range(20)]})


def test_puts_and_a_deletion_of_other_threads_wait_and_readers_see_all_rows_or_none(
    tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    """The services of the store run beside it, as often as they can."""
    path, rounds = tmp_path / "store", scale.pick(ci=20, full=400)
    seen: set[int] = set()
    stop = threading.Event()
    errors: list[BaseException] = []

    def guarded(do: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                do()
            except BaseException as e:
                errors.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    with flightlog.open(path, SETTINGS) as store:

        def look() -> None:
            with flightlog.open_read_only(path) as view:
                while True:
                    is_last = stop.is_set()
                    view.refresh()
                    seen.add(sum(end for (topic, _), (_, end) in view.queues().items() if topic in TOPICS))
                    if is_last:
                        return

        def put_ten() -> None:
            for _ in range(10):
                store.put(Message("t", b"y"))

        reader = guarded(look)
        others: list[threading.Thread] = []
        put = 0
        for number in range(rounds):
            store.put(Message(f"old{number}", b"x"))

            def rows(number: int = number) -> Iterator[TopicColumns]:
                for at, part in enumerate(parts()):
                    if at == 1:
                        others.append(guarded(lambda: store.delete_topic(f"old{number}")))
                        others.append(guarded(put_ten))
                    yield part
                yield TopicColumns(f"new{number}", {"value": [b"z"]})

            assert store.append_atomically(rows()).count == 81
            for thread in others:
                thread.join(process.LIMIT_S)
                assert not thread.is_alive(), "two threads wait for each other"
            put += 10
        stop.set()
        reader.join(process.LIMIT_S)
        assert not errors
        assert max(seen) == 80 * rounds
        assert {count % 80 for count in seen} == {0}
        assert sum(1 for _ in store.read("t")) == put
    assert_clean(path)
