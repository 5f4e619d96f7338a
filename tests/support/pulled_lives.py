"""Random lives of a group whose members pull: puts, receives, acks, failures, members that come and go, time, saves,
closes, kills, power cuts, and crashes between two changes of the disk. What may be received when follows from what was
answered."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import flightlog
from flightlog import FlushMode, Message, ReceivedMessage, Store, StoreSettings, Subscription
from flightlog.store.errors import FlightlogError
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

QUEUES = 3
MEMBERS = 4
MAX_ATTEMPTS = 3
NEVER_MS = 3_600_000
SETTINGS = StoreSettings.small(
    flush_mode=FlushMode.SYNC, flush_interval_ms=NEVER_MS, allocate_step_size=4096, prepare_ahead_size=0,
    delay_levels=" ".join(["1s"] * 18), accept_future_store_time=True, offset_save_interval_ms=NEVER_MS,
    rebalance_interval_ms=NEVER_MS, sync_flush_timeout_ms=240_000,
)  # fmt: skip


Place = tuple[str, int, int]
"""Topic, queue and offset that a message was received from."""


def place_of(message: ReceivedMessage) -> Place:
    return message.queue.topic, message.queue.queue_id, message.queue_offset


@dataclass
class PulledFate:
    """What is known of one message."""

    queue_id: int
    is_put: bool = False
    """Its put was answered. After a crash in the middle of a put the message may be there, or not."""
    is_done: bool = False
    """Its ack was answered. It may come again, if its queue's offset was not saved before a crash."""
    failures: int = 0
    """The highest attempt that it was sent back after, as answered: it is counted from then on."""
    durable: int = 0
    """The same, on the disk since the next flush: a power cut forgets no other."""
    failed_at: Place | None = None
    """Where the copy was that failed last."""
    may_fail: int = 0
    """Failures, whether answered or not, and lives that ended while a listener had it."""


@dataclass
class PulledLives:
    """One seed, one history."""

    root: Path
    seed: int
    is_ordered: bool = False
    fates: dict[int, PulledFate] = field(default_factory=dict)
    held: list[ReceivedMessage] = field(default_factory=list)
    in_hands: list[tuple[Subscription, ReceivedMessage]] = field(default_factory=list)
    members: list[Subscription] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)
    has_crashed: bool = False

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.has_listener = self.dice.random() < 0.5
        self.root.mkdir()
        self.disk = PowerDisk(self.root)
        self.store = self._opened()
        self.store.create_topic("orders", QUEUES)
        self.join()

    def live(self, steps: int) -> None:
        actions = (
            *(self.put, self.put, self.join, self.join, self.leave, self.save, *[self.pass_time] * 5),
            *(*[self.receive] * 8, *[self.ack] * 4, *[self.fail] * 6),
            *(self.close, self.kill, self.cut, self.crash, self.crash),
        )
        for _ in range(steps):
            self.dice.choice(actions)()
            self.check()
        self.settle()

    def _opened(self) -> Store:
        store = flightlog.open(self.root, SETTINGS, disk=self.disk, clock=self.clock)
        inside.delay_service(store).stop()
        inside.groups_without_thread(store)
        return store

    # -- what is done

    def put(self) -> None:
        for _ in range(self.dice.randrange(1, 5)):
            number, queue_id = len(self.fates), self.dice.randrange(QUEUES)
            self.fates[number] = PulledFate(queue_id)
            self.store.put(Message("orders", b"%d" % number, queue_id=queue_id))
            self.fates[number].is_put = True

    def join(self) -> None:
        if len(self.members) < MEMBERS:
            member = self.store.subscribe(
                *("orders", "g"),
                ordered=self.is_ordered,
                max_attempts=MAX_ATTEMPTS,
                on_dead_letter=lambda message: None,
            )
            member.has_listener = self.has_listener
            self.members.append(member)

    def leave(self) -> None:
        if self.members:
            self.members.pop(self.dice.randrange(len(self.members))).close()

    def receive(self) -> None:
        """A listener ends with each message before it has the next."""
        self.in_hands = [each for each in self.in_hands if each[1].is_at_work]
        busy = [member for member, _ in self.in_hands] if self.has_listener else []
        idle = [member for member in self.members if member not in busy]
        for member in self.dice.sample(idle, self.dice.randrange(len(idle) + 1)):
            message = member.receive(0)
            if message is not None:
                self._note(message)
                self.in_hands.append((member, message))

    def _note(self, message: ReceivedMessage) -> None:
        number = int(message.body)
        fate = self.fates[number]
        others = [other for other in self.held if other.is_at_work and other.body == message.body]
        is_copy = self._may_be_a_second_copy(message)
        assert is_copy or not others, f"{number} is handed out twice"
        assert place_of(message) not in map(place_of, others), f"{number} is handed out twice from one place"
        assert is_copy or number not in self._dead(), f"{number} comes though it is a dead letter"
        assert message.attempt <= MAX_ATTEMPTS
        self.held.append(message)
        if self.is_ordered:
            for before in range(number):
                earlier = self.fates[before]
                is_there = earlier.is_put and earlier.queue_id == fate.queue_id
                is_over = not is_there or earlier.is_done or self._is_dead(before)
                assert is_over, f"{number} comes before {before}"
        else:
            is_known = message.attempt > fate.failures or (
                is_copy and message.attempt == fate.failures and place_of(message) != fate.failed_at
            )
            assert is_known, f"{number}: attempt {message.attempt}, {fate}"
            assert message.attempt <= fate.may_fail + 1, f"{number}: attempt {message.attempt}, {fate}"

    def _is_dead(self, number: int) -> bool:
        """The dead letter of a message that a process died with is put by the receive that hands out the next one, and
        is read once it is synced."""
        if number in self._dead():
            return True
        self.store.flush()
        self._note_flushed()
        return number in self._dead()

    def _may_be_a_second_copy(self, message: ReceivedMessage) -> bool:
        """A crash may repeat the delivery of a message that was delayed, and so of one that was sent back. Both copies
        are handed out if they are read at once; one alone is sent back."""
        return self.has_crashed and message.attempt > 1 and message.queue.topic == "%RETRY%g"

    def ack(self) -> None:
        if self.held:
            message = self.held.pop(self.dice.randrange(len(self.held)))
            fate = self.fates[int(message.body)]
            was_at_work = message.is_at_work
            assert message.ack() == was_at_work
            fate.is_done = fate.is_done or was_at_work

    def fail(self) -> None:
        if self.held:
            message = self.held.pop(self.dice.randrange(len(self.held)))
            fate = self.fates[int(message.body)]
            fate.may_fail += 1
            if message.send_back():
                fate.failures, fate.failed_at = max(fate.failures, message.attempt), place_of(message)
            if self.dice.random() < 0.5:
                self.store.flush()
                self._note_flushed()

    def _note_flushed(self) -> None:
        for fate in self.fates.values():
            fate.durable = fate.failures

    def pass_time(self) -> None:
        self.advance(self.dice.choice((500, 1_000, 5_000)))

    def advance(self, ms: int) -> None:
        """What was sent back is synced by a thread, and can be delivered from then on."""
        self.store.flush()
        self._note_flushed()
        self.clock.advance(ms)
        while inside.delay_service(self.store).deadlines.run_due() == 0:
            pass

    def save(self) -> None:
        inside.group_offsets(self.store).save()

    # -- how lives end

    def close(self) -> None:
        self.store.close()
        self._note_flushed()
        self._begin()

    def kill(self) -> None:
        self._die()
        self.disk.kill()
        self._begin()

    def cut(self) -> None:
        self._die()
        self.disk.cut(self.dice)
        for fate in self.fates.values():
            fate.failures = fate.durable
            fate.may_fail += 1  # what is noted of one that comes alone is synced, and not that it is over
        self._begin()

    def crash(self) -> None:
        """End the life at a change of the disk in the middle of a call, by kill or power cut."""
        call = self.dice.choice(
            (self.put, self.receive, self.ack, self.fail, self.fail, self.save, self.pass_time, self.leave, self.join)
        )
        self.disk.die_after = self.dice.randrange(8)
        try:
            call()
        except (Died, FlightlogError):
            if call == self.receive and self.has_listener:  # whichever it was about to hand out
                for fate in self.fates.values():
                    fate.may_fail += 1
        self.dice.choice((self.kill, self.cut))()

    def _die(self) -> None:
        self.has_crashed = True
        for message in self.held:  # of a loop, too, if the message came alone
            self.fates[int(message.body)].may_fail += 1
        with suppress(Died):
            kill(self.store)

    def _begin(self) -> None:
        self.disk.die_after = None
        self.members.clear()
        self.held.clear()
        self.in_hands.clear()
        self.store = self._opened()
        self.join()

    # -- what must be so

    def _dead(self) -> Counter[int]:
        return Counter(int(letter.body) for letter in self.store.dead_letters("g"))

    def check(self) -> None:
        owned = [queue for member in self.members for queue in member.queues]
        assert len(owned) == len(set(owned)), "two members have one queue"
        assert all(count == 1 for count in self._dead().values()), f"dead letters that came twice: {self._dead()}"

    def settle(self) -> None:
        """All that is left comes, and is done."""
        while self.members:
            self.leave()
        self.held.clear()
        self.join()
        for _ in range(10 + 4 * len(self.fates)):
            while (message := self.members[0].receive(0)) is not None:
                self._note(message)
                self.ack()
            self.clock.advance(5_000)
            self.pass_time()
        self.check()
        dead = self._dead()
        lost = [
            number for number, fate in self.fates.items() if fate.is_put and not fate.is_done and number not in dead
        ]
        assert not lost, f"lost: {lost}"
        early = [number for number in dead if self.fates[number].may_fail < MAX_ATTEMPTS]
        assert not early, f"dead letters after too few attempts: {early}"
        assert not any(self.members[0].lag().values())
        self.store.close()
