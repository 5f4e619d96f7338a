"""Random lives of a group over two stores: members join, leave and die, stores come, go and are poisoned, queues are
added, strategies fail, notices are lost. Another group on the same thread goes on, whatever happens. At every moment a
queue has one owner at most, nothing is delivered twice by one owner nor after it was committed; and once it has
settled, every queue has exactly one live owner, and no message was lost."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from flightlog.consume.allocate.allocate import AllocationStrategy, Averagely, AveragelyByCircle, allocate
from flightlog.consume.allocate.consistent_hash import ConsistentHash
from flightlog.consume.allocate.extra_strategies import AllTopics, Designated, WhenGone
from flightlog.consume.deliver.process_queue import ProcessQueue
from flightlog.consume.group.group import Group
from flightlog.consume.group.rebalance import INTERVAL_S, UNBALANCED_INTERVAL_S, RebalanceService
from flightlog.store.message_queue import MessageQueue
from flightlog.tests.support.clocks import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

STEPS = 40
TOPICS = ("orders", "payments")
ROUNDS_TO_SETTLE = 4
SOME_MEMBERS = frozenset(f"m{number}-{made}" for number in range(0, 10, 2) for made in range(1, 20))
STRATEGIES: tuple[AllocationStrategy, ...] = (
    *(Averagely(), AveragelyByCircle(), ConsistentHash(), AllTopics(), AllTopics(AveragelyByCircle())),
    *(Designated(SOME_MEMBERS, WhenGone.EVERYBODY), AllTopics(Designated(SOME_MEMBERS, WhenGone.EVERYBODY))),
)


class LossyService(RebalanceService):
    """Notices go astray while it is told so."""

    loses = False

    def notify(self, group: Group) -> None:
        if not self.loses:
            super().notify(group)


@dataclass
class Moody:
    """A strategy that fails while it is told so."""

    inner: AllocationStrategy
    fails: bool = False

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def spans_topics(self) -> bool:
        return isinstance(self.inner, AllTopics)

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        if self.fails:
            raise ZeroDivisionError("as any code may")
        return self.inner.allocate(group, member, queues, members)


@dataclass(eq=False)
class Source:
    name: str
    counts: dict[str, int]
    is_usable: bool = True

    def queue_ids(self, topic: str) -> Sequence[int]:
        return range(self.counts.get(topic, 0))


@dataclass(eq=False)
class Reader:
    """A member that delivers and acknowledges when it is told to."""

    world: World
    name: str
    strategy: AllocationStrategy
    is_alive: bool = True
    is_busy: bool = False
    breaks: bool = False
    has: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)

    def assign(self, queue: MessageQueue) -> None:
        if self.breaks:
            raise RuntimeError("no thread to be had")
        owners = [each.name for each in self.world.readers if each.is_alive and queue in each.has]
        assert not owners, f"{queue} has an owner: {owners}"
        self.has[queue] = ProcessQueue(self.world.committed[queue])

    def revoke(self, queue: MessageQueue) -> bool:
        if self.breaks:
            raise RuntimeError("the disk is full")
        if self.is_busy:
            return False
        for offset in self.has.pop(queue).drop():
            self.world.returned[queue, offset] += 1
        return True

    def end(self) -> None:
        """What it has at work is nobody's."""
        self.is_alive = False
        for queue, has in self.has.items():
            for offset in has.drop():
                self.world.returned[queue, offset] += 1
        self.has.clear()


@dataclass(eq=False)
class Onlooker:
    """The member of the other group: with whom nothing ever fails."""

    name = "onlooker"
    strategy = Averagely()
    is_alive = True
    has: set[MessageQueue] = field(default_factory=set)

    def assign(self, queue: MessageQueue) -> None:
        assert queue not in self.has
        self.has.add(queue)

    def revoke(self, queue: MessageQueue) -> bool:
        self.has.remove(queue)
        return True


class World:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.clock = rng, HeldClock()
        self.service = LossyService(self.clock)
        self.moody = Moody(rng.choice(STRATEGIES))
        self.group = self.service.group("g", {"orders": "*"})
        self.sources = [Source(name, {topic: rng.randint(1, 4) for topic in TOPICS}) for name in ("a", "b")]
        self.readers: list[Reader] = []
        self.made = 0
        self.ends: Counter[MessageQueue] = Counter()
        self.committed: Counter[MessageQueue] = Counter()
        self.delivered: Counter[tuple[MessageQueue, int]] = Counter()
        self.acked: set[tuple[MessageQueue, int]] = set()
        self.returned: Counter[tuple[MessageQueue, int]] = Counter()
        self.reread: set[tuple[MessageQueue, int]] = set()
        self.other, self.onlooker = self.service.group("h", {"orders": "*"}), Onlooker()
        self.other.join(self.onlooker, {"orders": "*"})
        for source in self.sources:
            self.group.add_source(source)
            self.other.add_source(source)

    # -- what may happen

    def join(self) -> None:
        self.made += 1
        reader = Reader(self, f"m{self.rng.randrange(10)}-{self.made}", self.moody)
        self.group.join(reader, self.group.subscription)
        self.readers.append(reader)

    def leave(self) -> None:
        if reader := self.some_reader():
            reader.end()
            self.group.leave(reader)

    def die(self) -> None:
        if reader := self.some_reader():
            reader.end()
            if self.rng.random() < 0.5:
                self.service.notify(self.group)

    def be_busy(self) -> None:
        if reader := self.some_reader():
            reader.is_busy = not reader.is_busy

    def break_or_mend(self) -> None:
        if reader := self.some_reader():
            reader.breaks = not reader.breaks

    def change_mood(self) -> None:
        self.moody.fails = not self.moody.fails

    def add_queues(self) -> None:
        source = self.rng.choice(self.sources)
        topic = self.rng.choice(TOPICS)
        source.counts[topic] = min(source.counts[topic] + self.rng.randint(1, 3), 8)
        self.notify_all()

    def notify_all(self) -> None:
        self.service.notify(self.group)
        self.service.notify(self.other)

    def subscribe(self) -> None:
        topics = self.rng.sample(TOPICS, self.rng.randint(1, 2))
        self.group.change_subscription(dict.fromkeys(topics, "*"))

    def poison_or_open(self) -> None:
        source = self.rng.choice(self.sources)
        source.is_usable = not source.is_usable
        self.notify_all()

    def close_and_open(self) -> None:
        place = self.rng.randrange(len(self.sources))
        old = self.sources[place]
        self.sources[place] = Source(old.name, old.counts)
        for group in (self.group, self.other):
            group.remove_source(old)
            group.add_source(self.sources[place])

    def lose_or_find(self) -> None:
        self.service.loses = not self.service.loses

    def wait(self) -> None:
        self.clock.now_s += self.rng.choice((0.1, UNBALANCED_INTERVAL_S, INTERVAL_S))

    def run(self) -> None:
        if (done := self.service.run_due().get(self.other)) is not None:
            assert done.is_balanced and not done.failures, "what one group's strategy does is no other group's"

    def put(self) -> None:
        source = self.rng.choice(self.sources)
        topic = self.rng.choice(TOPICS)
        self.ends[MessageQueue(topic, source.name, self.rng.randrange(source.counts[topic]))] += self.rng.randint(1, 3)

    def deliver(self) -> None:
        if (reader := self.some_reader()) and reader.has:
            queue = self.rng.choice(sorted(reader.has))
            self.pull(reader, queue, self.rng.randint(1, 3))

    def acknowledge(self) -> None:
        if (reader := self.some_reader()) and reader.has:
            queue = self.rng.choice(sorted(reader.has))
            if at_work := reader.has[queue].at_work():
                self.ack(reader, queue, self.rng.choice(at_work))

    # -- how

    def some_reader(self) -> Reader | None:
        alive = [reader for reader in self.readers if reader.is_alive]
        return self.rng.choice(alive) if alive else None

    def pull(self, reader: Reader, queue: MessageQueue, count: int) -> None:
        has = reader.has[queue]
        for offset in range(has.position, min(has.position + count, self.ends[queue])):
            name = queue, offset
            assert offset >= self.committed[queue], "what was committed comes no more"
            again = self.delivered[name] - self.returned[name]
            assert not again or name in self.acked, f"{name} is at work, and nobody gave it back"
            if name in self.acked:  # above one that was open when the queue went to somebody else
                self.reread.add(name)
            has.deliver(offset, 1)
            self.delivered[name] += 1

    def ack(self, reader: Reader, queue: MessageQueue, offset: int) -> None:
        assert reader.has[queue].ack(offset)
        self.acked.add((queue, offset))
        self.committed[queue] = reader.has[queue].commit_offset

    def check(self) -> None:
        alive = [reader for reader in self.readers if reader.is_alive]
        owners = Counter(queue for reader in alive for queue in reader.has)
        assert not owners or max(owners.values()) == 1
        for queue, committed in self.committed.items():
            assert all((queue, offset) in self.acked for offset in range(committed)), "committed ahead of its acks"

    # -- the end

    def settle(self) -> None:
        for reader in self.readers:
            reader.is_busy = reader.breaks = False
        self.moody.fails = self.service.loses = False
        if not self.some_reader():
            self.join()
        for _ in range(ROUNDS_TO_SETTLE):  # the timer alone: all that happened may have been lost
            self.clock.now_s += INTERVAL_S
            done = self.service.run_due()
        assert done[self.group].is_balanced and not done[self.group].failures
        alive = [reader for reader in self.readers if reader.is_alive]
        there = [
            MessageQueue(topic, source.name, queue_id)
            for source in self.sources
            if source.is_usable
            for topic in self.group.subscription
            for queue_id in source.queue_ids(topic)
        ]
        assert Counter(queue for reader in alive for queue in reader.has) == Counter(there), "one live owner each"
        names = [reader.name for reader in alive]
        for reader in alive:
            own: set[MessageQueue] = set()
            for topics in [TOPICS] if self.moody.spans_topics else [(topic,) for topic in TOPICS]:
                of_topics = [queue for queue in there if queue.topic in topics]
                own |= set(allocate(self.moody, "g", reader.name, of_topics, names))
            assert set(reader.has) == own == self.group.queues_of(reader.name)
        assert self.onlooker.has == {
            MessageQueue("orders", source.name, queue_id)
            for source in self.sources
            if source.is_usable
            for queue_id in source.queue_ids("orders")
        }
        for reader in alive:
            for queue in sorted(reader.has):
                self.pull(reader, queue, self.ends[queue])
                for offset in reader.has[queue].at_work():
                    self.ack(reader, queue, offset)
        for queue in there:
            lost = [offset for offset in range(self.ends[queue]) if (queue, offset) not in self.acked]
            assert not lost and self.committed[queue] == self.ends[queue]


HAPPENINGS = (
    *(World.join, World.join, World.leave, World.die, World.be_busy, World.break_or_mend, World.change_mood),
    *(World.add_queues, World.subscribe, World.poison_or_open, World.close_and_open, World.lose_or_find, World.wait),
    *[World.run] * 6,
    *[World.put] * 8,
    *[World.deliver] * 8,
    *[World.acknowledge] * 8,
)


def test_every_life_settles_and_nothing_is_lost(scale: Scale) -> None:
    seed = int(os.environ["FLIGHTLOG_SEED"])
    delivered = reread = returned = 0
    for number in range(scale.pick(ci=2_000, full=50_000)):
        world = World(random.Random(seed * 1_000_003 + number))
        history: list[str] = []
        try:
            for _ in range(STEPS):
                happening = world.rng.choice(HAPPENINGS)
                history.append(happening.__name__)
                happening(world)
                world.check()
            world.settle()
            world.check()
        except AssertionError as e:
            raise AssertionError(f"history {number}: {e}\n{' '.join(history)}") from e
        delivered += world.delivered.total()
        reread += len(world.reread)
        returned += world.returned.total()
    assert min(delivered, reread, returned) > 0, "the histories are rich enough to repeat messages"


def test_one_groups_strategy_fails_and_the_other_group_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    world = World(random.Random(1))
    world.moody.fails = True
    world.join()
    other = world.service.group("h", {"orders": "*"})
    other.add_source(world.sources[0])
    strange = World(random.Random(2))
    reader = Reader(strange, "h1", Averagely())
    other.join(reader, {"orders": "*"})
    for _ in range(3):
        done = world.service.run_due()
        world.clock.now_s += UNBALANCED_INTERVAL_S
    assert not done[world.group].is_balanced and isinstance(done[world.group].failures[0], ZeroDivisionError)
    assert len(reader.has) == world.sources[0].counts["orders"] and not world.readers[0].has
    assert caplog.text.count("ZeroDivisionError") == 1, "it is told once"
    world.moody.fails = False
    assert world.service.run_due()[world.group].is_balanced and world.readers[0].has


def test_what_is_at_work_is_waited_for_a_second_at_a_time() -> None:
    world = World(random.Random(5))
    world.service.forget(world.other)
    world.sources[0].counts["orders"], world.sources[1].counts["orders"] = 1, 0
    world.moody.inner = Averagely()
    first, second = Reader(world, "b", world.moody, is_busy=True), Reader(world, "a", world.moody)
    world.group.join(first, {"orders": "*"})
    world.service.run_due()
    world.group.join(second, {"orders": "*"})
    assert not world.service.run_due()[world.group].is_balanced and not second.has
    assert world.service.next_due_s() == UNBALANCED_INTERVAL_S and not world.service.run_due()
    first.is_busy = False
    world.clock.now_s += UNBALANCED_INTERVAL_S
    world.service.run_due()
    assert second.has and not first.has and world.service.next_due_s() == INTERVAL_S
