"""Random lives of a group that receives in order: puts, receives with attempt ids, acks, changes, time, saves, flushes,
closes, kills, power cuts, and crashes: between the steps of a call, and at any change of the disk, also of an opening.

What must be so follows from what was answered. Of each queue only the first messages that are not acknowledged may
come, to one receiver at a time. A kill takes nothing of that back, and under sync flush no power cut does. Under async
flush a power cut leaves the calls whose records end before the end of the log, and of the next one it may leave some
records: so the model goes back to the last of these calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from flightlog import FlushMode, Message, PopHandle, StoreSettings
from flightlog.consume.pop.pop_errors import ExpiredHandleError
from flightlog.consume.pop.popped import words_of
from flightlog.store.errors import FlightlogError
from flightlog.testing import log_positions
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.popped_lives import Crashed, crashing
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

QUEUES = 2
MAX_ATTEMPTS = 2
INVISIBLE_MS = (3_000, 10_000, 30_000)
SETTLE_MS = 40_000
BOOT_MS = 1_000
"""How long a machine is down after a power cut, at least."""
NEVER_MS = 3_600_000


@dataclass
class OrderedFate:
    """What is known of one message."""

    queue_id: int
    attempts: int = 0
    """Deliveries that were answered, and those that a crash hid."""
    hidden: int = 0
    """How many of `attempts` may not have happened."""
    attempt_id: str = ""
    """Attempt id of the receive that returned it last."""
    handle: PopHandle | None = None
    """None also if a crash hid which handle counts."""
    invisible_until_ms: int = 0
    """It does not come before."""
    is_acked: bool = False
    may_be_acked: bool = False
    """A crash came in the middle of its ack."""
    is_dead: bool = False
    """Its dead letter was seen, or it was given up."""
    may_be_dead: bool = False
    """A crash came in the middle of its giving up."""


Fates = dict[int, OrderedFate]


@dataclass(frozen=True)
class Call:
    """What a call was about to do: unknown if the process dies in its middle."""

    name: str
    numbers: tuple[int, ...] = ()
    """The messages that it puts, acknowledges or changes."""
    attempt_id: str = ""
    invisible_until_ms: int = 0


@dataclass(frozen=True)
class Moment:
    """After a call was answered."""

    log_end: int
    call: Call
    fates: Fates
    strays: tuple[PopHandle, ...]


@dataclass
class OrderedLives:
    """One seed, one history."""

    root: Path
    seed: int
    mode: FlushMode
    fates: Fates = field(default_factory=dict)
    past: list[Moment] = field(default_factory=list)
    """Moments of this life; the first one is what its opening found."""
    durable_end: int = 0
    """A power cut leaves the log up to here."""
    strays: list[PopHandle] = field(default_factory=list)
    """Handles that must have no effect: their message was handed out again, or the power cut took their receive."""
    call: Call = Call("open")
    put_count: int = 0
    attempt_ids: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.disk = PowerDisk(self.root)
        settings = StoreSettings.small(
            flush_mode=self.mode, flush_interval_ms=NEVER_MS, allocate_step_size=4096, prepare_ahead_size=0,
            segment_size=65_536, sync_flush_timeout_ms=240_000,
        )  # fmt: skip
        self.popped = PoppedStore(self.root, settings=settings, disk=self.disk)
        self.popped.store.create_topic("orders", QUEUES)
        self.popped.store.update_group("g", is_ordered=True)
        self._note()

    def live(self, steps: int) -> None:
        actions = (
            *(*[self.put] * 3, *[self.receive] * 6, *[self.ack] * 5, *[self.change] * 2),
            *(self.give_up, self.ack_stray, *[self.pass_time] * 3, self.save, self.flush),
            *(self.close, self.kill, self.cut, *[self.crash] * 3),
        )
        for _ in range(steps):
            self.dice.choice(actions)()
        self.settle()

    def _note(self) -> None:
        """The call was answered."""
        self.past.append(Moment(self._log_end, self.call, _copy(self.fates), tuple(self.strays)))

    @property
    def _log_end(self) -> int:
        return log_positions(self.popped.store).appended

    # -- what is done

    def put(self) -> None:
        count = self.dice.randrange(1, 6)
        self.call = Call("put", tuple(range(self.put_count, self.put_count + count)))
        self.put_count += count
        for number in self.call.numbers:
            queue_id = self.dice.randrange(QUEUES)
            self.popped.store.put(Message("orders", b"%d" % number, queue_id=queue_id))
            self.fates[number] = OrderedFate(queue_id)
        self._note()

    def receive(self) -> None:
        """With a new attempt id, or with the last one once more."""
        self.attempt_ids += self.dice.randrange(3) > 0
        self._receive(self.dice.randrange(1, 9), self.dice.choice(INVISIBLE_MS))

    def _receive(self, max_count: int, invisible_ms: int) -> list[int]:
        attempt_id, now_ms = f"a-{self.attempt_ids}", self.popped.clock.at_ms
        self.call = Call("receive", attempt_id=attempt_id)
        messages = self.popped.receive(
            max_count, invisible_ms=invisible_ms, attempt_id=attempt_id, max_attempts=MAX_ATTEMPTS
        )
        self._note_dead(now_ms)
        came = numbers_of(messages)
        self._check_order(came, attempt_id, now_ms)
        for each in messages:
            number = int(each.body)
            fate = self.fates[number]
            is_repeat = fate.attempt_id == attempt_id
            assert not fate.is_acked, f"{number} comes though it was acknowledged"
            assert not fate.is_dead, f"{number} comes though it is a dead letter"
            assert is_repeat or now_ms >= fate.invisible_until_ms, f"{number} comes while it is invisible"
            possible = range(fate.attempts - fate.hidden + (not is_repeat), fate.attempts + (not is_repeat) + 1)
            assert each.attempt in possible, f"{number}: attempt {each.attempt}, expected one of {possible}: {fate}"
            assert each.attempt <= MAX_ATTEMPTS
            alone = [other for other in came if self.fates[other].queue_id == fate.queue_id] == [number]
            assert alone or each.attempt == 1, f"{number} comes again, and not alone: {came}"
        for each in messages:
            fate = self.fates[int(each.body)]
            self.strays += [fate.handle] if fate.handle is not None else []
            fate.attempts, fate.hidden = each.attempt, 0
            fate.may_be_acked = fate.may_be_dead = False  # else it would not have come
            fate.invisible_until_ms, fate.handle, fate.attempt_id = each.invisible_until_ms, each.handle, attempt_id
        popped = {self.fates[number].queue_id for number in came}
        for number, fate in self.fates.items():  # what a repeated receive did not return of a queue waits there
            if fate.attempt_id == attempt_id and fate.queue_id in popped and number not in came:
                self.strays += [fate.handle] if fate.handle is not None else []
                fate.handle, fate.invisible_until_ms, fate.attempt_id = None, 0, ""
        self._note()
        return came

    def _check_order(self, came: list[int], attempt_id: str, now_ms: int) -> None:
        """Nothing is passed over, and nothing comes of a queue while another message of it is invisible."""
        for queue_id in range(QUEUES):
            of_queue = [number for number in came if self.fates[number].queue_id == queue_id]
            assert of_queue == sorted(of_queue)
            for number in of_queue:
                for other, fate in self.fates.items():
                    if fate.queue_id != queue_id or other in came:
                        continue
                    if other < number and fate.may_be_acked and not fate.is_dead:
                        fate.is_acked = True  # else it would have come before
                    if self._is_over(fate):
                        continue
                    assert other > number, f"{number} comes before {other}"
                    is_repeat = self.fates[number].attempt_id == attempt_id
                    assert is_repeat or now_ms >= fate.invisible_until_ms, f"{number} comes while {other} is invisible"

    def _is_over(self, fate: OrderedFate) -> bool:
        return fate.is_acked or fate.may_be_acked or fate.is_dead

    def _note_dead(self, now_ms: int) -> None:
        """Each dead letter is there once, from then on, and only of a message that had its attempts."""
        letters = [int(message.body) for message in self.popped.store.dead_letters("g")]
        assert len(letters) == len(set(letters)), f"dead letters that came twice: {letters}"
        for number, fate in self.fates.items():
            if fate.is_dead:
                assert number in letters, f"the dead letter of {number} is gone"
            elif number in letters:
                assert not fate.is_acked or fate.may_be_dead, f"{number} is a dead letter though it was acknowledged"
                is_due = fate.attempts >= MAX_ATTEMPTS and now_ms >= fate.invisible_until_ms
                assert is_due or fate.may_be_dead, f"{number} is a dead letter too early: {fate}"
                fate.is_dead = True

    def _held(self) -> Iterator[tuple[int, OrderedFate, PopHandle]]:
        """Messages with a handle, expired ones too."""
        return (
            (number, fate, fate.handle)
            for number, fate in self.fates.items()
            if fate.handle is not None and not fate.is_acked and not fate.is_dead
        )

    def ack(self) -> None:
        held = list(self._held())
        held = self.dice.sample(held, min(len(held), self.dice.randrange(1, 4)))
        if not held:
            return
        now_ms = self.popped.clock.at_ms
        self.call = Call("ack", tuple(number for number, fate, _ in held if fate.invisible_until_ms > now_ms))
        expired: tuple[object, ...] = ()
        try:
            self.popped.store.ack(*(handle for _, _, handle in held))
        except ExpiredHandleError as e:
            expired = e.handles
        for number, fate, handle in held:
            is_late = fate.invisible_until_ms <= now_ms
            if handle in expired:
                assert is_late, f"the handle of {number} is refused in its time"
                fate.handle = None
            else:
                assert not is_late, f"{number} is acknowledged after its time"
                fate.is_acked = True
        self._note()

    def change(self) -> None:
        held = list(self._held())
        if not held:
            return
        number, fate, handle = self.dice.choice(held)
        invisible_ms, now_ms = self.dice.choice(INVISIBLE_MS), self.popped.clock.at_ms
        self.call = Call("change", (number,), invisible_until_ms=now_ms + invisible_ms)
        try:
            fate.handle = self.popped.store.change_invisible(handle, invisible_ms)
        except ExpiredHandleError:
            is_known = not (fate.may_be_acked or fate.may_be_dead)
            assert not is_known or fate.invisible_until_ms <= now_ms, f"{number} is refused in its time"
            fate.handle = None
        else:
            fate.invisible_until_ms = words_of(fate.handle)[0].expires_ms
        self._note()

    def give_up(self) -> None:
        """As a client of the server does that has no use for a message."""
        now_ms = self.popped.clock.at_ms
        held = [each for each in self._held() if each[1].invisible_until_ms > now_ms and not each[1].may_be_acked]
        if held:
            number, fate, handle = self.dice.choice(held)
            self.call = Call("give up", (number,))
            self.popped.store.pop_service.forward_to_dead_letters(handle, fate.attempts)
            fate.is_dead = True
            self._note()

    def ack_stray(self) -> None:
        """Without effect, however it is answered."""
        if self.strays:
            self.call = Call("ack stray")
            with suppress(ExpiredHandleError):
                self.popped.store.ack(self.dice.choice(self.strays))
            self._note()

    def pass_time(self) -> None:
        self.call = Call("pass time")
        self.popped.pass_time(self.dice.choice((1_000, 4_000, 12_000)))
        self._note()

    def save(self) -> None:
        """As the thread of the pops does every few seconds."""
        self.call = Call("save")
        inside.save_pops(self.popped.store)
        self._note()

    def flush(self) -> None:
        self.call = Call("flush")
        end = self._log_end
        self.popped.store.flush()
        self.durable_end = end
        self._note()

    # -- how lives end

    def close(self) -> None:
        self._close()
        self._begin()

    def _close(self) -> None:
        self.call = Call("close")
        self.popped.store.close()
        self.durable_end = self.past[-1].log_end

    def kill(self) -> None:
        self._die(is_cut=False)

    def cut(self) -> None:
        self._die(is_cut=True)

    def crash(self) -> None:
        """End the life between two steps of a call, or at a change of the disk in its middle, by kill or power cut."""
        calls = self.put, *[self.receive] * 3, self.ack, self.ack, self.change, self.give_up, self.save
        call = self.dice.choice((*calls, self.flush, self._close))
        count, durable_end = len(self.past), self.durable_end
        has_died = self._dies_between_steps(call) if self.dice.random() < 0.4 else self._dies_at_the_disk(call)
        if has_died:
            del self.past[count:]
            self.durable_end = durable_end
        self._die(is_cut=self.dice.random() < 0.5, is_in_call=has_died)

    def _dies_between_steps(self, call: Callable[[], None]) -> bool:
        with crashing(self.popped.store, self.dice.randrange(6)) as has_crashed, suppress(Crashed):
            call()
        return has_crashed()

    def _dies_at_the_disk(self, call: Callable[[], None]) -> bool:
        """True also if it died in a thread of the store, perhaps before the call was answered."""
        self.disk.die_after = self.dice.randrange(12)
        try:
            call()
        except (Died, FlightlogError):
            assert self.disk.left is not None
        return self.disk.left is not None

    def _die(self, *, is_cut: bool, is_in_call: bool = False) -> None:
        self._end(is_cut)
        if self.dice.random() < 0.2:  # once more, while it is opened or soon after
            self.disk.die_after = self.dice.randrange(20)
            with suppress(Died, FlightlogError):
                self.popped.open()
            is_cut_now = self.dice.random() < 0.5
            self._end(is_cut_now)
            is_cut |= is_cut_now
        self._begin(is_cut=is_cut, is_in_call=is_in_call)

    def _end(self, is_cut: bool) -> None:
        with suppress(Died):
            self.popped.kill()
        if is_cut:
            self.disk.cut(self.dice)
            self.popped.clock.advance(BOOT_MS)
        else:
            self.disk.kill()
        self.disk.die_after = None

    def _begin(self, *, is_cut: bool = False, is_in_call: bool = False) -> None:
        """Open the store, and go back to what is known of it."""
        self.popped.open()
        end = self._log_end
        assert end >= self.durable_end, f"the log ends at {end}, and was flushed up to {self.durable_end}"
        left = [moment for moment in self.past if moment.log_end <= end]
        lost = self.past[len(left) :]
        assert not lost or (is_cut and self.mode is FlushMode.ASYNC), f"lost: {lost[0].call}"
        self.fates, self.strays = _copy(left[-1].fates), [*left[-1].strays]
        in_doubt = lost[0].call if lost else self.call if is_in_call else Call("none")
        self._doubt(in_doubt)
        self._find_messages(in_doubt)
        if lost:
            known = {_pop_of(handle) for handle in (*_handles(left[-1].fates), *_handles(lost[0].fates))}
            self.strays += [handle for handle in _handles(lost[-1].fates) if _pop_of(handle) not in known]
        if is_cut:
            self.durable_end = end
        self.past, self.call = [], Call("open")
        self._note()

    def _doubt(self, call: Call) -> None:
        """Each record of this call may be there, or not."""
        for number, fate in self.fates.items():
            is_acked = fate.is_acked or fate.is_dead
            if call.name == "receive" and not is_acked:
                fate.attempts, fate.hidden = fate.attempts + 1, fate.hidden + 1
                if fate.attempt_id == call.attempt_id:
                    fate.handle, fate.invisible_until_ms = None, 0
            elif call.name == "ack" and number in call.numbers:
                fate.may_be_acked = fate.may_be_acked or not is_acked
            elif call.name == "give up" and number in call.numbers:
                fate.may_be_dead = True
            elif call.name == "change" and number in call.numbers:
                fate.handle = None
                fate.invisible_until_ms = min(fate.invisible_until_ms, call.invisible_until_ms)

    def _find_messages(self, call: Call) -> None:
        """All that were put, and of a put in doubt those up to any one."""
        there = {
            int(message.body): queue_id
            for queue_id in range(QUEUES)
            for message in self.popped.store.read("orders", queue_id)
        }
        gone = self.fates.keys() - there.keys()
        assert not gone, f"lost: {sorted(gone)}"
        new = sorted(there.keys() - self.fates.keys())
        expected = call.numbers[: len(new)] if call.name == "put" else ()
        assert new == [*expected], f"{new} are there, expected {expected}"
        self.fates |= {number: OrderedFate(there[number]) for number in new}

    # -- what must be so in the end

    def settle(self) -> None:
        """Everything that was not acknowledged comes again, once, in order, or is a dead letter."""
        for _ in range(len(self.fates) + QUEUES):
            self.popped.clock.advance(SETTLE_MS)
            self.attempt_ids += 1
            came = self._receive(32, NEVER_MS)
            if not came:
                break
            self.popped.store.ack(*(handle for number, _, handle in self._held() if number in came))
            for number in came:
                self.fates[number].is_acked = True
        else:
            raise AssertionError("it does not end")
        lost = [number for number, fate in self.fates.items() if not self._is_over(fate)]
        assert not lost, f"lost: {lost}"
        self.popped.store.close()


def _copy(fates: Fates) -> Fates:
    return {number: replace(fate) for number, fate in fates.items()}


def _handles(fates: Fates) -> list[PopHandle]:
    return [fate.handle for fate in fates.values() if fate.handle is not None]


def _pop_of(handle: PopHandle) -> tuple[int, int]:
    """Queue and time: what handles have in common that count together."""
    key = words_of(handle)[0].key
    return key.queue_id, key.pop_time_ms
