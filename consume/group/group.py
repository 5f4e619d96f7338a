"""One consumer group inside one process: its members, the queues, and the owner of each.

Invariants:
- A queue has one owner at most (broadcasting: each member its own copy of every queue). It goes to the next one only
  after the old owner has released it, left, or died.
- A round never raises what a strategy, a store or a member raises: that part stays as it is, the failure is told, and
  the next round comes soon.
- Members agree on the strategy's name and on what is read, or the later one does not get in.

RocketMQ: `RebalanceImpl`, where each client works out its own part. Here all members are asked in one place, so two
never have the same queue, whatever they believe.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ...index.filter.wanted import Wanted
from ...store.errors import InconsistentGroupError, InvalidAllocationError, UsageError
from ...store.message_queue import MessageQueue
from ...store.topic import routable_queues
from ..allocate.allocate import AllocationStrategy, Sharing

log = logging.getLogger("flightlog.consume")

Subscription = Mapping[str, Wanted]
"""Topic -> tags (`*` for all), or a filter."""


class QueueSource(Protocol):
    """A store as a group sees it."""

    @property
    def name(self) -> str:
        """Among the stores of the group; RocketMQ's broker name."""

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and what is read there can be committed."""

    def queue_ids(self, topic: str) -> Sequence[int]:
        """The queues of a topic that consumers read; none where there is no such topic."""


class Member(Protocol):
    """Who reads. A round calls `assign` and `revoke`, one at a time, from whichever thread it runs in."""

    @property
    def name(self) -> str:
        """Its own in the group; RocketMQ's client id."""

    @property
    def strategy(self) -> AllocationStrategy: ...

    @property
    def is_alive(self) -> bool:
        """A member that is not any more is asked nothing: its queues go to the others."""

    def assign(self, queue: MessageQueue) -> None:
        """The queue is this member's from now on."""

    def revoke(self, queue: MessageQueue) -> bool:
        """Deliver no more of it, and commit what was acknowledged. False: something is still at work that must end
        first, ask again."""


@dataclass(frozen=True)
class Change:
    """What a round did to one member's queues; RocketMQ's process-queue table has these outcomes."""

    member: str
    kept: frozenset[MessageQueue] = frozenset()
    added: frozenset[MessageQueue] = frozenset()
    dropped: frozenset[MessageQueue] = frozenset()


@dataclass
class Round:
    """What a round did."""

    changes: list[Change] = field(default_factory=list)
    """Changes of every member that is in the group now, or had queues before."""
    is_balanced: bool = True
    """Whether everybody has what is theirs; if not, the next round comes after a second."""
    failures: list[BaseException] = field(default_factory=list)


Listener = Callable[[Change], None]


class Group:
    """Thread-safe. `notify` is called whenever a round is due at once."""

    def __init__(
        self, name: str, subscription: Subscription, notify: Callable[[], None], *, is_broadcasting: bool = False
    ) -> None:
        if not name or not subscription:
            raise UsageError(f"group {name!r}, subscription {dict(subscription)!r}: expected a name and a topic")
        self.name, self.is_broadcasting = name, is_broadcasting
        self._notify = notify
        self._lock = threading.RLock()
        """Held for a whole round: who leaves waits for it, and is called no more afterwards."""
        self._subscription = dict(subscription)
        self._members: dict[str, Member] = {}
        self._sources: dict[str, QueueSource] = {}
        self._owned: dict[str, set[MessageQueue]] = {}
        """By member. A member that left or died has no entry."""
        self._seen: dict[tuple[str, str], int] = {}
        """How many queues each topic of each store had when it was last shared out."""
        self._listeners: list[Listener] = []
        self._told: set[str] = set()
        """Failures that were logged: once, however often they come again."""

    # -- who and what

    @property
    def members(self) -> list[str]:
        with self._lock:
            return sorted(self._members)

    @property
    def subscription(self) -> dict[str, Wanted]:
        with self._lock:
            return dict(self._subscription)

    def queues_of(self, member: str) -> set[MessageQueue]:
        """What a member has now."""
        with self._lock:
            return set(self._owned.get(member, ()))

    def join(self, member: Member, subscription: Subscription, *, is_broadcasting: bool = False) -> None:
        """Raises InconsistentGroupError if the member wants another strategy or subscription than those that are there,
        or has the name of one of them."""
        with self._lock:
            self._forget_the_dead()
            if member.name in self._members:
                raise InconsistentGroupError(self.name, f"a second member named {member.name!r}", "another name")
            self._check(member, subscription, is_broadcasting)
            self._members[member.name] = member
            self._owned[member.name] = set()
        self._notify()

    def _check(self, member: Member, subscription: Subscription, is_broadcasting: bool) -> None:
        def differ(what: str, own: object, others: object) -> InconsistentGroupError:
            return InconsistentGroupError(self.name, f"{member.name!r} with {what} {own!r}", f"{others!r}, as all have")

        if is_broadcasting is not self.is_broadcasting:
            raise differ("broadcasting", is_broadcasting, self.is_broadcasting)
        if not self._members:  # an empty group may change its subscription
            self._subscription = dict(subscription)
        elif dict(subscription) != self._subscription:
            raise differ("the subscription", dict(subscription), self._subscription)
        for other in self._members.values():
            if other.strategy.name != member.strategy.name:
                raise differ("the strategy", member.strategy.name, other.strategy.name)

    def leave(self, member: Member) -> None:
        """Its queues go to the others. What it has at work is delivered again by them; what it acknowledged is not."""
        with self._lock:
            if self._members.get(member.name) is member:
                del self._members[member.name], self._owned[member.name]
        self._notify()

    def change_subscription(self, subscription: Subscription) -> None:
        """For all members at once, so that they never differ."""
        if not subscription:
            raise UsageError(f"group {self.name!r}: a subscription needs a topic")
        with self._lock:
            self._subscription = dict(subscription)
        self._notify()

    def add_source(self, source: QueueSource) -> None:
        """A store was opened."""
        with self._lock:
            if self._sources.setdefault(source.name, source) is not source:
                raise InconsistentGroupError(self.name, f"a second store named {source.name!r}", "another name")
        self._notify()

    def remove_source(self, source: QueueSource) -> None:
        """A store is to be closed: its queues are dropped when this returns, unless something of them is at work that
        must end first; the rounds that follow see to that."""
        with self._lock:
            if self._sources.get(source.name) is source:
                del self._sources[source.name]
                self.rebalance()
        self._notify()

    def look_for_queues(self) -> bool:
        """Have a round if topics have other queues than they had in the last one. Returns whether there was one."""
        with self._lock:
            now = {
                (source.name, topic): len(source.queue_ids(topic))
                for source in self._sources.values()
                if source.is_usable
                for topic in self._subscription
            }
            is_same = now == self._seen
        if is_same:
            return False
        self.rebalance()
        self._notify()  # for what is not balanced yet
        return True

    def listen(self, listener: Listener) -> None:
        """Have this called after each round that added or dropped queues, once for each member concerned."""
        with self._lock:
            self._listeners.append(listener)

    def between_rounds(self) -> AbstractContextManager[object]:
        """No round is under way, and no member joins or leaves, during the block."""
        return self._lock

    # -- a round

    def rebalance(self) -> Round:
        """Reallocate the queues and move them. Raises nothing."""
        done = Round()
        with self._lock:
            before = {name: set(owned) for name, owned in self._owned.items()}
            self._forget_the_dead()
            wanted = self._wanted(done)
            for name, owned in self._owned.items():
                for queue in sorted(owned - wanted[name], key=lambda queue: queue.order):
                    self._drop(name, queue, done)
            held = set().union(*self._owned.values())
            for name, queues in wanted.items():
                for queue in sorted(queues - self._owned[name], key=lambda queue: queue.order):
                    self._add(name, queue, held, done)
            for name in sorted(before.keys() | self._owned.keys()):
                had, has = before.get(name, set()), self._owned.get(name, set())
                change = Change(name, frozenset(had & has), frozenset(has - had), frozenset(had - has))
                done.changes.append(change)
                if change.added or change.dropped:
                    self._tell(change, done)
            if done.is_balanced:
                self._told.clear()
        return done

    def _forget_the_dead(self) -> None:
        for name in [name for name, member in self._members.items() if not member.is_alive]:
            del self._members[name], self._owned[name]

    def _wanted(self, done: Round) -> dict[str, set[MessageQueue]]:
        """What each member is to have. Where that cannot be told, what it has."""
        wanted: dict[str, set[MessageQueue]] = {name: set() for name in self._members}
        self._seen.clear()
        for topics in self._topics_shared_together():
            try:
                shares = self._shares(topics)
            except Exception as e:  # a strategy is anybody's code, and other topics and groups go on
                self._fail(done, f"the queues of {', '.join(topics)} stay where they are", e)
                usable = {name for name, source in self._sources.items() if source.is_usable}
                shares = {
                    name: {queue for queue in owned if queue.topic in topics and queue.broker_name in usable}
                    for name, owned in self._owned.items()
                }
            for name, share in shares.items():
                wanted[name] |= share
        return wanted

    def _topics_shared_together(self) -> list[list[str]]:
        """Each for itself, as RocketMQ does, unless the strategy says otherwise; members agree on it."""
        topics = list(self._subscription)
        spans = any(getattr(member.strategy, "spans_topics", False) for member in self._members.values())
        return [topics] if spans else [[topic] for topic in topics]

    def _shares(self, topics: Sequence[str]) -> dict[str, set[MessageQueue]]:
        queues: list[MessageQueue] = []
        for source in self._sources.values():
            for topic in topics if source.is_usable else ():
                found = source.queue_ids(topic)
                self._seen[source.name, topic] = len(found)
                routable = routable_queues(source.name, topic, len(found), "read_queue_count")
                queues += (MessageQueue(topic, source.name, queue_id) for queue_id in routable)
        if self.is_broadcasting:
            return {name: set(queues) for name in self._members}
        sharing = Sharing(self.name, queues, self._members)
        shares: dict[str, set[MessageQueue]] = {}
        owner_of: dict[MessageQueue, str] = {}
        for name, member in self._members.items():
            shares[name] = set(sharing.part_of(name, member.strategy))
            for queue in shares[name]:
                if queue in owner_of:
                    raise InvalidAllocationError(
                        f"group {self.name!r}: the strategy {member.strategy.name!r} gave {queue} to both "
                        f"{owner_of[queue]!r} and {name!r}"
                    )
                owner_of[queue] = name
        return shares

    def _drop(self, name: str, queue: MessageQueue, done: Round) -> None:
        try:
            is_released = self._members[name].revoke(queue)
        except Exception as e:  # it keeps the queue: it may still deliver messages
            self._fail(done, f"{name!r} keeps {queue}", e)
            return
        if is_released:
            self._owned[name].discard(queue)
        else:
            done.is_balanced = False

    def _add(self, name: str, queue: MessageQueue, held: set[MessageQueue], done: Round) -> None:
        """`held`: what any member has."""
        if not self.is_broadcasting and queue in held:
            done.is_balanced = False  # its old owner has not released it yet
            return
        try:
            self._members[name].assign(queue)
        except Exception as e:
            self._fail(done, f"{name!r} does not get {queue}", e)
            return
        self._owned[name].add(queue)
        held.add(queue)

    def _tell(self, change: Change, done: Round) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception as e:  # the queues have moved all the same
                self._fail(done, "a listener was told of a change and failed", e, is_balanced=True)

    def _fail(self, done: Round, what: str, why: BaseException, *, is_balanced: bool = False) -> None:
        done.failures.append(why)
        done.is_balanced = done.is_balanced and is_balanced
        text = f"{what}: {why!r}"
        if text not in self._told:
            self._told.add(text)
            log.warning("group %s: %s", self.name, text, extra={"group": self.name, "cause": repr(why)})
