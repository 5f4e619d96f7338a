"""The same questions to RocketMQ and to flightlog about the same stores: fresh ones from the seed of the run,
golden ones and the small ones of tests/data.

RocketMQ answers about a copy that it has opened and recovered; flightlog about one that it opened read-only and one
that it opened for writing. Where the two differ for a reason, test_differences_keys.py or test_differences_queues.py
has a test named after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import ReadOnlyStore, Store, StoreSettings
from flightlog.index.key.index_file import key_hash
from flightlog.tests.interop.asking import Question
from flightlog.tests.interop.cases import Asked

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]

PARKED = flightlog.StoreSettings(deliver_delayed=False)
"""What RocketMQ wrote to wait goes on waiting."""

FRESH = ("fresh-clean", "fresh-halted", "fresh-lagging", "fresh-late", "fresh-rolls", "fresh-long")
GOLDEN = (
    *(
        "abort",
        "abort-cqlag",
        "abort-late",
        "abort-reopen",
        "abort-torn",
        "batch-bcq",
        "cqext",
        "default-sizes",
        "delay-tx",
    ),
    *("lmq", "minoffset", "propcrc", "rollover", "v1-clean", "v2-v6"),
)
COMMITTED = ("rocketmq-collisions", "rocketmq-index-behind")
WRITTEN = (
    *FRESH,
    *COMMITTED,
    "abort-cqlag",
    "abort-late",
    "abort-torn",
    "cqext",
    "delay-tx",
    "lmq",
    "minoffset",
    "rollover",
)
KEYS_MISSING = ("fresh-late", "rocketmq-index-behind")
WHOLE_SECOND_MS = 1000


BOTH_WAYS = [(name, "read") for name in (*FRESH, *GOLDEN, *COMMITTED)] + [(name, "write") for name in WRITTEN]


@dataclass(frozen=True)
class Opened:
    """A store with RocketMQ's answers, open in flightlog."""

    asked: Asked
    store: Store | ReadOnlyStore

    def pairs(self, kind: str) -> list[tuple[Any, Any]]:
        return self.asked.pairs[kind]

    def check(self, pairs: list[tuple[Question, Any]]) -> None:
        """Assert that flightlog answers what RocketMQ did."""
        wrong = [(q, theirs, ours) for q, theirs in pairs if (ours := q.ours(self.store)) != theirs]
        shown = "\n".join(f"{q}\n  RocketMQ:  {theirs}\n  flightlog: {ours}" for q, theirs, ours in wrong[:5])
        assert not wrong, f"{len(wrong)} of {len(pairs)} answers differ:\n{shown}"


@pytest.fixture(scope="module", params=BOTH_WAYS, ids="-".join)
def opened(
    request: pytest.FixtureRequest,
    asked: dict[str, Asked],
    copy_store: Callable[[Path, Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Opened]:
    name, how = request.param
    found = asked[name]
    if how == "read":
        with flightlog.open_read_only(found.case.path) as view:
            yield Opened(found, view)
        return
    path = copy_store(found.case.path, tmp_path_factory.mktemp("ours") / name)
    with flightlog.open(path, PARKED) as store:
        yield Opened(found, store)
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def test_bounds(opened: Opened) -> None:
    bounds = {queue: bounds for queue, bounds in opened.asked.bounds.items() if bounds != (0, 0)}
    assert opened.store.queues() == bounds


def test_get(opened: Opened) -> None:
    opened.check([(q, theirs) for q, theirs in opened.pairs("gets") if not opened.asked.case.collides(q.tags)])


def test_get_from_a_queue_that_is_not_there(opened: Opened) -> None:
    opened.check(opened.pairs("absent"))


@pytest.mark.parametrize("name", [*FRESH, *GOLDEN])
def test_get_far_from_the_end_of_the_log(asked: dict[str, Asked], name: str) -> None:
    """Where RocketMQ takes nothing for being in memory, it answers less at a time."""
    found = asked[name]
    pairs = [(q, theirs) for q, theirs in found.pairs["far_gets"] if not found.case.collides(q.tags)]
    with flightlog.open_read_only(found.case.path, StoreSettings(access_memory_percent=0)) as view:
        Opened(found, view).check(pairs)


def test_offset_at(opened: Opened) -> None:
    opened.check(opened.pairs("times"))


def test_message_at(opened: Opened) -> None:
    opened.check(opened.pairs("looks"))


def test_estimates(opened: Opened) -> None:
    opened.check(opened.pairs("estimates"))


def by_hash(asked: Asked) -> dict[int, set[int]]:
    """What RocketMQ's index cannot tell apart: the hash that it keeps of a key -> physical offsets."""
    found: dict[int, set[int]] = defaultdict(set)
    for (topic, key), lines in asked.case.by_key.items():
        found[key_hash(topic, key)] |= {line["commitLogOffset"] for line in lines}
    return found


def test_key_queries(opened: Opened) -> None:
    """flightlog answers exactly the messages with the key, newest first; RocketMQ those with its hash, and after an
    unclean exit, or with an index that was behind, not always all of them."""
    case, hashes = opened.asked.case, by_hash(opened.asked)
    loses_keys = not case.ends_cleanly or case.name in KEYS_MISSING
    for q, theirs in opened.pairs("queries"):
        assert q.ours(opened.store) == case.answer(q), q
        alike = hashes[key_hash(q.topic, q.key)]
        assert set(theirs) <= alike if loses_keys else set(theirs) == alike, (q, theirs, alike)


def test_key_queries_in_a_range_of_time(opened: Opened) -> None:
    """flightlog is exact to the millisecond; RocketMQ keeps whole seconds and places a message up to a second too
    early."""
    case = opened.asked.case
    hashes, misdated = by_hash(opened.asked), case.first_of_index_files
    times = {line["commitLogOffset"]: line["storeTimestamp"] for line in case.lines}
    loses_keys = not case.ends_cleanly or case.name in KEYS_MISSING
    for q, theirs in opened.pairs("timed_queries"):
        assert q.ours(opened.store) == case.answer(q), q
        alike = hashes[key_hash(q.topic, q.key)]
        possible = {at for at in alike if q.begin_ms <= times[at] < q.end_ms + WHOLE_SECOND_MS} | misdated
        assert set(theirs) <= possible, (q, theirs)
        if not loses_keys:
            certain = {at for at in alike if q.begin_ms + WHOLE_SECOND_MS <= times[at] + 1 and times[at] <= q.end_ms}
            assert certain - misdated <= set(theirs), (q, theirs)
