"""A random life of one store, compared with the model at every step.

One seed is one life: the sizes of files, the messages, what is asked, and how often the writer closes, is killed, dies
in the middle of something or loses its power. The service thread never comes round: its rounds are steps, too.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import flightlog
from flightlog import FlushMode, Message
from flightlog.store.errors import InvalidMessageError, StoreClosedError
from flightlog.testing import kill
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.messages import MessageMaker
from flightlog.tests.support.model import Model
from flightlog.tests.support.openings import HeldClock, Openings
from flightlog.tests.support.questions import Questions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flightlog import StoredMessage
    from flightlog.engine.verify.findings import VerifyReport
    from flightlog.store.queue_offsets import QueueKey


INDEX_FOLDER = "index"


class Walk:
    """One store from its first opening to its last check."""

    def __init__(
        self,
        dice: random.Random,
        disk: PowerDisk,
        model: Model,
        maker: MessageMaker,
        questions: Questions,
        openings: Openings,
        clock: HeldClock,
        died: type[BaseException],
        *,
        loses_power: bool,
    ) -> None:
        self._dice, self._disk, self._model, self._maker, self._questions = dice, disk, model, maker, questions
        self._openings, self._clock = openings, clock
        self._died, self._loses_power, self._same = died, loses_power, model.same
        self._settings = openings.settings()
        self._store: flightlog.Store | None = None
        self._view: flightlog.ReadOnlyStore | None = None
        self._reading: tuple[Iterator[StoredMessage], QueueKey, int] | None = None
        """An iterator that is in use over many steps, what it reads, and how far it has come."""
        self._synced = 0
        """Physical offset below which a power cut takes nothing."""
        self._sure = 0
        """The same for a kill."""
        self.history: list[str] = []
        """What was done, for whoever has to find out why it went wrong."""

    def run(self, steps: int) -> None:
        """Live `steps` steps, then close, and check everything once more."""
        self._open()
        for _ in range(steps):
            if self._dice.random() < 0.3:
                self._clock.at_ms += self._dice.choice((-700, 1, 40, 999, 1000, 20_000))
            self._step()
        self._disk.die_after = None
        self._close()
        self._look_at_rest()

    def release(self) -> None:
        """Release what a failed life has left open, as a killed process would."""
        if self._view is not None:
            self._view.close()
        if self._store is not None:
            inside.maintenance(self._store).poison(InterruptedError("the life ended"))
            self._store.close()

    def _step(self) -> None:
        steps: tuple[tuple[int, Callable[[], object]], ...] = (
            *((300, self._put), (120, self._put_many), (30, self._put_async), (20, self._put_what_does_not_fit)),
            *((40, self._flush), (40, self._dispatch_round), (40, self._flush_queues_round), (250, self._ask)),
            *((45, self._look), (50, self._read_on), (4, self._verify)),
            *((6, self._reopen), (6, self._kill), (7, self._die_soon)),
        )
        weights, choices = zip(*steps, strict=True)
        [step] = self._dice.choices(choices, weights)
        try:
            step()
        except self._died:
            self._say("died")
            self._end_process()
        if self._loses_power:
            self._disk.write_back(self._dice)

    def _say(self, text: str) -> None:
        self.history.append(text)

    @property
    def _open_store(self) -> flightlog.Store:
        assert self._store is not None
        return self._store

    # -- writing

    def _put(self) -> None:
        host = self._settings.store_host
        if self._dice.random() < 0.15:
            message = self._maker.filling(self._model.room(), lambda m: self._model.size_of(m, host))
        else:
            message = self._maker.message()
        self._say(f"put {self._model.size_of(message, host)} bytes")
        if self._model.fits(message, host):
            self._append([message], lambda store: [store.put(message)])
        else:
            self._expect_refusal([message])

    def _put_many(self) -> None:
        count = self._dice.choice((0, 1, 3, 8, 8, 30))
        messages = [self._maker.message() for _ in range(count)]
        self._say(f"put_many {len(messages)} messages")
        self._append(messages, lambda store: store.put_many(messages))

    def _append(self, messages: list[Message], put: Callable[[flightlog.Store], list[flightlog.PutResult]]) -> None:
        model, host, now_ms = self._model, self._settings.store_host, self._clock.at_ms
        try:
            results = put(self._open_store)
        finally:  # if it dies now, a part of them may be there
            records = [model.put(message, now_ms, host) for message in messages]
        for record, result in zip(records, results, strict=True):
            self._same("status", result.status, flightlog.PutStatus.PUT_OK)
            model.check_put(record, result)
        self._sure = model.end
        if self._settings.flush_mode is FlushMode.SYNC:
            self._synced = model.end

    def _put_async(self) -> None:
        """Futures, and messages that do not wait: sure to be there after a flush."""
        messages = [self._maker.message() for _ in range(self._dice.randint(1, 6))]
        for message in messages:
            message.wait_store_ok = self._dice.random() < 0.5
        self._say(f"put {len(messages)} messages without waiting")
        die_after, self._disk.die_after = (
            self._disk.die_after,
            None,
        )  # other threads sync now: not the same in every run

        def put(store: flightlog.Store) -> list[flightlog.PutResult]:
            futures = [store.put_async(message) for message in messages]
            store.flush()
            return [future.result(60) for future in futures]

        self._append(messages, put)
        self._synced = self._model.end
        self._disk.die_after = die_after

    def _put_what_does_not_fit(self) -> None:
        """Not even the messages beside it are stored."""
        message = self._maker.message()
        message.body += bytes(self._model.segment_size)
        self._say("put what does not fit")
        self._expect_refusal([self._maker.message(), message, self._maker.message()])

    def _expect_refusal(self, messages: list[Message]) -> None:
        try:
            self._open_store.put_many(messages)
        except InvalidMessageError:
            return
        raise AssertionError("a message that fits into no segment was stored")

    def _flush(self) -> None:
        self._say("flush")
        self._open_store.flush()
        self._synced = self._model.end

    def _dispatch_round(self) -> None:
        self._say("round of the dispatcher")
        inside.maintenance(self._open_store).dispatch()

    def _flush_queues_round(self) -> None:
        self._say("round of the queues")
        inside.maintenance(self._open_store).flush_queues()
        self._synced = self._model.end

    # -- asking

    def _ask(self) -> None:
        self._say(self._questions.ask(self._open_store, self._model.end))

    def _look(self) -> None:
        """Another reader, which has no part in the store."""
        if self._view is None:
            self._say("open a view")
            self._view = flightlog.open_read_only(self._disk.root, self._settings)
        else:
            self._say("refresh the view")
            self._view.refresh()
        if self._store is not None:
            self._same("end of the view", self._view.end_physical_offset, self._model.end)
        self._say("view: " + self._questions.ask(self._view, self._view.end_physical_offset))

    def _read_on(self) -> None:
        """An iterator sees what was put after it was made."""
        if self._reading is None:
            key = self._questions.some_key()
            self._reading = (self._open_store.read(*key), key, 0)
        messages, key, at = self._reading
        expected = self._model.queues.get(key, [])[at : at + 5]
        self._say(f"read on {key[0][:8]!r} {key[1]} from {at}")
        self._model.check_messages([message for _, message in zip(expected, messages, strict=False)], expected)
        self._reading = (messages, key, at + len(expected)) if expected else None
        if not expected:
            self._same("the end of the iterator", next(messages, None), None)

    def _verify(self) -> None:
        self._say("verify")
        self._check_report(self._open_store.verify())

    def _check_report(self, report: VerifyReport) -> None:
        """Nothing is wrong. An index that a crash has left half rewound waits for an opening that wants an index."""
        waits = set() if self._settings.key_index else {INDEX_FOLDER}
        found = [finding for finding in report.findings if not waits & {*finding.path.parts}]
        self._same("findings", found, [])
        self._same("records", report.records, len(self._model.records))

    # -- ending and beginning

    def _close(self) -> None:
        self._say("close")
        store = self._open_store
        store.close()
        self._store, self._sure, self._synced = None, self._model.end, self._model.end
        if self._reading is not None:
            messages, key, at = self._reading
            with contextlib.suppress(StoreClosedError):
                self._same("a message after the close", next(messages, None), None)
                self._same("end of the iterator", at, len(self._model.queues.get(key, [])))
            self._reading = None

    def _reopen(self) -> None:
        self._close()
        if self._dice.random() < 0.15:
            self._look_at_rest()
        self._open()

    def _kill(self) -> None:
        self._say("kill")
        self._end_process()

    def _die_soon(self) -> None:
        self._disk.die_after = self._dice.choice((0, 1, 2, 3, 5, 8, 13, 21))
        self._say(f"die after {self._disk.die_after} operations")

    def _end_process(self) -> None:
        """Leave the files as a killed writer or a power cut would, and open them again."""
        store, self._store, self._reading = self._store, None, None
        if store is not None:
            kill(store)
        self._leave_files()
        if self._dice.random() < 0.3:
            self._look()
        if self._dice.random() < 0.3:
            self._disk.die_after = self._dice.randrange(60)  # somewhere in the next opening, or soon after it
        while self._store is None:
            try:
                self._open()
            except self._died:
                self._say("died while it was opened")
                self._leave_files()

    def _leave_files(self) -> None:
        if self._loses_power and self._dice.random() < 0.6:
            self._say("the power is cut")
            if self._view is not None:
                self._view.close()
            self._view = None
            self._disk.cut(self._dice)
            self._sure = self._synced
        else:
            self._disk.kill()

    def _open(self) -> None:
        self._settings = self._openings.settings()
        self._say(f"open, {self._settings.flush_mode.name}")
        store = flightlog.open(self._disk.root, self._settings, disk=self._disk, clock=self._clock)
        self._store = store
        self._model.keep(store.recovery_report.end, self._sure)
        self._sure = self._synced = self._model.end
        if self._disk.die_after is not None:
            return
        if self._dice.random() < 0.2:
            self._questions.everything(store, self._model.end)
        else:
            self._questions.newest(store, self._model.end)
        if self._dice.random() < 0.2:
            self._verify()

    def _look_at_rest(self) -> None:
        self._say("look at it at rest")
        with flightlog.open_read_only(self._disk.root, self._settings) as view:
            self._same("end of the view", view.end_physical_offset, self._model.end)
            self._questions.everything(view, self._model.end)
            self._check_report(view.verify())
