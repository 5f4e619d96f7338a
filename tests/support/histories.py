"""One life of a store, run once on a disk that is recorded: everything that a store does, in a random order.

    history = History("0/7", root)
    history.run()
    history.recorder.moments                           # each can be cut, with the mark of what had to be there

All follows from the seed: the store's own thread is stopped, its rounds are steps of the life, and time stands still
unless a step moves it. The life has sessions, which end with a close, a kill, a power cut, or because an operation of
the disk failed; the next one recovers what is there, and what it finds is checked as well.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.open import boot
from flightlog.index.queue import queue_table
from flightlog.store.disk.file_system import Unpromising
from flightlog.store.errors import DiskError, FlightlogError
from flightlog.store.segments import segment
from flightlog.store.state import progress
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Inode
from flightlog.tests.support import account, cutting, inside
from flightlog.tests.support.account import Account, Mark
from flightlog.tests.support.memory_disk import MemoryDisk, Tree
from flightlog.tests.support.numbered_puts import NumberedPuts
from flightlog.tests.support.openings import HeldClock
from flightlog.tests.support.preparing import prepare_inline
from flightlog.tests.support.recording import Recorder

NEVER_MS = 3_600_000
STEPS = 110
BATCH_FILE_ENTRIES = 4
CONFIGURED = ("made-0", "made-1")
"""Topics that are made, changed and deleted, and never put to."""
SEGMENTS_MAX = 2
"""More than that make retention more likely: a small store is opened sooner."""
FAULTS = (
    *(("sync", "commitlog", errno.EIO), ("sync", "consumequeue", errno.EIO), ("sync", "index", errno.EIO)),
    *(("sync", "progress", errno.EIO), ("sync", "checkpoint", errno.EIO), ("sync", "config", errno.EIO)),
    *(("sync_folder", "", errno.EIO), ("*", "seals", errno.EIO), ("sync", "", errno.EIO)),
    *(("write", "config", errno.ENOSPC), ("write", "consumequeue", errno.ENOSPC), ("write", "index", errno.ENOSPC)),
    *(("allocate", "", errno.ENOSPC), ("create", "", errno.ENOSPC), ("create", "commitlog", errno.ENOSPC)),
    *(("write", "", errno.EIO), ("resize", "", errno.EIO), ("rename", "", errno.EIO), ("remove", "", errno.EIO)),
    *(("make_folder", "", errno.ENOSPC), ("open", "", errno.EMFILE), ("create", "", errno.EMFILE)),
    *(("*", "deleted-topics", errno.EIO), ("*", "", errno.EIO)),
)


class History:
    """See above. `settings()` opens what a cut has left of it."""

    faults: tuple[tuple[str, str, int], ...] = FAULTS

    def __init__(self, seed: str, root: Path) -> None:
        self.seed, self.root = seed, root
        self._dice = dice = random.Random(f"history {seed}")
        self.clock: Any = HeldClock()
        self.account = Account()
        self._faults = FaultyDisk()
        self._is_unpromising = random.Random(f"file system of {seed}").random() < 0.2
        """Whether the disk claims a file system where nothing may be appended through a mapping."""
        self._disk = self.new_disk(None)
        self.recorder: Recorder[Mark] = Recorder(self._disk, self._faults, Inode, self.account.mark)
        self._has_crc = dice.random() < 0.2
        self._geometry: dict[str, Any] = {
            "segment_size": 4096 * dice.choice((1, 1, 2)),
            "queue_file_entries": dice.choice((5, 10, 20)),
            "index_slots": dice.choice((3, 10)),
            "index_entries": dice.choice((10, 20, 40)),
            "queue_extension": dice.random() < 0.15,
            "queue_extension_file_size": 256,
            "append_crc_property": self._has_crc,
            "check_crc_property": self._has_crc,
        }
        self._syncs_parts = random.Random(f"syncs of {seed}").random() < 0.5
        self._maps_progress = dice.random() < 0.5
        """Else every word of the progress page is a write of its own, and so a moment of its own."""
        self._store: flightlog.Store | None = None
        self._epoch = 1 << 61
        self._session_start = 0
        self.fast_path_puts = 0
        """Messages that were put in one step."""
        self.told: list[str] = []
        """What was done, for whoever has to find out why it went wrong."""
        self._puts = NumberedPuts(dice, self.account, lambda: self._open_store, self._say)

    def new_disk(self, tree: Tree | None) -> MemoryDisk:
        """The disk of this life, with what is there."""
        disk = MemoryDisk(self.root, tree)
        if self._is_unpromising:
            disk.unpromising = Unpromising(self.root, "btrfs", "does what a test wants")
        return disk

    # -- what has to be there

    def read_all(self, store: account.AnyStore, offered: list[Message], min_physical_offset: int) -> account.Found:
        return account.read_all(store, offered, min_physical_offset)

    def check(self, mark: Mark, found: account.Found, *, was_cut: bool) -> None:
        account.check(mark, found, was_cut=was_cut)

    def check_keys(
        self, store: account.AnyStore, mark: Mark, found: account.Found, dice: random.Random, count: int
    ) -> None:
        account.check_keys(store, mark, found, dice, count)

    # -- what every session is opened with

    def settings(self, dice: random.Random) -> StoreSettings:
        return StoreSettings(
            rocketmq_strict=False,
            **self._geometry,
            flush_mode=dice.choice(list(FlushMode)),
            flush_interval_ms=NEVER_MS,
            queue_flush_interval_ms=NEVER_MS,
            index_flush_interval_ms=NEVER_MS,
            allocate_step_size=4096,
            default_queue_count=1,
            accept_future_store_time=True,
        )

    def run(self) -> None:
        """Live it. Raises AssertionError where a session finds less than it must, or the store's own error."""
        try:
            with self.small_files():
                self._open()
                for _ in range(STEPS):
                    self._step()
                self._faults.heal()
                self._close()
        finally:
            self._kill()

    @contextmanager
    def small_files(self) -> Iterator[None]:
        """What no setting says: files of batch queues are small, the progress page is written in one way or the other,
        syncs of the log take all of a segment or only what is new, and epochs are the same in every run, as long as
        each other."""
        with (
            patch.object(segment, "PART_SIZE", 1 if self._syncs_parts else segment.PART_SIZE),
            patch.object(progress, "STORES_ARE_ORDERED", progress.STORES_ARE_ORDERED and self._maps_progress),
            patch.object(queue_table, "DEFAULT_BATCH_FILE_ENTRIES", BATCH_FILE_ENTRIES),
            patch.object(boot, "secrets", SimpleNamespace(randbits=self._next_epoch)),
        ):
            yield

    def _next_epoch(self, bits: int) -> int:
        self._epoch += 1
        return self._epoch

    # -- sessions

    def _open(self) -> None:
        """Open it, again if the disk refuses."""
        while self._store is None:
            ahead_size = 1024 * (self._epoch % 2)  # every other session prepares what appends will need
            settings = replace(self.settings(self._dice), prepare_ahead_size=ahead_size)
            self._faults.faults = [fault for fault in self._faults.faults if not fault.hits]
            self._say(f"open, {settings.flush_mode.name}")
            self._session_start = len(self.recorder.moments)
            try:
                self._store = flightlog.open(self.root, settings, disk=self._disk, clock=self.clock)
            except FlightlogError as e:
                self._forgive(e)
        inside.flush_service(self._store).stop()
        if inside.log(self._store).preparation.is_wanted:
            prepare_inline(self._store)
        try:
            found = self.read_all(self._store, self.account.offered, inside.log(self._store).reader.min_offset)
        except FlightlogError as e:
            self._forgive(e)
            self._end(self._kill)
            return
        self.check(self.account.mark(), found, was_cut=True)
        self.account.settle(found)
        self.recorder.note("opened")

    def _end(self, how: Callable[[], None]) -> None:
        how()
        self._open()

    def _close(self) -> None:
        self._say("close")
        store, self._store = self._store, None
        assert store is not None
        self.fast_path_puts += inside.log(store).fast_path.taken
        try:
            store.close()
        except FlightlogError as e:
            self._forgive(e)
        else:
            if inside.log(store).poison is None:
                self.account.is_durable()
        self.recorder.note("closed")

    def _kill(self) -> None:
        """The process dies; what it wrote stays in the page cache."""
        store, self._store = self._store, None
        if store is not None:
            self._say("kill")
            self.fast_path_puts += inside.log(store).fast_path.taken
            kill(store)

    def _cut(self) -> None:
        """The power fails at some moment of this session."""
        self._kill()
        moments = self.recorder.moments[self._session_start :]
        moment = self._dice.choice(moments[-40:])
        self._say(f"the power is cut at moment {moment.number}, {moment.operation} {moment.path}")
        tree = cutting.tree_after(moment, cutting.choose(moment, self._dice))
        cutting.may_boot_anew(tree, self._dice)
        self.account.go_back(moment.mark)
        self._faults.heal()
        self._disk = self.new_disk(tree)
        self.recorder.begin(self._disk)

    # -- steps

    def _step(self) -> None:
        steps: tuple[tuple[int, Callable[[], None]], ...] = (
            *((24, self._puts.put), (14, self._puts.put_many), (5, self._puts.put_async), (4, self._puts.put_batch)),
            *((4, self._puts.append_columns), (5, self._flush), (6, self._dispatch), (7, self._flush_queues)),
            *((6, self._flush_index), (3, self._configure), (2, self._delete_topic), (3, self._ask), (1, self._verify)),
            *((14 if len(inside.log(self._open_store).reader.segments) > SEGMENTS_MAX else 2, self._clean_up),),
            *((5, self._fail_soon), (3, lambda: self._end(self._close)), (1, lambda: self._end(self._kill))),
            *((2, lambda: self._end(self._cut)),),
        )
        if self._dice.random() < 0.3:
            self.clock.at_ms += self._dice.choice((-700, 1, 999, 20_000))
        [step] = self._dice.choices([step for _, step in steps], [weight for weight, _ in steps])
        self._take(step)

    def _take(self, step: Callable[[], None]) -> None:
        try:
            step()
        except FlightlogError as e:
            self._forgive(e)
        if self._store is None or inside.log(self._store).poison is not None:
            self._end(self._dice.choice((self._kill, self._kill, self._cut)))
        self.recorder.note("acknowledged", self.told[-1])

    @property
    def _open_store(self) -> flightlog.Store:
        assert self._store is not None
        return self._store

    def _say(self, text: str) -> None:
        self.told.append(text)

    def _forgive(self, e: FlightlogError) -> None:
        """An error of the disk is right if an operation of the disk has failed, in this session."""
        if not isinstance(e, DiskError) or not any(fault.hits for fault in self._faults.faults):
            raise e
        self._say(f"  {type(e).__name__}: {e}")

    def _fail_soon(self) -> None:
        operation, part, error = self._dice.choice(self.faults)
        skip = self._dice.choice((0, 0, 1, 3, 8))
        self._say(f"operation {skip} from here of {operation} {part!r} fails with {errno.errorcode[error]}")
        self._faults.faults = [fault for fault in self._faults.faults if fault.hits]  # one is to come at a time
        self._faults.fail(operation, part, error, skip=skip, times=1)

    # -- rounds, and what an application asks for

    def _flush(self) -> None:
        self._say("flush")
        self._open_store.flush()
        self.account.is_durable()

    def _dispatch(self) -> None:
        self._say("round of the dispatcher")
        inside.does(self._open_store, inside.maintenance(self._open_store).dispatch)

    def _flush_queues(self) -> None:
        self._say("round of the queues")
        if inside.does(self._open_store, inside.maintenance(self._open_store).flush_queues):
            self._note_flushed()

    def _flush_index(self) -> None:
        self._say("round of the key index")
        if inside.does(self._open_store, inside.maintenance(self._open_store).flush_index):
            self._note_flushed()

    def _note_flushed(self) -> None:
        """A round says nothing of its own; what the store calls durable must be so."""
        flushed, account = inside.log(self._open_store).flushed, self.account
        account.sure_count = sum(place.physical_offset < flushed for place in account.acknowledged)

    def _clean_up(self) -> None:
        store, account = self._open_store, self.account
        self._say("clean up")
        account.removable_below = inside.log(store).reader.segments[-1].base if inside.log(store).reader.segments else 0
        try:
            store.clean_up(retention_hours=0)
        finally:
            account.removable_below = max(inside.log(store).reader.min_offset, 0)

    def _configure(self) -> None:
        store, account = self._open_store, self.account
        name, count = self._dice.choice(CONFIGURED), self._dice.randrange(1, 6)
        before = account.topics.get(name, frozenset([0]))
        self._say(f"make or change topic {name}, {count} queues")
        account.topics[name] = before | {count}
        if store.topic(name) is None:
            store.create_topic(name, count)
        else:
            store.update_topic(name, count)
        account.topics[name] = frozenset([count])

    def _delete_topic(self) -> None:
        store, account = self._open_store, self.account
        name = self._dice.choice((*CONFIGURED, *self._puts.topics))
        if store.topic(name) is None:
            return
        self._say(f"delete topic {name}")
        number = len(account.offered)
        if name in CONFIGURED:
            account.topics[name] |= {0}
        else:
            account.deletions.append((name, number, False))
        store.delete_topic(name)
        if name in CONFIGURED:
            account.topics[name] = frozenset([0])
        else:
            account.deletions[-1] = (name, number, True)

    def _ask(self) -> None:
        """Lets the dispatch catch up, as every question does."""
        self._say("ask")
        self._open_store.queues()
        self._open_store.was_stored("nobody's")

    def _verify(self) -> None:
        self._say("verify")
        report = self._open_store.verify()
        if not any(fault.hits for fault in self._faults.faults):
            assert report.is_clean, [*map(str, report.findings)][:3]
