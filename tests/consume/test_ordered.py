"""Ordered coordinator: one after the other in each queue, whatever fails, comes, goes or is killed."""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Consumer, Message, MessageQueue, ReceivedMessage, StoreSettings, Subscription
from flightlog.consume.deliver.back_off import BackOff
from flightlog.consume.group.queue_locks import EXPIRY_S, RENEW_INTERVAL_S
from flightlog.consume.group.rebalance import RebalanceService
from flightlog.store.errors import InconsistentGroupError
from flightlog.tests.support import inside, killed_in_order

if TYPE_CHECKING:
    from flightlog.consume.store import Store
    from flightlog.tests.conftest import Scale

LIMIT_S = 240.0
STEPS = ("put", *("poll",) * 3, *("end",) * 2, "wait", "balance", "join", "leave", "late", "pause")
AT_ONCE = BackOff(0.0, 0.0)
Opened = Callable[[], "Store"]


class World:
    """A store whose time stands still, and whose rounds come when they are called for."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.now_s = store, 1_000.0
        monkeypatch.setattr(inside.clock(store), "monotonic_s", lambda: self.now_s)
        monkeypatch.setattr(RebalanceService, "start", lambda service: None)

    def join(self) -> Subscription:
        return self.store.subscribe("orders", "g", ordered=True)

    def balance(self) -> None:
        """A round, and the chores, as far as they are due."""
        inside.rebalance_due(self.store)


@pytest.fixture
def world(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> World:
    store = opened()
    return World(store, monkeypatch)


def put(store: Store, count: int, queues: int = 1) -> None:
    for number in range(count):
        store.put(Message("orders", b"%d" % number, queue_id=number % queues))


def bodies(messages: list[ReceivedMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def one(subscription: Subscription) -> ReceivedMessage:
    [message] = subscription.poll()
    return message


def test_the_next_comes_once_the_one_before_was_acknowledged(world: World) -> None:
    put(world.store, 6, queues=2)
    member = world.join()
    first, other = one(member), one(member)
    assert [first.queue_id, other.queue_id] == [0, 1] and not member.poll()
    assert other.ack() and one(member).body == b"3" and not member.poll()
    assert first.ack()
    batch = member.poll(5)
    assert bodies(batch) == [2, 4] and not member.poll(), "as many as there are"
    assert batch[1].ack() and not member.poll(), "not before the whole batch is"
    assert batch[0].ack() and not batch[0].ack()
    assert world.store.group_offsets("g", "orders") == {0: 3, 1: 1, 2: 0, 3: 0}


def test_what_failed_blocks_its_queue_and_comes_before_all_others(world: World) -> None:
    put(world.store, 8, queues=2)
    member = world.join()
    batch = member.poll(3)
    assert bodies(batch) == [0, 2, 4] and batch[1].ack()
    assert batch[2].retry_later(1.0) and bodies(member.poll(9)) == [1, 3, 5, 7]
    assert batch[0].retry_later(1.0) and not member.poll(9), "for a second"
    world.now_s += 1
    again = member.poll(2)
    assert bodies(again) == [0, 4], "what was acknowledged comes no more"
    assert [message.attempt for message in again] == [2, 2]
    assert all(message.ack() for message in again) and bodies(member.poll(9)) == [6]


def test_a_queue_moves_once_what_is_at_work_has_ended(world: World) -> None:
    put(world.store, 40, queues=4)
    left = world.join()
    batches = [left.poll(2) for _ in range(4)]
    right = world.join()
    assert len(left.queues) == 4 and not right.queues and not left.poll() and not right.poll()
    for batch in batches:
        batch[0].ack()
    world.balance()
    assert not right.queues, "half a batch is at work"
    for batch in batches:
        assert batch[1].ack(), "it still counts"
    world.balance()
    assert [len(left.queues), len(right.queues)] == [2, 2]
    for member in (left, right):
        assert [message.queue_offset for _ in range(2) for message in member.poll(1)] == [2, 2]


@pytest.mark.parametrize("when", range(5))
def test_a_queue_is_not_taken_from_a_thread_that_polls_meanwhile(world: World, when: int) -> None:
    world.store.put(Message("orders", b"0", queue_id=3))
    left = world.join()
    polled: list[ReceivedMessage] = []
    released = iter(range(when + 1))

    def poll() -> None:
        if next(released, None) == when:
            polled.extend(left.poll())

    inside.on_lock_release(left, poll)
    right = world.join()
    world.now_s += 1
    polled += right.poll()
    assert [message.ack() for message in polled] == [True], "by one of them"


def test_a_queue_that_a_round_wanted_and_does_not_want_any_more_goes_on(world: World) -> None:
    put(world.store, 40, queues=4)
    left = world.join()
    batches = [left.poll(1) for _ in range(4)]
    right = world.join()
    right.close()
    for [message] in batches:
        assert message.ack()
    world.balance()
    assert len(left.queues) == 4
    world.now_s += 2
    assert [message.queue_offset for _ in range(4) for message in left.poll(1)] == [1] * 4


def test_a_member_that_leaves_with_a_message_at_work_keeps_its_queue_until_that_has_ended(world: World) -> None:
    put(world.store, 3)
    left, right = world.join(), world.join()
    owner, other = (left, right) if left.queues[0].queue_id == 0 else (right, left)
    held = one(owner)
    owner.close()
    assert len(other.queues) == 4 and not other.poll()
    world.now_s += 20
    world.balance()
    assert not other.poll()
    assert not held.ack(), "the other one will have it again"
    world.now_s += 1
    assert bodies(other.poll(9)) == [0, 1, 2]


def test_a_lock_that_has_expired_lets_another_member_go_on(world: World) -> None:
    put(world.store, 3)
    left, right = world.join(), world.join()
    owner, other = (left, right) if left.queues[0].queue_id == 0 else (right, left)
    held = one(owner)
    owner.close()
    assert not other.poll()
    world.now_s += EXPIRY_S - 0.5
    world.balance()
    assert not other.poll()
    world.now_s += 0.5 + 1
    again = one(other)
    assert again.body == b"0"
    assert not held.ack() and not held.retry_later(0) and not other.poll(), "the late one changes nothing"
    assert again.ack() and one(other).body == b"1"


def test_a_listener_that_takes_its_time_keeps_its_lock(world: World) -> None:
    put(world.store, 3)
    member = world.join()
    held = one(member)
    for _ in range(10):
        world.now_s += RENEW_INTERVAL_S
        world.balance()
    later = world.join()
    world.balance()
    assert held.queue in member.queues and held.queue not in later.queues
    assert held.ack()


def test_a_seek_waits_for_what_is_at_work(world: World) -> None:
    put(world.store, 4)
    member = world.join()
    held = one(member)
    member.seek(held.queue, 2)
    assert not member.poll()
    assert not held.ack() and bodies(member.poll(9)) == [2, 3]


def test_members_in_order_and_others_do_not_mix(world: World) -> None:
    members = [world.join()]
    with pytest.raises(InconsistentGroupError, match="in order"):
        world.store.subscribe("orders", "g")
    members.append(world.store.subscribe("orders", "h"))
    with pytest.raises(InconsistentGroupError, match="in any order"):
        world.store.subscribe("orders", "h", ordered=True)


class History:
    """What was handed out and acknowledged, held against what may be."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done: dict[MessageQueue, int] = defaultdict(int)
        """The lowest queue offset without an acknowledgement that counts."""
        self.at_work: dict[MessageQueue, list[ReceivedMessage]] = {}
        self.left_at_s: dict[MessageQueue, float] = {}
        """When the member left that has them at work."""
        self.late: list[ReceivedMessage] = []
        """Still at work somewhere, with the lock expired."""

    def take(self, batch: list[ReceivedMessage]) -> None:
        if batch:
            queue = batch[0].queue
            if queue in self.at_work:
                gone_s = self.world.now_s - self.left_at_s.pop(queue, self.world.now_s)
                assert gone_s > EXPIRY_S - 2 * RENEW_INTERVAL_S, "two have messages of one queue"
                self.late += self.at_work.pop(queue)
            offsets = [message.queue_offset for message in batch]
            assert offsets == [*range(self.done[queue], self.done[queue] + len(batch))], "something was overtaken"
            self.at_work[queue] = batch

    def end(self, queue: MessageQueue, count: int, delay_s: float) -> None:
        """The listener worked off so many, and failed at the next, if there is one."""
        batch = self.at_work.pop(queue)
        self.left_at_s.pop(queue, None)
        for message in batch[:count]:
            if message.ack():
                assert message.queue_offset == self.done[queue]
                self.done[queue] += 1
        for message in batch[count:]:
            message.retry_later(delay_s)


@pytest.mark.parametrize("number", range(8))
def test_random_lives_stay_in_order(world: World, scale: Scale, number: int) -> None:
    rng = random.Random(f"{os.environ['FLIGHTLOG_SEED']}-{number}")
    history, members, ends = History(world), [world.join()], 0
    for _ in range(scale.pick(ci=400, full=5_000)):
        match rng.choice(STEPS):
            case "put":
                for _ in range(rng.randint(1, 8)):
                    world.store.put(Message("orders", b"x", queue_id=rng.randrange(4)))
                    ends += 1
            case "poll" if members:
                history.take(rng.choice(members).poll(rng.randint(1, 4)))
            case "end" if history.at_work:
                queue = rng.choice(sorted(history.at_work))
                history.end(queue, rng.randint(0, len(history.at_work[queue])), rng.choice((0.0, 1.0, 5.0)))
            case "wait":
                world.now_s += rng.choice((0.1, 1.0, 20.0))
                world.balance()  # it renews the locks of those that are there
            case "balance":
                world.balance()
            case "join" if len(members) < 5:
                members.append(world.join())
            case "leave" if members:
                leaver = members.pop(rng.randrange(len(members)))
                for queue in history.at_work.keys() & {*leaver.queues}:
                    history.left_at_s.setdefault(queue, world.now_s)
                leaver.close()
            case "late" if history.late:
                message = history.late.pop(rng.randrange(len(history.late)))
                assert not (message.ack() if rng.random() < 0.5 else message.retry_later(0))
            case "pause" if members:
                member = rng.choice(members)
                member.pause()
                member.resume()
    for queue in list(history.at_work):
        history.end(queue, 0, 0.0)
    members = members or [world.join()]
    for _ in range(20 * ends + 100):
        world.now_s += 1
        world.balance()
        for member in members:
            history.take(member.poll(4))
        for queue in list(history.at_work):
            history.end(queue, len(history.at_work[queue]), 0.0)
        if sum(history.done.values()) == ends:
            break
    assert sum(history.done.values()) == ends, "every message was acknowledged, each once"


def test_consumers_that_come_and_go_and_fail_keep_the_order(opened: Opened) -> None:
    store = opened()
    rng = random.Random(int(os.environ["FLIGHTLOG_SEED"]))
    count, queues = 400, 4
    lock = threading.Lock()
    worked_off: dict[int, list[int]] = defaultdict(list)
    at_work: set[int] = set()
    wrong: list[str] = []
    failing = {(rng.randrange(queues), rng.randrange(count // queues)) for _ in range(60)}
    all_there = threading.Event()

    def listener(batch: list[ReceivedMessage]) -> None:
        queue_id = batch[0].queue_id
        with lock:
            if queue_id in at_work:
                wrong.append(f"two threads in queue {queue_id}")
            at_work.add(queue_id)
        try:
            for message in batch:
                if (queue_id, message.queue_offset) in failing and message.attempt == 1:
                    raise ValueError("as it may happen")
                with lock:
                    worked_off[queue_id].append(message.queue_offset)
                    if all(len(set(worked_off[each])) == count // queues for each in range(queues)):
                        all_there.set()
        finally:
            with lock:
                at_work.discard(queue_id)

    def consumer() -> Consumer:
        return Consumer(store, "orders", "g", listener, ordered=True, threads=3, batch_size=2, back_off=AT_ONCE).start()

    members = [consumer()]
    for number in range(count):
        store.put(Message("orders", b"%d" % number, queue_id=number % queues))
        if number % 40 == 20:
            members.append(consumer())
        if number % 40 == 39:
            assert members.pop(rng.randrange(len(members))).close()
    members.append(consumer())
    assert all_there.wait(LIMIT_S)
    for member in members:
        assert member.close()
    assert not wrong
    for queue_id in range(queues):
        assert_in_order(worked_off[queue_id])
    assert store.group_offsets("g", "orders") == dict.fromkeys(range(queues), count // queues)


def assert_in_order(offsets: list[int]) -> None:
    """Some may come again, with those behind them; none comes before one that is below it."""
    highest = -1
    for before, offset in zip([-1, *offsets], offsets, strict=False):
        assert offset <= before + 1, f"{offset} after {before}"
        highest = max(highest, offset)
    assert {*offsets} == {*range(highest + 1)}


def test_ordered_stays_ordered_after_kills(tmp_path: Path) -> None:
    path = tmp_path / "store"
    lives = [killed_in_order.killed(path, after=after) for after in (40, 90, 60)]
    for queue_id in range(4):
        offsets = [[offset for told, offset in life if told == queue_id] for life in lives]
        for life in offsets:
            whole = range(min(life, default=0), max(life, default=-1) + 1)
            assert life == [*whole], "none twice in one life, and none overtaken"
        assert_in_order([offset for life in offsets for offset in life])
    with flightlog.open(path, StoreSettings.small()) as store:
        said = {place for life in lives for place in life}
        for queue_id, offset in store.group_offsets("g", "orders").items():
            assert {(queue_id, place) for place in range(offset)} <= said
    with flightlog.open_read_only(path) as view:
        assert view.verify().is_clean
