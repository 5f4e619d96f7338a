"""A reader that finds a dispatch under way: it waits for its own messages, not for its turn."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog
from flightlog import Message
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

DEADLINE_S = 240
READERS = 8


def test_readers_go_on_as_soon_as_another_has_dispatched_their_messages(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path) as store:
        dispatcher = inside.dispatcher(store)
        store.put(Message("t", b"1"))
        assert len(list(store.read("t"))) == 1
        found: list[int] = []
        with dispatcher._lock:  # as a dispatch has it
            store.put(Message("t", b"2"))
            target = inside.log(store).visible
            readers = [threading.Thread(target=lambda: found.append(len(store.queues()))) for _ in range(READERS)]
            for reader in readers:
                reader.start()
            assert not found and dispatcher.position < target, "they wait"
            dispatcher._dispatch_and_heal(target)
            for reader in readers:  # the lock is held all the time
                reader.join(DEADLINE_S)
            assert found == [1] * READERS
        assert [message.body for message in store.read("t")] == [b"1", b"2"]
    assert_clean(tmp_path)
