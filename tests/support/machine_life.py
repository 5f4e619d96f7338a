"""The rest of a life: topics, retention, views beside the store, disks that begin to fail, and the last check."""

from __future__ import annotations

import random
from typing import Any

import flightlog
from flightlog import FlushMode
from flightlog.store.errors import (
    DiskFullError,
    InvalidTopicError,
    SyncFailedError,
    TopicExistsError,
    TopicNotFoundError,
)
from flightlog.testing.power_disk import Died
from flightlog.tests.support import inside, machine_model
from flightlog.tests.support.machine_messages import CLEAN_BATCH_COUNT, Opening
from flightlog.tests.support.machine_model import Route
from flightlog.tests.support.machine_puts import PuttingLife
from flightlog.tests.support.machine_store import HOUR_MS


class Life(PuttingLife):
    """Everything that the rules of the state machine do."""

    # -- topics

    def create_topic(self, name: str, queues: int) -> None:
        is_there = name in self.model.topics
        attributes = {"queue.type": "BatchCQ"} if name == "batch" else {}
        with self.step():
            route = Route(queues, queues, attributes=attributes)
            may_be_there = False
            try:
                self.it.create_topic(name, queues, attributes=attributes)
                may_be_there = True
                assert not is_there, f"the topic {name!r} was made twice"
            except TopicExistsError:
                assert is_there, f"the topic {name!r} is there, and nobody made it"
                return
            except InvalidTopicError:
                assert not name.isascii() or len(name) > 127
                return
            except Died:
                may_be_there = True
                raise
            finally:
                if may_be_there:
                    self.model.topics[name] = route
            self.model.save_topics()

    def update_topic(self, name: str, read_queues: int, write_queues: int, perm: int) -> None:
        model = self.model
        with self.step():
            before = model.topics.get(name)
            try:
                self.it.update_topic(name, read_queue_count=read_queues, write_queue_count=write_queues, perm=perm)
                assert before is not None, f"the topic {name!r} was changed, and is not there"
            except TopicNotFoundError:
                assert before is None, f"the topic {name!r} is gone"
                return
            except (SyncFailedError, DiskFullError):
                return  # as it was
            finally:
                if before is not None and (self.disk.is_dead or self._says(name, read_queues, write_queues, perm)):
                    changed = Route(read_queues, write_queues, perm, before.order, before.attributes, before.turn)
                    model.topics[name] = changed
            self.model.save_topics()

    def _says(self, name: str, *settings: int) -> bool:
        found = self.it.topic(name)
        return found is not None and (found.read_queue_count, found.write_queue_count, int(found.perm)) == settings

    def delete_topic(self, name: str) -> None:
        model = self.model
        with self.step():
            is_there = name in model.topics
            if self.reading is not None and self.reading[1][0] == name:
                self.reading = None
            self.is_view_stale = True
            before = machine_model.deleted_below(self.disk.root, name)
            self.doubted_topic = (name, model.end, before) if is_there else None
            try:
                self.it.delete_topic(name)
                assert is_there, f"the topic {name!r} was deleted, and was not there"
            except TopicNotFoundError:
                assert not is_there, f"the topic {name!r} is gone"
                return
            model.delete_topic(name)
            self.doubted_topic = None
            model.save_topics()

    # -- retention

    def clean_up(self, hours: int, *, after_rounds: bool) -> None:
        """Remove what is old. After all rounds, and with nobody who reads, it is known what goes."""
        model, size = self.model, self.model.segment_size
        with self.step():
            if after_rounds:
                self._serve("flush_index")
                self._serve("flush_queues")
                self.synced = model.end
                if not self.disk.fails_syncs_of:
                    model.save_topics()
            due = self._due_below(hours)
            self.doubted_start = due
            report = self.it.clean_up(hours)
            self.doubted_start = None
            start = report.min_physical_offset
            assert model.start <= start <= due, f"the log begins at {start}, and only what lies before {due} is old"
            assert start % size == 0 and len(report.segments) == (start - model.start) // size
            held = [at for at in (self._view_start(), self._read_from()) if at is not None]
            assert all(start <= at // size * size for at in held), f"{start} is beyond what is read: {held}"
            if after_rounds and not held:
                model.same("what is old", start, due)
            model.advance(start)

    def _due_below(self, hours: int) -> Any:
        """Physical offset below which a round may remove everything."""
        model, size = self.model, self.model.segment_size
        due, last = model.start, max(model.end - 1, 0) // size * size
        if (self.disk.root / "commitlog" / f"{model.end:020d}").exists():
            last = model.end  # made by a writer that died before it put something there
        for _ in range(CLEAN_BATCH_COUNT):
            written_ms = self.disk.written_ms.get(f"{due:020d}", 0)
            if due >= last or written_ms + hours * HOUR_MS > self.clock.at_ms:
                break
            due += size
        return due

    def _view_start(self) -> int | None:
        return None if self.view is None else self.view.min_physical_offset

    def _read_from(self) -> Any:
        """Physical offset of the next message of the iterator."""
        if self.reading is None:
            return None
        _, key, at = self.reading
        queue = self.model.queues.get(key, [])
        return queue[at].physical_offset if at < len(queue) else self.model.end

    # -- views

    def look(self, dice: random.Random) -> None:
        """Another reader, which has no part in the store: as it is now."""
        if self.view is None:
            self.view = flightlog.open_read_only(self.disk.root, self.settings)
        else:
            self.view.refresh()
        self.is_view_stale = False
        end = self.view.end_physical_offset
        if self.is_open and not self.is_poisoned:
            visible = self.model.end if self.settings.flush_mode is FlushMode.ASYNC else inside.log(self.it).flushed
            self.model.same("end of the view", end, visible)
        elif not self.is_open:
            sure = self.sure if self.settings.flush_mode is FlushMode.ASYNC else self.synced
            assert sure <= end, f"the view ends at {end}, and everything below {sure} is sure to be there"
        self.ask_view(dice)

    def ask_view(self, dice: random.Random) -> None:
        """As it was when it was looked at last."""
        if self.view is None or self.is_view_stale or self.doubted_topic is not None:
            return
        self.questions.draw_from(dice)
        with self.model.seen_from(self.view.min_physical_offset):
            self.questions.ask(self.view, self.view.end_physical_offset)

    # -- disks that fail

    def make_room(self) -> None:
        """The disk has room again, and everything is as if it had never lacked."""
        with self.step():
            self.disk.full_after = None
            if not self.is_poisoned:
                self.questions.newest(self.it, self.model.end)

    # -- the end

    def end(self, opening: Opening) -> None:
        """Close it, look at it at rest, and verify every byte."""
        self.disk.die_after = self.disk.full_after = None
        if self.store is not None and (self.is_poisoned or self.disk.fails_syncs_of):
            self.end_process()
        if self.store is None:
            self.open(opening)
        self.close_view()
        self.check_everything()
        self.close()
        with flightlog.open_read_only(self.disk.root, self.settings) as view:
            self.model.same("end of the view", view.end_physical_offset, self.model.end)
            self.questions.everything(view, self.model.end)
            self.check_report(view.verify())

    def release(self) -> None:
        """Release what a failed life has left open."""
        self.close_view()
        if self.store is not None:
            inside.maintenance(self.store).poison(InterruptedError("the life ended"))
            self.store.close()
            self.store = None
