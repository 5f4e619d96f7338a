"""A soak: one store, one writer's life after the other, views beside them, and after each life everything looked at."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import flightlog
from flightlog.tests.soak.checker import OWN, check_log, check_queues
from flightlog.tests.soak.episodes import Episode, choose
from flightlog.tests.soak.ledger import DURABLE, STORED, THERE, VISIBLE, Finding, Ledger
from flightlog.tests.soak.places import Folder, Mounted
from flightlog.tests.soak.programs import HUNG_S, EndedError, Line, Program, View, kill_if_alive
from flightlog.tests.soak.telling import Head
from flightlog.tests.soak.writer import GEOMETRY, THREADS
from flightlog.tests.support import other_readers

VIEWS = 2
SIGKILL, SIGBUS = -9, -7
REFUSALS_A_THREAD = 2
SETTINGS = flightlog.StoreSettings(**GEOMETRY, accept_future_store_time=True)


class Told:
    """What the writer of one episode said of its own life."""

    def __init__(self) -> None:
        self.pid = 0
        self.opened_s = self.ending_s = float("inf")
        self.came = True
        self.refusals: Counter[int] = Counter()
        self.end: int | None = None

    def hear(self, line: Line) -> None:
        self.pid = line.get("pid", self.pid)
        self.opened_s = line.get("opened", self.opened_s)
        self.ending_s = min(line.get("ending", self.ending_s), self.ending_s)
        self.came = line.get("came", self.came)
        self.end = line.get("end", self.end)
        if "refused" in line:
            self.refusals[line["by"]] += 1


class Soak:
    """Used as a context manager. Everything it needs lies in `folder`, and what was found stays there."""

    def __init__(self, folder: Path, seed: int, *, can_mount: bool, lies: bool = False) -> None:
        self._folder, self._seed, self._lies = folder, seed, lies
        self._dice = random.Random(seed)
        self._place = Mounted(folder) if can_mount else Folder(folder)
        self.ledger = Ledger(folder / "ledger", GEOMETRY["segment_size"])
        self._errors: BinaryIO = (folder / "errors").open("ab")
        self._writer = Program(self._errors, "writer", str(self._place.place))
        self._views = [View(self._errors, f"{seed} {number}") for number in range(VIEWS)]
        self.counts: Counter[str] = Counter()

    @property
    def can_lose_power(self) -> bool:
        return self._place.can_lose_power

    def __enter__(self) -> Soak:
        for view in self._views:
            view.do({"open": str(self._place.store)})
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.stop()
        for view in self._views:
            view.stop()
        self.ledger.close()
        self._errors.close()
        self._place.release()

    def run(self, *, until: Callable[[int], bool]) -> None:
        """Episode after episode until `until(number of episodes)`. Raises Finding, with the store kept."""
        number = 0
        while not until(number):
            episode = choose(number, self._dice, can_lose_power=self._place.can_lose_power, lies=self._lies)
            with (self._folder / "episodes").open("a") as file:
                file.write(json.dumps(asdict(episode)) + "\n")
            try:
                self._live_and_open(episode)
            except BaseException as e:
                e.add_note(f"episode {number} of seed {self._seed}: {episode}")
                self._keep(e)
                raise
            number += 1

    def _keep(self, error: BaseException) -> None:
        try:
            if self._place.store.exists():
                shutil.copytree(self._place.store, self._folder / "store")
        except OSError as e:  # such as a disk whose power is still off
            error.add_note(f"of the store not everything could be copied: {str(e)[:300]}")

    def _live_and_open(self, episode: Episode) -> None:
        """What a sync lied about can also stop the opening, before any acknowledgement is looked at."""
        try:
            self._live(episode)
        except flightlog.CorruptLogError as e:
            raise Finding(f"the store cannot be opened: {e}") from e

    def _live(self, episode: Episode) -> None:
        told = self._write(episode)
        is_cut = episode.end == "cut" and told.came
        self._report(episode, told)
        if is_cut:
            boots_anew = self.counts["cuts"] % 2 == 1
            self._place.lose_power(boots_anew=boots_anew)
            self.counts["same boots"] += not boots_anew
        level = DURABLE if is_cut else STORED
        if not is_cut and told.came and episode.full and episode.end == "kill":
            self._look(level)  # while the disk is still full
        self._place.give_room_back()
        self._count(episode, told)
        self._check(episode, level)
        if is_cut:
            for view in self._views:
                view.do({"open": str(self._place.store)})

    def _write(self, episode: Episode) -> Told:
        """Let a writer live; returns what it said when it has ended."""
        told = Told()
        self._writer.tell(asdict(episode))
        try:
            self._listen(episode, told)
        except BaseException:
            if told.end is None and told.pid:
                kill_if_alive(told.pid)
            raise
        if told.came and episode.end != "close":
            expected = (SIGKILL,) if episode.end == "kill" else (0, SIGBUS)
        else:
            expected = (0,)
        if told.end not in expected:
            raise Finding(f"a writer ended with {told.end}, expected {expected}")
        return told

    def _listen(self, episode: Episode, told: Told) -> None:
        deadline_s, is_full = time.monotonic() + HUNG_S, False
        while told.end is None:
            try:
                line = self._writer.next_line(deadline_s)
            except TimeoutError:
                raise Finding(f"a writer did not end within {HUNG_S} s") from None
            except EndedError as e:
                raise Finding(str(e)) from None
            told.hear(line)
            self.ledger.hear(line)
            if episode.full and "ack" in line and not is_full:
                is_full = True
                self._place.take_all_room()
            if is_full and episode.end == "close" and self._all_were_refused(told):
                self._place.give_room_back()

    @staticmethod
    def _all_were_refused(told: Told) -> bool:
        return all(told.refusals[thread] >= REFUSALS_A_THREAD for thread in range(THREADS))

    # -- views

    def _report(self, episode: Episode, told: Told) -> None:
        """Have the views say what they have seen, and hold the store to it."""
        is_cut = episode.end == "cut" and told.came
        for number, view in enumerate(self._views):
            view.do({"close": True} if is_cut else {"report": number})
            said, view.said = view.said, []
            for line in said:
                if "counts" in line:
                    self.counts.update(line["counts"])
                elif "trouble" in line and not (is_cut and line["at"] >= told.ending_s):
                    raise Finding(f"a view: {line['trouble']}")
                elif "saw" in line:
                    self._sight(episode, told, line, is_cut=is_cut)

    def _sight(self, episode: Episode, told: Told, line: Line, *, is_cut: bool) -> None:
        if is_cut and not (episode.mode == "SYNC" and told.opened_s <= line["at"] < told.ending_s):
            return
        for where, head, digest in line["saw"]:
            topic, *_, physical_offset, place = where
            known = self.ledger.entries.get((physical_offset, place))
            if topic.startswith(OWN) and (known is None or known.fate != THERE):
                continue  # it may have been deleted since
            self.ledger.sight(where, Head(*head), digest, DURABLE if is_cut else VISIBLE)

    # -- checks

    def _count(self, episode: Episode, told: Told) -> None:
        end = episode.end if told.came or episode.end == "close" else "close"
        self.counts[{"kill": "kills", "cut": "cuts", "close": "closes"}[end]] += 1
        self.counts["episodes"] += 1
        self.counts["ended before"] += end != episode.end
        if told.refusals:
            self.counts["full disks"] += 1

    def _look(self, level: int) -> None:
        """A view of what a writer left, that nobody has recovered."""
        log = check_log(self._place.store, self.ledger, level)
        with flightlog.open_read_only(self._place.store) as view:
            check_queues(view, log, self.ledger, max(level, VISIBLE), is_whole=False)
            try:
                other_readers.agree(view)
            except AssertionError as e:
                raise Finding(f"beside a view: {e}") from e

    def _check(self, episode: Episode, level: int) -> None:
        store = self._place.store
        if not (store / "commitlog").exists():
            if self.ledger.required(level, 0):
                raise Finding("there is no log any more")
            return
        self._look(level)
        if episode.is_left:
            store = self._folder / "copy"
            shutil.copytree(self._place.store, store)
        with flightlog.open(store, SETTINGS) as recovered:
            log = check_log(store, self.ledger, level)
            there = check_queues(recovered, log, self.ledger, level, is_whole=True)
            self._verify(recovered)
        if not (log := check_log(store, self.ledger, level)).tail_is_zero:
            raise Finding(f"something stands behind the end of the log at {log.end}")
        with flightlog.open_read_only(store) as view:
            check_queues(view, log, self.ledger, level, is_whole=True)
            self._verify(view)
        self.counts["checks"] += len(self.ledger.required(level, log.start))
        self.counts["messages found"] += len(log.frames)
        self.ledger.settle(log.frames, there, log.start)
        if episode.is_left:
            shutil.rmtree(store)
            return
        for kept in (store / "flightlog").glob("cut-*"):  # else nights of them fill the disk
            kept.unlink()
            self.counts["torn tails"] += 1

    @staticmethod
    def _verify(store: flightlog.Store | flightlog.ReadOnlyStore) -> None:
        report = store.verify()
        if not report.is_clean:
            raise Finding(f"verify: {len(report.findings)} findings: {[*map(str, report.findings)][:3]}")
