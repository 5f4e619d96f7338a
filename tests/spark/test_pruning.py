"""Filters that are pushed and the option `tags`: whatever is left out for them, the rows of a query stay the same."""

from __future__ import annotations

import operator
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as asked

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan import batch_planning
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.spark.plan.filters import bounds_of
from flightlog.spark.plan.log_planning import LogRange
from flightlog.spark.schema import spark_schema
from flightlog.spark.source import FilteredReader, LogBatchReader
from flightlog.store.errors import InvalidSettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Load = Callable[..., DataFrame]
    Row = dict[str, Any]

SEGMENT_SIZE = 32 << 10
TOPICS = ("a", "b", "aa", "%RETRY%группа")
TAGS = ("pay", "Aa", "BB", None)  # Aa and BB have one hash
START_MS = 1_800_000_000_000
COLUMNS = ("topic", "partition", "offset", "timestamp", "tags", "key", "keys", "uniqKey", "physicalOffset", "value")

PREPARED, COMMIT = 0x4, 0x8


class Ticking:
    """A clock that goes on by a second with every look."""

    def __init__(self) -> None:
        self.now = START_MS

    def now_ms(self) -> int:
        self.now += 1000
        return self.now

    def monotonic_s(self) -> float:
        return self.now / 1000


def messages() -> list[Message]:
    random_of = random.Random(7)
    return [
        Message(
            random_of.choices(TOPICS, (8, 4, 2, 1))[0],
            b"%d" % i * random_of.randrange(40),
            tags=random_of.choice(TAGS),
            keys=random_of.choice([f"k{i % 9}", ("x", f"k{i % 9}"), ()]),
            uniq_key=random_of.choice([f"u{i % 50}", None]),
            queue_id=random_of.randrange(3),
            sys_flag=random_of.choices((0, COMMIT, PREPARED), (8, 1, 1))[0],
        )
        for i in range(900)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several segments of messages of some topics, tags and keys. Read it, never write."""
    path = tmp_path_factory.mktemp("pruning") / "store"
    settings = StoreSettings(segment_size=SEGMENT_SIZE, rocketmq_strict=False)
    with flightlog.open(path, settings, clock=Ticking()) as opened:
        for message in messages():
            opened.put(message)
    assert len(list((path / "commitlog").iterdir())) >= 4
    return path


def rows_of(reader: LogBatchReader) -> list[Row]:
    reader = pickle.loads(pickle.dumps(reader))
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def reader_of(kind: type[LogBatchReader], path: Path, **options: Any) -> LogBatchReader:
    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    return kind(parse_options(given), spark_schema(COLUMNS))


@pytest.fixture(scope="module")
def everything(store: Path) -> list[Row]:
    return rows_of(reader_of(LogBatchReader, store))


@pytest.fixture(scope="module")
def with_internal(store: Path, everything: list[Row]) -> list[Row]:
    rows = rows_of(reader_of(LogBatchReader, store, includeInternal=True))
    assert len(rows) > len(everything)
    return rows


COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    asked.EqualTo: operator.eq,
    asked.GreaterThan: operator.gt,
    asked.GreaterThanOrEqual: operator.ge,
    asked.LessThan: operator.lt,
    asked.LessThanOrEqual: operator.le,
}


def matches(row: Row, each: Any) -> bool:
    """What Spark makes of a filter."""
    value = row[each.attribute[0]]
    if isinstance(each, asked.StringStartsWith):
        return value is not None and value.startswith(each.value)
    if isinstance(each, asked.In):
        return value in each.value
    return value is not None and COMPARISONS[type(each)](value, each.value)


def time(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from([*TOPICS, "none"]),
    "tags": st.sampled_from(["pay", "Aa", "BB", "none"]),
    "key": st.sampled_from([b"x", b"k1", b"k2", b"none"]),
    "uniqKey": st.sampled_from(["u1", "u2", "none"]),
    "partition": st.integers(-1, 3),
    "offset": st.integers(-1, 200),
    "physicalOffset": st.integers(-1, 5 * SEGMENT_SIZE),
    "timestamp": st.integers(-10, 1000).map(lambda second: time(START_MS + 1000 * second)),
}


STARTS = {"topic": ["a", "%RETRY%", "none", ""], "tags": ["p", "A", "none"], "uniqKey": ["u1", "u", "none"]}


@st.composite
def filters(draw: st.DrawFn) -> list[Any]:
    found: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(LITERALS)))
        kind = draw(st.sampled_from([asked.In, asked.EqualTo, *COMPARISONS]))
        if name in STARTS and draw(st.booleans()):
            found.append(asked.StringStartsWith((name,), draw(st.sampled_from(STARTS[name]))))
        elif kind is asked.In:
            found.append(asked.In((name,), tuple(draw(st.lists(LITERALS[name], min_size=1, max_size=3)))))
        else:
            found.append(kind((name,), draw(LITERALS[name])))
    return found


@given(filters(), st.sampled_from([4096, 1 << 20]), st.booleans())
def test_pushed_or_not_the_rows_are_the_same(
    store: Path, everything: list[Row], with_internal: list[Row], pushed: list[Any], split: int, internal: bool
) -> None:
    plain = with_internal if internal else everything
    reader = reader_of(FilteredReader, store, splitBytes=split, includeInternal=internal)
    assert isinstance(reader, FilteredReader)
    assert [id(each) for each in reader.pushFilters(pushed)] == [id(each) for each in pushed], "Spark evaluates them"
    found = rows_of(reader)
    by_place = operator.itemgetter("physicalOffset")
    wanted = [row for row in plain if all(matches(row, each) for each in pushed)]
    assert sorted((row for row in found if all(matches(row, each) for each in pushed)), key=by_place) == wanted


@pytest.mark.parametrize(
    ("tags", "wanted"), [("pay", {"pay"}), (" Aa ||none", {"Aa"}), ("pay||BB", {"pay", "BB"}), ("none", set())]
)
def test_the_option_tags_is_exact(store: Path, everything: list[Row], tags: str, wanted: set[str]) -> None:
    found = rows_of(reader_of(LogBatchReader, store, tags=tags))
    assert found == [row for row in everything if row["tags"] in wanted]
    assert bool(found) is bool(wanted)


@pytest.mark.parametrize("tags", ["*", ""])
def test_the_option_tags_for_all(store: Path, everything: list[Row], tags: str) -> None:
    assert rows_of(reader_of(LogBatchReader, store, tags=tags)) == everything


def test_wrong_options() -> None:
    with pytest.raises(InvalidSettingsError, match=r"tags='\|\|': .*names no tag"):
        parse_options({"path": "/s", "tags": "||"})
    with pytest.raises(InvalidSettingsError, match="pushDownPredicate='yes': expected true or false"):
        parse_options({"path": "/s", "pushDownPredicate": "yes"})


# -- by key


def bytes_planned(path: Path, *pushed: Any) -> int:
    options = replace(parse_options({"path": str(path)}), bounds=bounds_of(pushed))
    return sum(each.size for task in plan_batch(options) for each in task if isinstance(each, LogRange))


def test_a_key_reads_its_records_alone(store: Path, everything: list[Row]) -> None:
    for column, value in (("uniqKey", "u7"), ("key", b"k3")):
        pushed = asked.EqualTo((column,), value)
        reader = reader_of(FilteredReader, store)
        assert isinstance(reader, FilteredReader)
        reader.pushFilters([pushed])
        wanted = [row for row in everything if row[column] == value]
        assert wanted and rows_of(reader) == wanted
        assert 0 < bytes_planned(store, pushed) < bytes_planned(store) // 5
    assert bytes_planned(store, asked.EqualTo(("uniqKey",), "none")) == 0
    in_topic = bytes_planned(store, asked.EqualTo(("key",), b"k3"), asked.EqualTo(("topic",), "aa"))
    assert 0 < in_topic < bytes_planned(store, asked.EqualTo(("key",), b"k3"))


def test_an_index_that_does_not_cover_the_log_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = StoreSettings(segment_size=SEGMENT_SIZE, key_index=False)
    with flightlog.open(tmp_path / "store", settings) as opened:
        opened.put_many([Message("a", b"x" * 100, keys=f"k{i}", uniq_key=f"u{i}") for i in range(400)])
    pushed = asked.EqualTo(("uniqKey",), "u7")
    whole = bytes_planned(tmp_path / "store")
    assert 0 < bytes_planned(tmp_path / "store", pushed) < whole // 50, "so little is read by the driver"
    monkeypatch.setattr(batch_planning, "UNINDEXED_SIZE", 1000)
    assert bytes_planned(tmp_path / "store", pushed) == whole


# -- through Spark

WHERE = (
    "topic = 'b' and timestamp >= '2027-01-15 08:05:00'",
    "key = 'k3'",
    "key = 'k3' and topic in ('a', 'aa')",
    "uniqKey = 'u7' and partition < 2",
    "tags in ('Aa', 'pay') and physicalOffset between 40000 and 90000",
    "topic = 'a' and tags = 'BB' and offset > 20",
    "topic = 'a' or key = 'x'",
    "topic like '%RETRY!%гр%' escape '!'",
    "topic like 'a%' and tags like 'A%'",
    "tags is null and not topic = 'a'",
    "topic like '%RETRY%' and offset <=> null",
)


@pytest.mark.ci
@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_through_spark_the_rows_are_the_same(
    store: Path, load: Load, spark: SparkSession, is_enabled: str, everything: list[Row]
) -> None:
    """With pushing enabled in the session and without; each load is for one query."""
    names = ",".join(COLUMNS)
    queries = WHERE if is_enabled == "true" else WHERE[:2]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", is_enabled)
    try:
        frames = [
            load(store, columns=names, pushDownPredicate="true", splitBytes=32768).where(each) for each in queries
        ]
        pushed = [sorted(row.physicalOffset for row in frame.collect()) for frame in frames]
        assert load(store, columns="topic", pushDownPredicate="true").count() == len(everything)
        tasks = load(store, pushDownPredicate="true", splitBytes=8192).where("uniqKey = 'u7'").rdd.getNumPartitions()
        assert (tasks == 1) is (is_enabled == "true"), "Spark pushes where that is enabled"
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    plain = load(store, columns=names)
    for each, found in zip(queries, pushed, strict=True):
        assert found == sorted(row.physicalOffset for row in plain.where(each).collect()), each
    assert sum(map(bool, pushed)) == min(len(queries), len(WHERE) - 1), "but for the last one they find something"


@pytest.mark.ci
def test_one_load_answers_many_queries_as_long_as_nothing_is_pushed(
    store: Path, load: Load, everything: list[Row]
) -> None:
    """What Spark gets wrong for a source that always takes filters: it shares what one query pushed."""
    frame = load(store, columns="topic,key")
    one, other = frame.where("topic = 'a'"), frame.where("topic = 'b'")
    counts = {topic: sum(row["topic"] == topic for row in everything) for topic in "ab"}
    assert one.union(other).count() == counts["a"] + counts["b"]
    assert one.count() == counts["a"]
    assert frame.count() == len(everything)
