"""A view beside the writers of a soak: follows every queue, queries by key, and says what it has seen.

Orders come as lines of JSON: `{"open": path}`, `{"close": true}`, `{"report": n}`, each answered once it is done. In
between it looks again and again. A look says where every queue ended, `{"saw": …, "at": time}`, with the time by the
monotonic clock after everything was read. What went wrong is `{"trouble": …, "at": time}`: whether it may, the campaign
knows, for on a disk without power it may; the view is then opened anew.
"""

from __future__ import annotations

import gc
import json
import random
import select
import sys
import time
from pathlib import Path
from typing import Any

import flightlog
from flightlog.store.errors import FlightlogError, SegmentGoneError, StoreNotFoundError
from flightlog.tests.soak.checker import OWN
from flightlog.tests.soak.telling import Head, told_by
from flightlog.tests.support.cut_work import say

PAUSE_S = 0.03
Queue = tuple[str, int]


class WrongError(Exception):
    """A view gave what it must not."""


class Follower:
    """One view of one store, and how far it has come in each queue."""

    def __init__(self, path: Path, dice: random.Random) -> None:
        self._path, self._dice = path, dice
        self._view: flightlog.ReadOnlyStore | None = None
        self._next: dict[Queue, int] = {}
        self._last: dict[tuple[Queue, int], Head] = {}
        self.counts = dict.fromkeys(("views", "looks", "read", "queries", "gone"), 0)

    def look(self) -> None:
        try:
            if self._view is None:
                self._view = flightlog.open_read_only(self._path)
                self.counts["views"] += 1
            self._look(self._view)
            if self._dice.random() < 0.01:
                self.close()
        except StoreNotFoundError:
            pass  # its first writer has not come so far
        except SegmentGoneError:
            self.counts["gone"] += 1  # retention of another process; the answer is another view
            self.close()
        except (FlightlogError, WrongError, OSError) as e:
            say({"trouble": repr(e)[:2000], "at": time.monotonic()})
            self.close()

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None
            gc.collect()  # nothing of it may hold a file: its disk is unmounted next, perhaps

    def _look(self, view: flightlog.ReadOnlyStore) -> None:
        view.refresh()
        saw: list[list[Any]] = []
        gaps: list[tuple[Queue, int]] = []
        asked: list[tuple[str, flightlog.StoredMessage]] = []
        for queue, (first, end) in view.queues().items():
            if (last := self._read(view, queue, first, end, gaps)) is not None:
                head, digest = told_by(*queue, last.decompressed_body())
                where = [*queue, last.queue_offset, last.physical_offset, last.batch_index or 0]
                saw.append([where, head, digest])
                if self._dice.random() < 0.2:
                    asked.append((head.key, last))
        if saw:
            say({"saw": saw[:20], "at": time.monotonic()})
        for key, message in asked:
            self._ask(view, key, message)
        if gaps:
            view.refresh()
            bounds = view.queues()
            for queue, reached in gaps:
                if bounds.get(queue, (reached, 0))[0] < reached and not queue[0].startswith(OWN):
                    raise WrongError(f"{queue}: messages before {reached} were passed over, and are there")
        self.counts["looks"] += 1

    def _read(
        self, view: flightlog.ReadOnlyStore, queue: Queue, first: int, end: int, gaps: list[tuple[Queue, int]]
    ) -> flightlog.StoredMessage | None:
        """Read on in one queue; returns the last message that is new."""
        start = self._next.get(queue, first)
        if end < start:
            if not queue[0].startswith(OWN):
                raise WrongError(f"{queue} had {start} messages, now it has {end}")
            start = first
        expected, last = max(start, first), None
        for message in view.read(*queue, start):
            if message.queue_offset < expected:
                raise WrongError(f"{queue}: {message.queue_offset} comes where {expected} was expected")
            if message.queue_offset > expected:  # retention, or else the next refresh tells
                gaps.append((queue, message.queue_offset))
            head, _ = told_by(*queue, message.decompressed_body())
            if head <= self._last.get((queue, head.thread), Head(-1, 0, 0)):  # also of a topic that was made anew
                raise WrongError(f"{queue}: {head} follows {self._last[queue, head.thread]}")
            self._last[queue, head.thread] = head
            expected, last = message.queue_offset + 1, message
            self.counts["read"] += 1
        self._next[queue] = expected
        return last

    def _ask(self, view: flightlog.ReadOnlyStore, key: str, message: flightlog.StoredMessage) -> None:
        found = [m.physical_offset for m in view.query(message.topic, key).messages]
        self.counts["queries"] += 1
        if message.physical_offset in found or message.topic.startswith(OWN):
            return
        view.refresh()
        first, _ = view.queues().get((message.topic, message.queue_id), (0, 0))
        if first <= message.queue_offset:
            raise WrongError(f"key {key} finds {found}, not the message at {message.physical_offset}")


def main(seed: str) -> None:
    dice = random.Random(seed)
    follower: Follower | None = None
    while True:
        pause_s = None if follower is None else PAUSE_S * dice.random()
        if not select.select([sys.stdin], [], [], pause_s)[0]:
            if follower is not None:
                follower.look()
            continue
        line = sys.stdin.readline()
        if not line:
            return
        order = json.loads(line)
        if "open" in order:
            follower = Follower(Path(order["open"]), dice)
        elif follower is not None:
            if "close" in order:
                follower.close()
            say({"counts": follower.counts})
            follower.counts = dict.fromkeys(follower.counts, 0)
            follower = None if "close" in order else follower
        say({"did": order})
