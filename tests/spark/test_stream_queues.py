"""Streams over topics, asked as Spark asks: an offset for each queue is the checkpoint."""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.spark.options.data_loss import CheckpointAheadError, DataLossError
from flightlog.store.errors import InvalidSettingsError, UsageError
from flightlog.tests.support.stream_driver import Row, StreamDriver

if TYPE_CHECKING:
    Stream = Callable[..., StreamDriver]

SETTINGS = StoreSettings(segment_size=16 << 10, queue_file_entries=50, rocketmq_strict=False)
Queue = tuple[str, int]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Where the test puts its store, which is verified afterwards."""
    path = tmp_path / "store"
    yield path
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def put(store: Store, numbers: Iterable[int], *topics: str) -> None:
    """Number n goes to queue n % 3 of the topics in turn."""
    names = topics or ("orders", "payments", "other")
    store.put_many([Message(names[n % len(names)], b"%d " % n * (n % 50), queue_id=n % 4) for n in numbers])


def write(path: Path, numbers: Iterable[int], *topics: str) -> None:
    with flightlog.open(path, SETTINGS) as store:
        put(store, numbers, *topics)


def ends(path: Path, *topics: str) -> dict[Queue, int]:
    with flightlog.open_read_only(path) as view:
        return {key: end for key, (_, end) in view.queues().items() if key[0] in topics and end}


def seen(rows: Iterable[Row]) -> dict[Queue, int]:
    """How many messages of each queue there are; each queue from its first message on, in order, without a hole."""
    found: Counter[Queue] = Counter()
    for row in rows:
        queue = row["topic"], row["partition"]
        assert row["offset"] == found[queue]
        found[queue] += 1
    return dict(found)


def place(query: StreamDriver) -> dict[Queue, int]:
    queues = query.place["queues"]
    return {(topic, int(queue_id)): offset for topic, by_id in queues.items() for queue_id, offset in by_id.items()}


@pytest.mark.parametrize("seed", range(6))
def test_each_message_of_the_topics_once_whatever_happens(path: Path, stream: Stream, dialect: str, seed: int) -> None:
    """As for the log; topics come and queues come, others are written to meanwhile."""
    dice = random.Random(f"{os.environ['FLIGHTLOG_SEED']} {seed} {dialect}")
    limit = dice.choice((1, 7, 1000))
    store = flightlog.open(path, SETTINGS)
    query = stream(path, dialect, subscribe="orders,later", startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    number, died = 0, False
    rows: list[Row] = []
    for step in range(60):
        match dice.randrange(6):
            case 0 | 1:
                count = dice.choice((1, 5, 40))
                put(store, range(number, number + count), *(("orders", "later", "other") if step > 30 else ()))
                number += count
            case 2:
                store.close()
                store = flightlog.open(path, SETTINGS)
            case 3:
                query.start()
            case 4:
                batch = query.batch(commit=False)
                query.start()
                assert batch is None or query.batch() == batch
                rows += batch or []
                died |= batch is not None
            case _:
                batch = query.batch() or []
                assert len(batch) <= max(limit, 8), "at most one message more for each of the eight queues"
                rows += batch
    store.close()
    rows += query.rows()
    assert died
    assert seen(rows) == ends(path, "orders", "later")
    assert place(query) == ends(path, "orders", "later")


def test_a_new_stream_begins_where_it_is_told(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(60), "orders")
    offsets = {"orders": {"0": -2, "1": -1, "2": 3, "3": 15}}
    by_offsets = stream(path, dialect, subscribe="orders", startingOffsets=json.dumps(offsets))
    latest = stream(path, dialect, subscribePattern="ord.*")
    some = stream(path, dialect, assign='{"orders": [1, 7]}', startingOffsets="earliest")
    assert Counter(row["partition"] for row in by_offsets.rows()) == {0: 15, 2: 12}
    assert latest.rows() == []
    assert Counter(row["partition"] for row in some.rows()) == {1: 15}
    write(path, range(60, 64), "orders", "ordinary")
    assert Counter(row["topic"] for row in latest.rows()) == {"orders": 2, "ordinary": 2}, "a new topic matches, too"
    assert [(row["partition"], row["offset"]) for row in by_offsets.rows()] == [(0, 15), (2, 15)]
    assert some.rows() == []
    with flightlog.open(path, SETTINGS) as store:
        store.put(Message("orders", b"a queue that is new", queue_id=7))
    assert [(row["partition"], row["offset"]) for row in some.rows()] == [(7, 0)]


def test_a_time_to_begin_at(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(40), "orders")
    with flightlog.open_read_only(path) as view:
        # Every queue has a message stored then or later; the last put may have come a millisecond after the others.
        newest = min(max(m.store_timestamp_ms for m in view.read("orders", queue_id)) for queue_id in range(4))
    for selection in ({"subscribe": "orders"}, {}):
        query = stream(path, dialect, startingTimestamp=newest, **selection)
        rows = query.rows()
        assert rows[-1]["offset"] == 9
        with pytest.raises(InvalidSettingsError, match="startingOffsetsByTimestampStrategy=latest"):
            stream(path, dialect, startingTimestamp=newest + 10**9, **selection).batch()
        late = stream(
            path,
            dialect,
            startingTimestamp=newest + 10**9,
            startingOffsetsByTimestampStrategy="latest",
            **selection,
        )
        assert late.rows() == []


def test_the_first_batch_is_the_same_when_it_is_repeated(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(20), "orders")
    query = stream(path, dialect, subscribe="orders")
    assert query.batch(commit=False) == []
    write(path, range(20, 30), "orders")
    query.start()
    assert query.batch() == []
    assert len(query.rows()) == 10


def test_a_limit_is_shared_by_the_queues(path: Path, stream: Stream) -> None:
    with flightlog.open(path, SETTINGS) as store:
        store.put_many([Message("orders", b"x", queue_id=0) for _ in range(900)])
        store.put_many([Message("orders", b"x", queue_id=1) for _ in range(99)])
        store.put(Message("orders", b"x", queue_id=2))
    query = stream(path, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger=100)
    batches = query.all_batches()
    assert Counter(row["partition"] for row in batches[0]) == {0: 90, 1: 9, 2: 1}
    assert len(batches) <= 12
    assert seen(itertools.chain(*batches)) == ends(path, "orders")


def test_available_now_takes_no_queue_that_comes_later(path: Path, stream: Stream) -> None:
    write(path, range(40), "orders")
    query = stream(path, subscribe="orders,later", startingOffsets="earliest", maxOffsetsPerTrigger=10)
    query.start(available_now=True)
    rows = query.batch() or []
    write(path, range(40, 80), "orders", "later")
    rows += query.rows()
    assert seen(rows) == {("orders", i): 10 for i in range(4)}
    query.start(available_now=True)
    assert seen([*rows, *query.rows()]) == ends(path, "orders", "later")


def test_other_topics_and_their_restarts_are_no_news(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(20), "orders")
    query = stream(path, dialect, subscribe="orders", startingOffsets="earliest")
    query.rows()
    write(path, range(20, 40), "other")
    query.start()
    assert query.batch() is None


def test_topics_that_are_added_and_left_out(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(60))
    query = stream(path, dialect, subscribe="orders,other", startingOffsets="earliest")
    query.rows()
    query.start(subscribe="orders,payments")
    rows = query.rows()
    assert {row["topic"] for row in rows} == {"payments"}
    assert seen(rows) == ends(path, "payments")
    assert place(query) == ends(path, "orders", "payments")


# -- what is gone, and what is not there


def test_what_retention_took_ends_the_stream_or_is_told(
    path: Path, stream: Stream, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, range(40), "orders")
    query = stream(path, dialect, subscribe="orders", startingOffsets="earliest")
    query.rows()
    write(path, range(40, 800), "orders")
    (path / "flightlog" / "log-start").unlink()  # retention would have moved it
    for segment in sorted((path / "commitlog").iterdir())[:3]:
        segment.unlink()
    with flightlog.open_read_only(path) as view:
        first, end = view.queues()["orders", 0]
    assert first > 10
    with pytest.raises(DataLossError, match=rf"topic orders queue 0, offsets 10 to {first}"):
        query.batch()
    query.start(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "flightlog.spark"):
        rows = query.rows()
    assert f"topic orders queue 0, offsets 10 to {first}" in caplog.text
    assert [row["offset"] for row in rows if row["partition"] == 0] == list(range(first, end))


def test_a_topic_that_was_deleted_and_made_anew(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(40), "orders")
    query = stream(path, dialect, subscribe="orders", startingOffsets="earliest")
    assert len(query.rows()) == 40
    with flightlog.open(path, SETTINGS) as store:
        store.delete_topic("orders")
        put(store, range(80), "orders")
    with pytest.raises(DataLossError, match="queue 0 from offset 10 on, which was deleted with its topic"):
        query.batch()
    query.start(failOnDataLoss="false")
    rows = query.rows()
    assert seen(rows) == {("orders", i): 20 for i in range(4)}
    query.start()
    assert query.batch() is None


def test_a_store_that_lost_its_end_is_refused(path: Path, tmp_path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(40), "orders")
    shutil.copytree(path, tmp_path / "backup")
    write(path, range(40, 44), "orders")
    query = stream(path, dialect, subscribe="orders", startingOffsets="earliest", failOnDataLoss="false")
    query.rows()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "backup", path)
    for _ in range(2):
        query.start()
        with pytest.raises(CheckpointAheadError, match="offset 11 of topic orders queue 0, and it ends at 10"):
            query.batch()
        write(path, range(800), "other")  # the log is longer than ever


def test_a_checkpoint_of_a_stream_over_everything(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(10))
    query = stream(path, dialect, startingOffsets="earliest")
    query.rows()
    query.start(subscribe="orders")
    with pytest.raises(UsageError, match="stream over everything, and this one reads topics"):
        query.batch()


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(path: Path, stream: Stream, option: str) -> None:
    write(path, range(1))
    with pytest.raises(InvalidSettingsError, match="a stream has no end"):
        stream(path, **{option: "latest" if option == "endingOffsets" else "5"})
