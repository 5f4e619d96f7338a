"""One store from its first opening to its last check, beside its model: opening, asking, and every way to end.

Nothing happens beside a step: the clock moves between steps only, the service thread never comes round by itself, and
what other threads do for a step (a sync for puts that do not wait) is waited for before the step ends. So a list of
calls is one life, and a case that was found is repeated by writing its calls down.

A store that is open is in one of three moods:

    well        every answer must be the model's
    full        the disk has no room: puts may raise DiskFullError, and what is read of a queue is a beginning of it
    poisoned    a sync has failed: no put is taken, and what is read of a queue is a beginning of it
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog
from flightlog import StoreSettings
from flightlog.store.errors import DiskFullError, StoreClosedError, StorePoisonedError, SyncFailedError
from flightlog.testing import kill
from flightlog.testing.power_disk import Died
from flightlog.tests.support import inside, machine_messages, machine_model
from flightlog.tests.support.machine_disk import MachineDisk
from flightlog.tests.support.machine_messages import DEFAULT_QUEUES, Geometry, Opening
from flightlog.tests.support.machine_model import MachineModel
from flightlog.tests.support.machine_questions import MachineQuestions
from flightlog.tests.support.model import Limits

if TYPE_CHECKING:
    from flightlog import StoredMessage
    from flightlog.engine.verify.findings import VerifyReport
    from flightlog.store.queue_offsets import QueueKey


HOUR_MS = 3_600_000
INDEX_FOLDER = "index"


class StillClock:
    """The time of day moves between steps; the time that rounds of the service wait for never comes."""

    def __init__(self) -> None:
        self.at_ms = 1_900_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return 0.0


class StoreLife:
    """The store, its disk, its model, and at most one view and one iterator beside it."""

    def __init__(self, root: Path, geometry: Geometry, opening: Opening) -> None:
        self.geometry, self.clock = geometry, StillClock()
        self.disk = MachineDisk(root)
        limits = Limits(
            segment_size=4096 * geometry.segment_pages,
            queue_file_entries=geometry.queue_file_entries,
            answer_count=geometry.answer_count,
            answer_size=geometry.answer_size,
            scan_size=geometry.scan_size,
        )
        self.model = MachineModel(limits, DEFAULT_QUEUES)
        self.questions = MachineQuestions(self.model)
        self.store: flightlog.Store | None = None
        self.view: flightlog.ReadOnlyStore | None = None
        self.is_view_stale = False
        """Whether it shows what is deleted since."""
        self.reading: tuple[Iterator[StoredMessage], QueueKey, int] | None = None
        """An iterator in use over many steps, what it reads, and how far it has come."""
        self.sure = self.synced = 0
        """Physical offset below which a kill takes nothing, and a power cut."""
        self.is_poisoned = False
        self.was_closed = True
        """Whether the last writer closed the store."""
        self.doubted_topic: tuple[str, int, int] | None = None
        """A deletion that a death or a failure came into, where the log ended, and how far an earlier one went."""
        self.doubted_start: int | None = None
        """How far a round of retention may have come."""
        self.numbers = itertools.count()
        self.settings: StoreSettings
        self.open(opening)

    # -- the frame of a step

    @property
    def is_open(self) -> bool:
        return self.store is not None

    @property
    def is_well(self) -> bool:
        return self.is_open and not self.is_poisoned and self.disk.full_after is None

    @property
    def it(self) -> flightlog.Store:
        assert self.store is not None
        return self.store

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """What a dead, full or failing disk may do to a step, and nothing else."""
        fails, is_full = bool(self.disk.fails_syncs_of), self.disk.full_after is not None
        try:
            yield
        except Died:
            assert self.disk.is_dead
        except (SyncFailedError, StorePoisonedError):
            if not (self.disk.is_dead or fails):
                raise
        except DiskFullError:
            if not (self.disk.is_dead or is_full):
                raise
        if self.disk.is_dead:
            self.end_process()
        elif self.store is not None and inside.log(self.store).poison is not None:
            assert self.is_poisoned or self.disk.fails_syncs_of, f"poisoned by {inside.log(self.store).poison!r}"
            self.is_poisoned = True

    # -- rounds

    def round(self, which: str) -> None:
        """One of those that the service makes."""
        with self.step():
            self._serve(which)
            if which in ("flush", "flush_queues"):
                self.synced = self.model.end
            if which == "flush_queues" and self.is_well and not self.disk.fails_syncs_of:
                self.model.save_topics()

    def _serve(self, which: str) -> None:
        """As the service does it: what fails for another reason than want of room poisons the store."""
        if which == "flush":
            self.it.flush()
            return
        try:
            getattr(inside.maintenance(self.it), which)()
        except SyncFailedError as e:
            inside.maintenance(self.it).poison(e)
            raise

    # -- asking

    def ask(self, dice: random.Random) -> None:
        """A question to the store."""
        self.questions.draw_from(dice)
        with self.step():
            if self.is_well:
                self.questions.ask(self.it, self.model.end)
            else:
                start = inside.log(self.it).reader.min_offset
                if self.doubted_start is None:
                    self.model.same("where the log begins", start, self.model.start)
                else:  # a round of retention failed, and some of its segments may be gone
                    assert start <= self.doubted_start
                with self.model.seen_from(start):
                    self.questions.is_a_part(self.it, self.model.end)

    def check_everything(self) -> None:
        with self.step():
            self.questions.everything(self.it, self.model.end)

    def verify(self) -> None:
        with self.step():
            self.check_report(self.it.verify())

    def check_report(self, report: VerifyReport) -> None:
        """An index that a crash has left half rewound waits for an opening that wants an index."""
        waits = set() if self.settings.key_index else {INDEX_FOLDER}
        found = [finding for finding in report.findings if not waits & {*finding.path.parts}]
        self.model.same("findings", found, [])
        self.model.same("records", report.records, len(self.model.records))

    def read_on(self, key: QueueKey) -> None:
        """An iterator sees what was put after it was made."""
        with self.step():
            if self.reading is None:
                self.reading = (self.it.read(*key), key, self.model.first(key))
            messages, key, at = self.reading
            expected = self.model.queues.get(key, [])[at : at + 5]
            self.model.check_messages([message for _, message in zip(expected, messages, strict=False)], expected)
            self.reading = (messages, key, at + len(expected)) if expected else None
            if not expected:
                self.model.same("the end of the iterator", next(messages, None), None)

    # -- ending and beginning

    def close(self) -> None:
        with self.step():
            store, self.store, reading, self.reading = self.it, None, self.reading, None
            was_poisoned, was_full = self.is_poisoned, self.disk.full_after is not None
            self.is_poisoned = self.was_closed = False
            try:
                store.close()
            finally:
                armed, self.disk.fails_syncs_of = self.disk.fails_syncs_of, ""
                self.disk.full_after = None
            if not (was_poisoned or self.disk.is_dead):
                self.sure = self.synced = self.model.end
                self.was_closed = not armed and not was_full
            if reading is not None:
                with contextlib.suppress(StoreClosedError):
                    self.model.same("a message after the close", next(reading[0], None), None)

    def close_view(self) -> None:
        if self.view is not None:
            self.view.close()
        self.view, self.is_view_stale = None, False

    def end_process(self) -> None:
        """Leave the files as a killed process does."""
        store, self.store, self.reading = self.store, None, None
        if store is not None:
            kill(store)
        self.is_poisoned = self.was_closed = False
        self.disk.fails_syncs_of, self.disk.full_after = "", None
        self.disk.kill()

    def cut(self, seed: int) -> None:
        """The power fails, whether the store is open or not."""
        if self.store is not None:
            self.end_process()
        self.close_view()
        self.was_closed = False
        self.disk.cut(random.Random(seed))
        self.sure = self.synced

    def open(self, opening: Opening, die_after: int | None = None) -> None:
        """Open it, and check what is there after whatever has happened; the process may die in the middle of that."""
        self.settings = machine_messages.settings_of(self.geometry, opening)
        self.disk.die_after = die_after
        try:
            self.store = flightlog.open(self.disk.root, self.settings, disk=self.disk, clock=self.clock)
        except Died:
            self.disk.kill()
            return
        with self.step():
            self._find_out()
            self.questions.newest(self.it, self.model.end)

    def _find_out(self) -> None:
        """What of the last session is there."""
        store, model = self.it, self.model
        end = store.recovery_report.end
        start = inside.log(store).reader.min_offset
        if self.doubted_start is not None:
            assert start <= self.doubted_start and start % model.segment_size == 0
            model.advance(start)
        elif start != model.start:  # what was in the only segment that is gone, nobody knows
            raise AssertionError(f"the log begins at {start}, expected {model.start}")
        self.doubted_start = None
        model.keep(end, self.sure)
        topics = store.topics()
        if self.doubted_topic is not None:
            name, below, before = self.doubted_topic
            below = min(below, end)
            noted = machine_model.deleted_below(self.disk.root, name)
            # That the topic is gone does not say it: a kill takes one that no queue and no file tells of, and leaves
            # its half messages. Nor does a note that an earlier deletion may have left.
            if noted == below > before or (name not in topics and below <= max(noted, start)):
                model.delete_topic(name)
            self.doubted_topic = None
        model.adopt_topics(topics, is_clean=self.was_closed)
        self.was_closed = False
        self.sure = self.synced = model.end
