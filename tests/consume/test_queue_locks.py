"""Locks of queues that are consumed in order."""

from __future__ import annotations

from flightlog.consume.group.queue_locks import EXPIRY_S, QueueLocks
from flightlog.store.message_queue import MessageQueue
from flightlog.tests.support.clocks import HeldClock

QUEUE, OTHER = MessageQueue("t", "store", 0), MessageQueue("t", "store", 1)


def test_a_lock_is_one_owners_until_it_lets_go(clock: HeldClock) -> None:
    locks = QueueLocks(clock)
    assert locks.lock("g", QUEUE, "a") and locks.lock("g", QUEUE, "a")
    assert not locks.lock("g", QUEUE, "b")
    assert locks.lock("g", OTHER, "b") and locks.lock("h", QUEUE, "b"), "another queue, another group"
    locks.unlock("g", QUEUE, "b")
    assert not locks.lock("g", QUEUE, "b"), "it was not b's to give"
    locks.unlock("g", QUEUE, "a")
    locks.unlock("g", QUEUE, "a")
    assert locks.lock("g", QUEUE, "b")


def test_a_lock_that_is_not_renewed_expires(clock: HeldClock) -> None:
    locks = QueueLocks(clock)
    assert locks.lock("g", QUEUE, "a") and locks.lock("g", OTHER, "b")
    clock.now_s += EXPIRY_S - 1
    locks.renew("a")
    clock.now_s += 1
    assert not locks.lock("g", QUEUE, "c") and locks.lock("g", OTHER, "c")
    clock.now_s += EXPIRY_S - 2
    assert not locks.lock("g", QUEUE, "c")
    clock.now_s += 1
    assert locks.lock("g", QUEUE, "c"), "60 s after it was renewed"
    assert not locks.lock("g", QUEUE, "a")
    locks.renew("a")
    locks.unlock("g", QUEUE, "a")
    assert not locks.lock("g", QUEUE, "a"), "the late one's words are no more worth anything"
