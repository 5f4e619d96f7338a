"""Grids of questions over a whole store: around every bound and border, and a seeded choice of the rest."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise, starmap
from typing import TypeVar

from flightlog.tests.interop import asking
from flightlog.tests.interop.asking import Case, Query, Question
from flightlog.tests.interop.harness import Line, QueueName

AnyQuestion = TypeVar("AnyQuestion", bound="Question")

COUNTS = (1, 2, 8, 32, 33, 200)
SIZES = (None, None, None, 1, 1_000, 100_000)
ABSENT_TAG = "no-such-tag"
COLLIDING_KEYS = ("Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB")
SAMPLED_TIMES = 25  # of a queue
QUERIES = 2500  # of a store, or more if the budget says so
MATCHES = 30_000  # how many messages the queries of a grid answer together


class Grid:
    """Questions about one store. `budget` bounds how many of each kind there are: a seeded choice is asked."""

    def __init__(self, case: Case, bounds: dict[QueueName, tuple[int, int]], *, seed: int, budget: int) -> None:
        self._asking, self._case, self._bounds, self._budget = asking, case, bounds, budget
        self._dice = random.Random(f"{seed} {case.name}")
        self._lines = case.by_queue

    def _choice(self, questions: Iterable[AnyQuestion], at_least: int = 0) -> list[AnyQuestion]:
        found, most = list(dict.fromkeys(questions)), max(self._budget, at_least)
        return found if len(found) <= most else self._dice.sample(found, most)

    def filters(self) -> list[str | None]:
        """None, one that all messages pass, a tag, two, one of no message, and two whose hashes collide."""
        tags = sorted(tag for tag in self._case.tags if "|" not in tag)
        some = self._dice.sample(tags, min(2, len(tags)))
        return [None, "*", *some[:1], " || ".join([*some, ABSENT_TAG]), ABSENT_TAG, *self._asking.COLLIDING_TAGS]

    def gets(self) -> list[Question]:
        return self._choice(self._gets())

    def _gets(self) -> Iterator[Question]:
        dice, filters, get, huge = self._dice, self.filters(), self._asking.Get, self._asking.HUGE
        for queue, (first, end) in self._bounds.items():
            for offset in (-huge, -1, end + 1_000, huge, *self._edges(queue, first, end)):
                for max_count in COUNTS:
                    yield get(*queue, offset, max_count, dice.choice(SIZES), dice.choice(filters))
                for tags in filters:
                    yield get(*queue, offset, dice.choice(COUNTS), dice.choice(SIZES), tags)
            for offset in range(first - 2, end + 3):
                yield get(*queue, offset, dice.choice(COUNTS), dice.choice(SIZES), dice.choice(filters))

    def _edges(self, queue: QueueName, first: int, end: int) -> list[int]:
        """Queue offsets around the bounds, the ends of queue files, and where messages come to lie in a new segment."""
        a_file, a_segment = self._case.geometry["queue_entries"], self._case.geometry["segment_size"]
        edges = {first, end, *range(-(-first // a_file) * a_file, end, a_file)}
        segments = [line["commitLogOffset"] // a_segment for line in self._lines.get(queue, [])]
        edges |= {first + i for i in range(1, len(segments)) if segments[i] != segments[i - 1]}
        return sorted({edge + near for edge in edges for near in (-2, -1, 0, 1, 2)})

    def times(self) -> list[Question]:
        return self._choice(self._times())

    def _times(self) -> Iterator[Question]:
        for queue in self._bounds:
            stored = sorted({line["storeTimestamp"] for line in self._lines.get(queue, self._case.lines)})
            some = {*self._dice.sample(stored, min(SAMPLED_TIMES, len(stored))), stored[0], stored[-1]}
            by_gap = sorted(pairwise(stored), key=lambda pair: pair[0] - pair[1])
            gaps = [(before + after) // 2 for before, after in by_gap[:5]]
            for at in sorted({0, self._asking.HUGE, *gaps, *(at + near for at in some for near in (-1, 0, 1))}):
                yield self._asking.OffsetAt(*queue, at, "lower")
                yield self._asking.OffsetAt(*queue, at, "upper")

    def queries(self) -> list[Query]:
        """Every key there is, or a choice of them, those that collide, and keys of no message, in each topic."""
        known = self._case.by_key
        topics = sorted({line["topic"] for line in self._case.lines})
        absent = [(topic, key) for topic in topics for key in (*COLLIDING_KEYS, "absent")] + [("no-such-topic", "Aa")]
        chosen = self._choice(starmap(self._asking.Query, known), QUERIES)
        return self._affordable([*starmap(self._asking.Query, absent), *chosen], known)

    def timed_queries(self) -> list[Query]:
        known = self._case.by_key
        queries = self._choice(self._timed_queries(known))
        self._dice.shuffle(queries)
        return self._affordable(queries, known)

    def _affordable(self, queries: list[Query], known: dict[tuple[str, str], list[Line]]) -> list[Query]:
        sizes = accumulate(len(known.get((q.topic, q.key), ())) for q in queries)
        return [query for query, size in zip(queries, sizes, strict=True) if size <= MATCHES]

    def _timed_queries(self, known: dict[tuple[str, str], list[Line]]) -> Iterator[Query]:
        stored, huge = sorted({line["storeTimestamp"] for line in self._case.lines}), self._asking.HUGE
        often = sorted(known, key=lambda pair: -len(known[pair]))[:20]
        for pair in [*often, *self._dice.sample(sorted(known), min(20, len(known)))]:
            for line in self._dice.sample(known[pair], min(4, len(known[pair]))):
                at, other = line["storeTimestamp"], self._dice.choice(stored)
                ranges = ((at, at), (0, at), (0, at - 1), (at, huge), (at + 1, huge), (other, other + 1500))
                for begin_ms, end_ms in ranges:
                    yield self._asking.Query(*pair, begin_ms, end_ms)

    def estimates(self) -> list[Question]:
        return self._choice(self._estimates())

    def _estimates(self) -> Iterator[Question]:
        """Within the bounds; without a filter also past them."""
        for queue, (first, end) in self._bounds.items():
            middle = (first + end) // 2
            for start, stop in ((first, end), (middle, end), (first - 5, middle), (middle, first)):
                for tags in self.filters():
                    if tags != "*":  # to flightlog the same as None; of RocketMQ a program asks without a filter then
                        yield self._asking.Estimate(*queue, start, stop, tags)
            yield self._asking.Estimate(*queue, -5, end + 50)
            yield self._asking.Estimate(*queue, end, end + 10)

    def past_the_end(self) -> list[Question]:
        """Estimates of ranges that end behind a queue's end."""
        tags = [tags for tags in self.filters() if tags not in (None, "*")]
        ranges = (((end, end + 10), (first, end + 1)) for first, end in self._bounds.values())
        several = zip(self._bounds, ranges, strict=True)
        return self._choice(
            self._asking.Estimate(*queue, *some, tag) for queue, both in several for some in both for tag in tags
        )

    def absent(self) -> list[Question]:
        """Gets from queues that nobody put anything into."""
        queues = [("nobody", 0), (self._case.lines[0]["topic"], 1_000)]
        return [
            self._asking.Get(*queue, offset, 32, None, tags)
            for queue in queues
            for offset in (-1, 0, 7)
            for tags in (None, "A")
        ]

    def first_keys(self) -> list[Question]:
        """Queries at the very times of the messages that index files begin with."""
        first = [line for line in self._case.lines if line["commitLogOffset"] in self._case.first_of_index_files]
        return [
            self._asking.Query(m["topic"], min(self._asking.keys_of(m)), m["storeTimestamp"], m["storeTimestamp"])
            for m in first
            if self._asking.keys_of(m)
        ]

    def looks(self) -> list[Question]:
        """At the starts of records, inside of them, and where there is nothing."""
        return self._choice(self._looks())

    def _looks(self) -> Iterator[Question]:
        for line in self._case.lines:
            yield self._asking.Look(line["commitLogOffset"])
        for line in self._dice.sample(self._case.lines, min(20, len(self._case.lines))):
            for inside in (1, 4, 8, line["size"] // 2, line["size"] - 1):
                yield self._asking.Look(line["commitLogOffset"] + inside)
        last = self._case.lines[-1]
        for nothing in (-1, last["commitLogOffset"] + last["size"], self._asking.HUGE):
            yield self._asking.Look(nothing)
