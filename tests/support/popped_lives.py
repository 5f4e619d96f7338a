"""Random lives of a group that receives: puts, receives, acks, changes, time, closes, kills, power cuts, and crashes
between the steps of a call. What may be received when follows from what was answered."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flightlog import FlushMode, Message, PopHandle, Store, StoreSettings
from flightlog.consume.pop.pop_errors import ExpiredHandleError
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore

QUEUES = 2
INVISIBLE_MS = (3_000, 10_000, 30_000)
SETTLE_MS = 40_000


class Crashed(Exception):
    """The process ends here."""


@dataclass
class Fate:
    """What is known of one message."""

    is_acked: bool = False
    may_be_acked: bool = False
    """A crash came in the middle of its ack."""
    may_repeat: bool = False
    """A crash came in the middle of a change: both of its check points may bring it back."""
    invisible_until_ms: int = 0
    attempts: int = 0
    """Deliveries that were answered, and those that a crash hid."""
    hidden: int = 0
    """How many of `attempts` may not have happened."""
    handle: PopHandle | None = None


@dataclass
class PoppedLives:
    """One seed, one history."""

    root: Path
    seed: int
    fates: dict[int, Fate] = field(default_factory=dict)
    settings: StoreSettings = field(
        default_factory=lambda: StoreSettings.small(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000)
    )

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.disk = PowerDisk(self.root)
        self.popped = PoppedStore(self.root, settings=self.settings, disk=self.disk)
        self.popped.store.create_topic("orders", QUEUES)

    def live(self, steps: int) -> None:
        self.act(steps)
        self.settle()

    def act(self, steps: int) -> None:
        actions = (
            *(self.put, self.receive, self.receive, self.ack, self.ack, self.change, self.pass_time, self.pass_time),
            *(self.close, self.kill, self.cut, self.crash),
        )
        for _ in range(steps):
            self.dice.choice(actions)()

    # -- what is done

    def put(self) -> None:
        for _ in range(self.dice.randrange(1, 6)):
            number = len(self.fates)
            queue_id = self.dice.randrange(QUEUES)
            self.popped.store.put(Message("orders", b"%d" % number, queue_id=queue_id))
            self.fates[number] = Fate()

    def receive(self) -> list[int]:
        now_ms = self.popped.clock.at_ms
        messages = self.popped.receive(self.dice.randrange(1, 9), invisible_ms=self.dice.choice(INVISIBLE_MS))
        for each in messages:
            fate = self.fates[int(each.body)]
            if not fate.may_repeat:
                assert not fate.is_acked, f"{each.body!r} comes though it was acknowledged"
                assert now_ms >= fate.invisible_until_ms, f"{each.body!r} comes while it is invisible"
                expected = range(fate.attempts + 1 - fate.hidden, fate.attempts + 2)
                assert each.attempt in expected, f"{each.body!r}: attempt {each.attempt}, expected {expected}"
            fate.attempts, fate.hidden = each.attempt, 0
            fate.invisible_until_ms, fate.handle = each.invisible_until_ms, each.handle
        return [int(each.body) for each in messages]

    def _held(self) -> Iterator[tuple[Fate, PopHandle]]:
        """Messages with a handle, expired ones too."""
        return ((fate, fate.handle) for fate in self.fates.values() if fate.handle is not None and not fate.is_acked)

    def ack(self) -> None:
        held = list(self._held())
        for fate, handle in self.dice.sample(held, min(len(held), self.dice.randrange(1, 4))):
            try:
                self.popped.store.ack(handle)
            except ExpiredHandleError:
                assert fate.invisible_until_ms <= self.popped.clock.at_ms
                fate.handle = None
            else:
                assert fate.invisible_until_ms > self.popped.clock.at_ms
                fate.is_acked = True

    def change(self) -> None:
        for fate, handle in list(self._held())[:1]:
            invisible_ms = self.dice.choice(INVISIBLE_MS)
            try:
                fate.handle = self.popped.store.change_invisible(handle, invisible_ms)
            except ExpiredHandleError:
                fate.handle = None
            else:
                fate.invisible_until_ms = self.popped.clock.at_ms + invisible_ms

    def pass_time(self) -> None:
        self.popped.pass_time(self.dice.choice((1_000, 4_000, 12_000)))

    # -- how lives end

    def close(self) -> None:
        self.popped.reopen()

    def kill(self) -> None:
        self.popped.reopen(killed=True)

    def cut(self) -> None:
        self.popped.kill()
        self.disk.cut(self.dice)
        self.popped.open()

    def crash(self) -> None:
        """End the life between two steps of a call, by kill or power cut."""
        call = self.dice.choice((self.receive, self.ack, self.change, self.pass_time))
        before = {number: (fate.handle, fate.is_acked) for number, fate in self.fates.items()}
        with crashing(self.popped.store, self.dice.randrange(6)) as has_crashed, suppress(Crashed):
            call()
        if has_crashed():
            self._forget(call, before)
        self.dice.choice((self.kill, self.cut))()

    def _forget(self, call: Callable[[], Any], before: dict[int, tuple[PopHandle | None, bool]]) -> None:
        """What is not known after a crash in the middle of this call."""
        for number, fate in self.fates.items():
            fate.handle, was_acked = before[number]
            if call == self.receive:
                fate.attempts, fate.hidden = fate.attempts + 1, fate.hidden + 1
            elif call == self.ack:
                fate.may_be_acked = fate.may_be_acked or (fate.handle is not None and not was_acked)
                fate.may_repeat = fate.may_repeat or fate.may_be_acked
            elif call == self.change and not fate.is_acked:
                fate.may_repeat = True

    # -- what must be so in the end

    def settle(self) -> None:
        """Everything that was not acknowledged comes again, once in the end."""
        self.popped.pass_time(SETTLE_MS)
        came: list[int] = []
        while messages := self.popped.receive(invisible_ms=3_600_000):
            came += [int(each.body) for each in messages]
            self.popped.store.ack(*(each.handle for each in messages))
        self.popped.pass_time(SETTLE_MS)
        assert self.popped.receive() == []
        must = {number for number, fate in self.fates.items() if not fate.is_acked and not fate.may_be_acked}
        assert must <= set(came), f"lost: {sorted(must - set(came))}"
        once = [number for number in came if not self.fates[number].may_repeat]
        assert len(once) == len(set(once)), "some came twice"
        wrong = [number for number in once if self.fates[number].is_acked]
        assert not wrong, f"acknowledged, and come: {wrong}"
        self.popped.store.close()


@contextmanager
def crashing(store: Store, steps: int) -> Iterator[Callable[[], bool]]:
    """After so many writes of the store or of offsets the next one ends the life."""
    engine = inside.engine(store)
    left = [steps]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if left[0] <= 0:
                left[0] = -1
                raise Crashed
            left[0] -= 1
            return function(*arguments, **options)

        return call

    putter = engine.putter
    put, park = counted(engine.put), counted(putter.park_many)
    changed: list[tuple[Any, str, Callable[..., Any]]] = [
        (engine, "put", put),
        (engine, "put_many", lambda messages: [put(message) for message in messages]),
        (putter, "park_many", lambda messages: [result for message in messages for result in park([message])]),
        (engine.offsets, "save", counted(engine.offsets.save)),
        (engine.offsets, "set", counted(engine.offsets.set)),
    ]
    for owner, name, value in changed:
        setattr(owner, name, value)
    try:
        yield lambda: left[0] < 0
    finally:
        for owner, name, _ in changed:
            delattr(owner, name)
