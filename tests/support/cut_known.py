"""What has to be there after a cut, by what the writers said before it."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from typing import Any

import flightlog
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.schedule.timer_request import TIMER_TOPIC
from flightlog.tests.support import cut_later
from flightlog.tests.support.cut_later import Later

DIGEST_SIZE = 20
HEAD = re.compile(rb"(\d+) (\d+) (\d+) (\d+) ")
"""Round, thread, number, and how many are in its inner batch."""
DOOMED, SETTLED = "doomed", "settled"
STEWARD = 3
"""The topics, and the thread, in which cut_work.py makes and deletes topics."""
ASKED_KEYS = 3

Place = tuple[str, int, int]
Found = dict[Place, tuple[int, str]]


class Known:
    """What is known of one store, over all its writers.

    Messages:  an acknowledged one is there, once, at its place, unless retention took its segment; its inner batch is
               whole; nothing stands there twice, damaged or out of its thread's order; its key finds it
    DOOMED     after a deletion nothing of before is ever seen again; one that was interrupted has happened or not
    SETTLED    has the number of queues that was last acknowledged, or one that was tried since
    the log    does not begin before a segment whose removal was acknowledged
    for later  what waits keeps its place; nothing is delivered before its time, and all that still waits in the end is
    """

    def __init__(self) -> None:
        self.must: Found = {}
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        """Acknowledgements, by call."""
        self.checks = 0
        self.later: Later = cut_later.Later()
        """The delayed messages of the last look."""
        self._log_start = 0
        self._counts: list[int | None] = [None]
        """Queues that SETTLED may have; None: it may not be there."""
        self._doomed_from = (0, 0)
        """The first round and number of a message of DOOMED that was not deleted."""
        self._is_gone = False
        """DOOMED was deleted, and nobody has begun to make it anew."""
        self._in_doubt: tuple[int, int] | None = None

    def hear(self, line: dict[str, Any]) -> None:
        if "wrong" in line:
            self.wrong.append(line["wrong"])
        elif "where" in line:
            topic, queue_id, queue_offset, physical_offset = line["where"]
            place = (topic, queue_id, queue_offset)
            if place in self.must:
                self.wrong.append(f"{place} was given away twice")
            self.done[line["by"]] += 1
            self.must[place] = (physical_offset, line["sha1"])
        elif "makes" in line:
            self._is_gone = False
        elif "deletes" in line:
            round_number, number = line["deletes"]
            self._in_doubt = (round_number, number)
        elif "deleted" in line:
            self._delete(is_known=True)
            self.done["delete_topic"] += 1
        elif "tries" in line:
            self._counts.append(line["tries"])
        elif "settled" in line:
            self._counts = [line["settled"]]
            self.done["create_topic, update_topic"] += 1
        elif "cleaned" in line:
            self._log_start = max(self._log_start, line["cleaned"])
            self.done["removed segments"] += line["segments"]

    def _delete(self, is_known: bool) -> None:
        """`is_known`: and not only that none of the messages is there, which may all have been lost."""
        assert self._in_doubt is not None
        self._doomed_from, self._in_doubt, self._is_gone = self._in_doubt, None, is_known
        self.must = {place: what for place, what in self.must.items() if place[0] != DOOMED}

    def check(self, store: flightlog.Store | flightlog.ReadOnlyStore) -> int:
        """Raises AssertionError; returns how many messages there are."""
        found, doomed = self._read(store)
        log_start = int(min(os.listdir(store.path / "commitlog"), default="0"))
        assert log_start >= self._log_start, f"the log begins at {log_start}, and did at {self._log_start} already"
        self.must = {place: what for place, what in self.must.items() if what[0] >= log_start}
        if self._in_doubt is not None:
            if any(head < self._in_doubt for head in doomed):
                self._in_doubt = None  # it has not happened: all of it must be there
            else:
                self._delete(is_known=any(topic == DOOMED for topic, _, _ in self.must))
        assert min(doomed, default=self._doomed_from) >= self._doomed_from, "a deleted topic's messages are back"
        if self._is_gone:
            assert not doomed and not self._keys_of_doomed(store)
            assert isinstance(store, flightlog.ReadOnlyStore) or store.topic(DOOMED) is None
        lost = self.must.items() - found.items()
        text = f"{len(lost)} of {len(self.must)} acknowledged messages are lost or differ ({len(found)} found)"
        assert not lost, f"{text}: {sorted(lost)[:3]}"
        topic = store.topic(SETTLED)
        count = None if topic is None else topic.write_queue_count
        assert count in self._counts, f"{SETTLED} has {count} queues, expected one of {self._counts}"
        self._counts = [count]
        self.checks += len(self.must)
        return len(found)

    def _read(self, store: flightlog.Store | flightlog.ReadOnlyStore) -> tuple[Found, list[tuple[int, int]]]:
        """Everything that is there, and round and number of what DOOMED holds."""
        found: Found = {}
        heads: set[bytes] = set()
        doomed: list[tuple[int, int]] = []
        batches: Counter[tuple[int, int]] = Counter()
        later: Later = cut_later.Later()
        for key, (first, end) in store.queues().items():
            last: dict[bytes, int] = {}
            offset = first
            for message in store.read(*key, first):
                assert message.queue_offset == offset, f"{key}: {message.queue_offset}, expected {offset}"
                offset += 1
                body = message.body
                assert hashlib.sha1(body[:-DIGEST_SIZE]).digest() == body[-DIGEST_SIZE:], f"{message} is corrupt"
                head = HEAD.match(body)
                assert head is not None
                if later.is_delivered(message, head.group()):  # in the order of their times, and maybe more than once
                    continue
                assert head.group() not in heads, f"{message} is there twice"
                heads.add(head.group())
                round_number, thread, number, of = head.groups()
                writer = round_number + b" " + thread
                assert last.get(writer, -1) < int(number), f"{message}: a thread's messages changed their order"
                last[writer] = int(number)
                if message.topic == DOOMED:
                    doomed.append((int(round_number), int(number)))
                if int(of) > 1:
                    batches[message.physical_offset, int(of)] += 1
                found[(*key, message.queue_offset)] = (message.physical_offset, hashlib.sha1(body).hexdigest())
            assert offset == end, f"{key}: read up to {offset}, expected {end}"
        assert not [batch for batch, count in batches.items() if count != batch[1]], "a batch is there in part"
        later.check()
        self.later = later
        self._ask_for_keys(store, found)
        return found, doomed

    def _ask_for_keys(self, store: flightlog.Store | flightlog.ReadOnlyStore, found: Found) -> None:
        places = sorted(place for place in found if place[0] not in (SCHEDULE_TOPIC, TIMER_TOPIC))
        for topic, queue_id, offset in places[:: len(places) // ASKED_KEYS + 1]:
            message = next(store.read(topic, queue_id, offset))
            there = [m.queue_offset for m in store.query(topic, message.keys[0]).messages if m.queue_id == queue_id]
            assert offset in there, f"{message} is not found by its key"

    def _keys_of_doomed(self, store: flightlog.Store | flightlog.ReadOnlyStore) -> list[Any]:
        """What the key of the last message before the deletion still finds."""
        round_number, number = self._doomed_from
        return list(store.query(DOOMED, f"{round_number}-{STEWARD}-{number - 1}").messages)
