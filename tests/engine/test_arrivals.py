"""Who waits for messages is woken by those of the queues that it wants, and by no other."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.services.wake_up import WakeUp
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

LIMIT_S = 240.0


@pytest.mark.parametrize("mode", FlushMode)
def test_a_message_rings_those_who_want_its_queue(mode: FlushMode, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(flush_mode=mode)) as store:
        store.put_many([Message("t", b"x", queue_id=queue_id) for queue_id in range(3)])
        store.get("t", 0, 0)
        first, second, both, anything = WakeUp(), WakeUp(), WakeUp(), WakeUp()
        inside.arrivals(store).expect(first, {("t", 0)})
        inside.arrivals(store).expect(second, {("t", 1), ("u", 0)})
        inside.arrivals(store).expect(both, {("t", 0), ("t", 1)})
        inside.arrivals(store).expect(anything)
        store.put(Message("t", b"x", queue_id=2))
        assert anything.wait(LIMIT_S) and not (first.is_notified or second.is_notified or both.is_notified)
        store.put(Message("t", b"x", queue_id=0))
        assert first.wait(LIMIT_S) and both.wait(LIMIT_S) and not second.is_notified
        store.put(Message("t", b"x", queue_id=1))  # though nobody has asked again
        assert second.wait(LIMIT_S) and not (first.is_notified or both.is_notified or anything.is_notified), (
            "each is notified once"
        )
    assert_clean(tmp_path)


def test_the_first_message_of_a_queue_rings_everybody(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        wake_ups = [WakeUp(), WakeUp()]
        for wake_up in wake_ups:
            inside.arrivals(store).expect(wake_up, set())
        store.put(Message("new", b"x"))
        assert all(wake_up.wait(LIMIT_S) for wake_up in wake_ups), "perhaps it is to be theirs"
        inside.arrivals(store).expect(wake_ups[0], set())
        inside.arrivals(store).forget(wake_ups[0])
        inside.arrivals(store).expect(wake_ups[1], set())
    assert wake_ups[1].is_notified and not wake_ups[0].is_notified, "the end of the store is for all who still wait"
    assert_clean(tmp_path)


def test_a_poisoned_store_rings_everybody(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        wake_up = WakeUp()
        inside.arrivals(store).expect(wake_up, set())
        inside.maintenance(store).poison(OSError("a disk that failed"))
        assert wake_up.wait(LIMIT_S)
    with flightlog.open(tmp_path, StoreSettings.small()):
        pass  # recovered
    assert_clean(tmp_path)


def test_what_is_wanted_may_change_while_one_waits(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put_many([Message("t", b"x", queue_id=queue_id) for queue_id in range(2)])
        store.get("t", 0, 0)
        wanted, wake_up, other = {("t", 0)}, WakeUp(), WakeUp()
        inside.arrivals(store).expect(wake_up, wanted)
        wanted.add(("t", 1))
        store.put(Message("t", b"x", queue_id=1))
        assert wake_up.wait(LIMIT_S)
        inside.arrivals(store).expect(wake_up, wanted)
        inside.arrivals(store).expect(other, {("t", 0)})
        wanted.clear()
        store.put(Message("t", b"x", queue_id=0))
        assert other.wait(LIMIT_S) and not wake_up.is_notified
    assert_clean(tmp_path)


@pytest.mark.parametrize("mode", FlushMode)
def test_many_who_wait_for_their_own_queue_miss_nothing(
    mode: FlushMode, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """Each looks after it asked to be notified, and then waits without a limit; others read at the same time."""
    queues, count = 5, 120
    found: dict[int, int] = {}

    def wait_for_all(queue_id: int) -> None:
        wake_up, offset = WakeUp(), 1
        while offset <= count:
            inside.arrivals(store).expect(wake_up, {("t", queue_id)})
            answer = store.get("t", queue_id, offset)
            offset += len(answer.messages)
            if not answer.messages and not wake_up.wait(LIMIT_S):
                return
        found[queue_id] = offset

    with flightlog.open(tmp_path, StoreSettings.small(flush_mode=mode)) as store:
        store.put_many([Message("t", b"x", queue_id=queue_id) for queue_id in range(queues)])
        threads = [threading.Thread(target=wait_for_all, args=(queue_id,)) for queue_id in range(queues)]
        for thread in threads:
            thread.start()
        for number in range(count * queues):
            store.put(Message("t", b"x", queue_id=number % queues))
        for thread in threads:
            thread.join()
        assert found == dict.fromkeys(range(queues), count + 1)
    assert_clean(tmp_path)


def test_a_put_that_cannot_be_read_yet_rings_those_who_wait_after_it(tmp_path: Path, assert_clean: AssertClean) -> None:
    """It was on its way to the disk before anybody waited, and no other put follows."""
    disk = FaultyDisk()
    settings = StoreSettings.small(flush_mode=FlushMode.SYNC, flush_interval_ms=60_000)
    with flightlog.open(tmp_path, settings, disk=disk) as store:
        store.put(Message("t", b"0"))
        disk.hold("sync", "commitlog/", times=1)
        store.put(Message("t", b"1", wait_store_ok=False))
        assert disk.held.acquire(timeout=LIMIT_S)
        wake_up = WakeUp()
        inside.arrivals(store).expect(wake_up, {("t", 0)})
        assert not store.get("t", 0, 1).messages and not wake_up.is_notified
        disk.release()
        assert wake_up.wait(LIMIT_S / 2)
        assert [message.body for message in store.get("t", 0, 1).messages] == [b"1"]
    assert_clean(tmp_path)
