"""What the tests of failing disks share.

- `disk`: a FaultyDisk (testing/faulty_disk.py), healed at the end of the test, so that nothing hangs.
- `in_child`: runs something in a forked child, so that a signal that ends it does not end pytest.
- `Acknowledged`: what puts answered, to be looked for afterwards.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.engine.verify.findings import VerifyReport

    AssertClean = Callable[[Path], VerifyReport]
    InChild = Callable[[Callable[[], object]], None]


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    found: FaultyDisk = FaultyDisk()
    yield found
    found.heal()


@pytest.fixture
def new_disk() -> Callable[[], FaultyDisk]:
    """A class to make more of them, for tests that need many."""
    return FaultyDisk


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object]], None]:
    """`wait_until(lambda: store.is_closed)`: however long a busy machine takes, within reason."""
    return process.wait_until


@pytest.fixture(scope="session")
def in_child() -> InChild:
    """Run something in a forked child; it fails here if it fails there, or if a signal ends it: a store into a hole of
    a full disk would be a SIGBUS."""

    def run(do: Callable[[], object]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                do()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == 0, f"the child ended with {code}; see its traceback"

    return run


class Acknowledged:
    """What was put, what of it was acknowledged, and whether a store holds the one and nothing but the other."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[str, int, int], bytes] = {}
        self._number = 0
        self._offered: set[bytes] = set()

    def message(self, topic: str = "orders", size: int = 100, queue_id: int = 0) -> flightlog.Message:
        self._number += 1
        body = f"{self._number} ".encode().ljust(size, b".")
        self._offered.add(body)
        return flightlog.Message(topic, body, queue_id=queue_id, tags="t", keys=f"k{self._number}")

    def put(self, store: flightlog.Store, *messages: flightlog.Message) -> list[flightlog.PutResult]:
        results = store.put_many(messages) if len(messages) > 1 else [store.put(messages[0])]
        self.note(results, messages)
        return results

    def note(self, results: Sequence[flightlog.PutResult], messages: tuple[flightlog.Message, ...]) -> None:
        for result, message in zip(results, messages, strict=False):
            assert result.status is flightlog.PutStatus.PUT_OK
            place = (result.topic, result.queue_id, result.queue_offset)
            assert place not in self.bodies
            self.bodies[place] = message.body

    def check(self, store: flightlog.Store | flightlog.ReadOnlyStore) -> int:
        """Returns how many messages there are; more than were acknowledged if a put failed after its append."""
        found: dict[tuple[str, int, int], bytes] = {}
        for key, (first, end) in store.queues().items():
            for expected, message in enumerate(store.read(*key), first):
                assert message.queue_offset == expected
                found[(*key, expected)] = message.body
            assert first == 0 and len([place for place in found if place[:2] == key]) == end
        lost = self.bodies.items() - found.items()
        assert not lost, f"{len(lost)} acknowledged messages are not there: {sorted(lost)[:3]}"
        assert set(found.values()) <= self._offered
        assert len(set(found.values())) == len(found), "a message is there twice"
        return len(found)


@pytest.fixture
def leave_as_killed() -> Callable[[flightlog.Store], None]:
    """Let go of an open store as the death of its process would: nothing is flushed, nothing is marked."""

    def leave(store: flightlog.Store) -> None:
        inside.flush_service(store).stop()
        inside.forget_to_end(store)
        store.close()
        assert (store.path / "abort").exists()

    return leave


@pytest.fixture
def acknowledged() -> Acknowledged:
    return Acknowledged()


@pytest.fixture
def new_acknowledged() -> type[Acknowledged]:
    return Acknowledged
