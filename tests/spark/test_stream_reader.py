"""Streams over everything in a store, asked as Spark asks: each message once, in order, whatever comes in between."""

from __future__ import annotations

import itertools
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.spark.options.data_loss import CheckpointAheadError, DataLossError
from flightlog.spark.stream import streaming
from flightlog.store.errors import InvalidSettingsError, UsageError
from flightlog.tests.support.stream_driver import Row, StreamDriver

if TYPE_CHECKING:
    Stream = Callable[..., StreamDriver]

SEGMENT_SIZE = 16 << 10
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=100, rocketmq_strict=False)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Where the test puts its store, which is verified afterwards."""
    path = tmp_path / "store"
    yield path
    with flightlog.open_read_only(path if path.exists() else tmp_path / "elsewhere") as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def put(store: Store, numbers: Iterable[int], topic: str = "orders") -> None:
    store.put_many([Message(topic, b"%d " % n * (n % 50), queue_id=n % 3, keys=f"k{n}") for n in numbers])


def write(path: Path, numbers: Iterable[int], topic: str = "orders") -> None:
    with flightlog.open(path, SETTINGS) as store:
        put(store, numbers, topic)


def places(path: Path) -> list[int]:
    """Where each message of the store lies."""
    with flightlog.open_read_only(path) as view:
        return sorted(message.physical_offset for queue in view.queues() for message in view.read(*queue))


def end_of(path: Path) -> int:
    with flightlog.open_read_only(path) as view:
        return view.end_physical_offset


def offsets(rows: Iterable[Row]) -> list[int]:
    return [row["physicalOffset"] for row in rows]


def assert_gapless(rows: list[Row]) -> None:
    """Each record begins where the one before it ends, or a segment."""
    for before, after in itertools.pairwise(rows):
        end = before["physicalOffset"] + before["size"]
        assert after["physicalOffset"] == end or after["physicalOffset"] == -(-end // SEGMENT_SIZE) * SEGMENT_SIZE


def test_a_new_stream_begins_at_the_end_or_where_it_is_told(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(50))
    before = places(path)
    late, early = stream(path, dialect), stream(path, dialect, startingOffsets="earliest")
    assert (late.batch(), offsets(early.batch() or [])) == ([], before)
    assert (late.batch(), early.batch()) == (None, None)
    write(path, range(50, 60))
    assert offsets(late.rows()) == offsets(early.rows()) == places(path)[50:]


def test_the_first_batch_is_the_same_when_it_is_repeated(path: Path, stream: Stream, dialect: str) -> None:
    """Where "latest" is, is decided once."""
    write(path, range(20))
    query = stream(path, dialect)
    assert query.batch(commit=False) == []
    write(path, range(20, 30))
    query.start()
    assert query.batch() == []
    assert offsets(query.rows()) == places(path)[20:]


@pytest.mark.parametrize("seed", range(6))
def test_each_message_once_whatever_happens(path: Path, stream: Stream, dialect: str, seed: int) -> None:
    """Writers come, go and go on, batches are limited, the query dies before a batch, in it and behind it."""
    dice = random.Random(f"{os.environ['FLIGHTLOG_SEED']} {seed} {dialect}")
    limit = dice.choice((1, 7, 1000))
    store = flightlog.open(path, SETTINGS)
    query = stream(path, dialect, startingOffsets="earliest", maxOffsetsPerTrigger=limit, splitBytes=4096)
    number = 0
    seen: list[Row] = []
    for _ in range(60):
        match dice.randrange(6):
            case 0 | 1:
                count = dice.choice((1, 5, 40))
                put(store, range(number, number + count))
                number += count
            case 2:
                store.close()
                store = flightlog.open(path, SETTINGS)
            case 3:
                query.start()
            case 4:
                died = query.batch(commit=False)
                query.start()
                assert died is None or query.batch() == died, "a batch is the same however often it is repeated"
                seen += died or []
            case _:
                rows = query.batch() or []
                assert len(rows) <= limit
                seen += rows
    store.close()
    seen += query.rows()
    assert number > 100
    assert offsets(seen) == places(path)
    assert_gapless(seen)


def test_a_limit_holds_across_segments_and_filler(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(700))
    assert len(list((path / "commitlog").iterdir())) > 4
    query = stream(path, dialect, startingOffsets="earliest", maxOffsetsPerTrigger=64)
    batches = query.all_batches()
    assert [len(rows) for rows in batches] == [64] * 10 + [60]
    assert offsets(itertools.chain(*batches)) == places(path)


def test_a_batch_has_as_many_tasks_as_it_is_told(path: Path, stream: Stream) -> None:
    write(path, range(700))
    query = stream(path, startingOffsets="earliest", minPartitions=6)
    query.batch(commit=False)
    assert len(query.reader.partitions(query.reader.initialOffset(), query.place)) >= 6
    assert offsets(query.batch() or []) == places(path)


def test_available_now_ends_where_the_store_ended_when_it_began(path: Path, stream: Stream) -> None:
    write(path, range(100))
    query = stream(path, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    query.start(available_now=True)
    seen = query.batch() or []
    write(path, range(100, 150))
    seen += query.rows()
    assert offsets(seen) == places(path)[:100]
    query.start(available_now=True)
    assert offsets(query.rows()) == places(path)[100:]
    query.start(available_now=True)
    assert query.batch() is None


def test_trigger_once_takes_everything_whatever_the_limit_is(path: Path, stream: Stream) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    write(path, range(100))
    query = stream(path, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    end = query.reader.latestOffset(query.reader.initialOffset(), ReadAllAvailable())
    with flightlog.open_read_only(path) as view:
        assert end["physicalOffset"] == view.end_physical_offset
        assert query.reader.reportLatestOffset() == {"physicalOffset": view.end_physical_offset}


def test_only_what_is_visible_is_read(path: Path, stream: Stream, dialect: str) -> None:
    """Under sync flush a record is visible only once it is flushed: nothing of it may be shown before."""
    with flightlog.open(path, SETTINGS) as store:
        put(store, range(10))
        query = stream(path, dialect, startingOffsets="earliest")
        assert len(query.rows()) == 10
        put(store, range(10, 11))
        with flightlog.open_read_only(path) as view:
            end = view.end_physical_offset
        (row,) = query.rows()
        assert row["physicalOffset"] + row["size"] == query.place["physicalOffset"] == end


# -- what is gone, and what is not there


def remove_segments(path: Path, count: int) -> int:
    """As retention does at rest; returns where the log begins then."""
    (path / "flightlog" / "log-start").unlink(missing_ok=True)  # retention would have moved it
    segments = sorted((path / "commitlog").iterdir())
    for segment in segments[:count]:
        segment.unlink()
    return int(segments[count].name)


def test_what_retention_took_ends_the_stream_or_is_told(
    path: Path, stream: Stream, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, range(100))
    query = stream(path, dialect, startingOffsets="earliest")
    seen = query.rows()
    end = query.place["physicalOffset"]
    write(path, range(100, 700))
    every = places(path)
    begin = remove_segments(path, 3)
    with pytest.raises(DataLossError, match=rf"physical offsets {end} to {begin}.*failOnDataLoss=false goes on"):
        query.batch()
    query.start(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "flightlog.spark"):
        seen += query.rows()
    assert f"goes on without {path}: physical offsets {end} to {begin}" in caplog.text
    assert offsets(seen) == [place for place in every if place < end or place >= begin]


def test_a_batch_that_retention_took_before_it_was_repeated(path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(700))
    query = stream(path, dialect, startingOffsets="earliest")
    assert len(query.batch(commit=False) or []) == 700
    begin = remove_segments(path, 2)
    query.start()
    with pytest.raises(DataLossError, match=f"physical offsets 0 to {begin}"):
        query.batch()
    query.start(failOnDataLoss="false")
    assert offsets(query.batch() or []) == places(path)


def test_a_store_that_lost_its_end_is_refused(path: Path, tmp_path: Path, stream: Stream, dialect: str) -> None:
    write(path, range(100))
    shutil.copytree(path, tmp_path / "backup")
    query = stream(path, dialect, startingOffsets="earliest", failOnDataLoss="false")
    query.rows()
    write(path, range(100, 110))
    assert len(query.batch(commit=False) or []) == 10
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "backup", path)
    query.start()
    with pytest.raises(CheckpointAheadError, match=r"the stream has read up to physical offset .* older backup"):
        query.batch()
    query.committed += 1
    query.start()
    with pytest.raises(CheckpointAheadError, match="and the log ends at"):
        query.batch()
    write(path, range(100, 101))
    with pytest.raises(CheckpointAheadError):
        query.batch()


def test_a_segment_that_goes_while_a_batch_is_planned(path: Path, stream: Stream, monkeypatch: Any) -> None:
    """The walk to the end of the batch meets it: the batch is planned anew."""
    write(path, range(700))
    query = stream(path, startingOffsets="earliest", maxOffsetsPerTrigger=650, failOnDataLoss="false")
    look = query.reader._look

    def look_then_lose() -> None:
        look()
        query.reader._latest_places()
        monkeypatch.undo()
        remove_segments(path, 2)

    monkeypatch.setattr(query.reader, "_look", look_then_lose)
    assert offsets(query.rows()) == places(path)


def test_a_checkpoint_of_another_store_of_several_or_of_nothing(path: Path, stream: Stream) -> None:
    write(path, range(10))
    query = stream(path)
    query.offsets, query.committed = ['{"logEnd": 5, "queues": {"orders": {"0": 1}}}'], 1
    with pytest.raises(UsageError, match=r"stream over topics, and this one reads everything"):
        query.batch()
    query.offsets = ['{"stores": {"broker-a": {"physicalOffset": 5}}}']
    query.start()
    with pytest.raises(DataLossError, match="the store 'broker-a', which the query does not name any more"):
        query.batch()


def test_a_view_that_has_followed_much_is_made_anew(
    path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "RECORDS_FOLLOWED_MAX", 25)
    with flightlog.open(path, SETTINGS) as store:
        query = stream(path, startingOffsets="earliest")
        views, seen = [], []
        for i in range(8):
            put(store, range(i * 10, i * 10 + 10))
            seen += query.rows()
            views.append(query.reader._stores[""].view)
    assert len({id(view) for view in views}) == 3
    assert offsets(seen) == places(path)


# -- several stores, and options


def test_several_stores_have_a_place_each(tmp_path: Path, stream: Stream, dialect: str) -> None:
    brokers = [tmp_path / "broker-a", tmp_path / "broker-b"]
    for broker in brokers:
        write(broker, range(40))
    query = stream(tmp_path / "broker-*", dialect, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    seen = query.rows()
    assert query.place == {"stores": {broker.name: {"physicalOffset": end_of(broker)} for broker in brokers}}
    write(brokers[0], range(40, 50))
    write(tmp_path / "broker-c", range(15))
    assert len(query.rows()) == 10
    query.start()
    assert len(query.rows()) == 15, "the new store, from its beginning"
    assert offsets(seen[:20]) == [*places(brokers[0])[:10], *places(brokers[1])[:10]]
    shutil.rmtree(brokers[1])
    query.start()
    with pytest.raises(DataLossError, match="the store 'broker-b', which the query does not name any more"):
        query.batch()
    query.start(failOnDataLoss="false")
    assert query.rows() == []
    assert sorted(query.place["stores"]) == ["broker-a", "broker-c"]


def test_a_store_that_was_moved_is_the_same(path: Path, tmp_path: Path, stream: Stream) -> None:
    write(path, range(10))
    query = stream(path, startingOffsets="earliest")
    query.rows()
    write(path, range(10, 15))
    path.rename(tmp_path / "elsewhere")
    query.start(path=tmp_path / "elsewhere")
    assert len(query.rows()) == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffsets": "first"},
            "startingOffsets='first': expected earliest, latest, or a number for each queue",
        ),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger='0': expected a number of messages, 1 or more"),
        ({"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger='-5'"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss='no': expected true or false"),
    ],
)
def test_wrong_options_say_what_was_expected(path: Path, stream: Stream, options: dict[str, str], said: str) -> None:
    write(path, range(1))
    with pytest.raises(InvalidSettingsError) as caught:
        stream(path, **options)
    assert said in str(caught.value)
