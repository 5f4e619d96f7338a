"""Wrong calls: each is answered by one of our errors that names the argument, what was given and what is expected, and
nothing is written."""

# mypy: disable-error-code="arg-type, dict-item, var-annotated"

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flightlog
from flightlog import (
    Consumer,
    DeduplicationWindow,
    Message,
    MessageQueue,
    MessageTypeError,
    PopHandle,
    Producer,
    Stores,
    StoreSettings,
    TopicColumns,
    TransactionChecker,
    topic_states,
    topic_traffic,
)
from flightlog.consume.deliver.back_off import BackOff
from flightlog.consume.deliver.process_queue import FlowLimits
from flightlog.produce.faults import FaultRules
from flightlog.store.errors import InvalidArgumentError, InvalidMessageError, InvalidSettingsError, WrongTypeError
from flightlog.store.timer_errors import InvalidTimerError, TimerTooLateError, UnknownTimerError
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process

Call = Callable[[Any], object]
Row = tuple[Call, type[Exception], str, str]
"""A call, the error that it raises, the argument that the error names, and what else it says."""

NOW_MS = 1_700_000_000_000
HANDLE = PopHandle("g", "t", f"0 {NOW_MS} 1000 0 0 store 0 0")
BAD_WORDS = (
    "0",
    "0 1 2 3 0 store 0",
    "0 1 2 3 0 store 0 -1",
    "0 1 2 3 0 store 0 x",
    "0 1 2 3 0 store  0 0",
    "٣ 1 2 3 0 store 0 0",
)
NAIVE = datetime(2024, 1, 1)
ALIAS = {"T": WrongTypeError, "V": InvalidArgumentError, "M": InvalidMessageError}


def each(kind: str, argument: str, says: str, *calls: Call) -> list[Row]:
    """Calls that are wrong in the same way."""
    return [(call, ALIAS[kind], argument, says) for call in calls]


READS: list[Row] = [
    *each("T", "topic", "expected the name", *(lambda s, t=t: s.read(t) for t in (None, 5, b"t", ["t"], ("t",)))),
    *each("V", "topic=''", "not empty", lambda s: s.read(""), lambda s: s.get("", 0, 0), lambda s: s.query("", "k")),
    *each("T", "queue_id='0'", "from 0 to", lambda s: s.read("t", "0"), lambda s: s.get("t", "0", 0)),
    *each("T", "queue_id", "a whole number", *(lambda s, q=q: s.read("t", q) for q in (None, 0.5, 1.0, True, b"0"))),
    *each("V", "queue_id=-1", "from 0 to", lambda s: s.read("t", -1), lambda s: s.get("t", -1, 0)),
    *each("V", "queue_id", "from 0 to", lambda s: s.read("t", 1 << 31), lambda s: s.queue_bounds("t", -5)),
    *each("V", "physical_offset=-1", "0 or more", lambda s: s.read_all("t", -1)),
    *each("T", "begin_ms", "a time in ms", lambda s: s.read_all("t", begin_ms="now")),
    *each("T", "on_corrupt", "'raise', 'skip'", lambda s: s.read_all("t", on_corrupt=True)),
    *each("T", "decompress", "True or False", lambda s: s.read_all("t", decompress=1)),
    *each("T", "must_exist", "True or False", lambda s: s.read_all("t", must_exist=None)),
    *each("T", "topic", "as text", lambda s: s.read_all(5)),
    *each("V", "queue_offset=-1", "0 or more", lambda s: s.read("t", 0, -1), lambda s: s.read_batch("t", 0, -1)),
    *each("T", "queue_offset", "a whole", *(lambda s, o=o: s.read("t", 0, o) for o in ("0", 0.5, True, NAIVE, [0]))),
    *each("T", "queue_offset", "a whole", *(lambda s, o=o: s.get("t", 0, o) for o in ("0", None, 0.5))),
    *each("T", "topic", "text", *(lambda s, t=t: s.get(t, 0, 0) for t in (None, 5, b"t", ["t"]))),
    *each("T", "queue_id", "a whole", *(lambda s, q=q: s.get("t", q, 0) for q in (None, [0], 0.5))),
    *each("T", "max_count", "1 or more", *(lambda s, n=n: s.get("t", 0, 0, n) for n in ("1", None, 1.5))),
    *each("V", "max_count=0", "1 or more", lambda s: s.get("t", 0, 0, 0), lambda s: s.query("t", "k", max_count=0)),
    *each("T", "max_size", "a whole number", lambda s: s.get("t", 0, 0, max_size="1")),
    *each("T", "tags", "text such as", *(lambda s, t=t: s.read("t", tags=t) for t in (["a"], ("a",), 5, b"a"))),
    *each("T", "tags=['a']", "'A || B'", lambda s: s.get("t", 0, 0, tags=["a"])),
    *each("V", "tags", "flightlog.sql(", *(lambda s, t=t: s.read("t", tags=t) for t in ("a > 5 AND b = 1", "a > 5"))),
    *each(
        "V", "tags", "flightlog.sql(", *(lambda s, t=t: s.read("t", tags=t) for t in ("a IS NOT NULL", "a in ('b')"))
    ),
    *each("V", "tags", "flightlog.sql(", lambda s: s.get("t", 0, 0, tags="color between 1 and 5")),
    *each(
        "V",
        "tags",
        "flightlog.sql(",
        *(lambda s, t=t: s.read("t", tags=t) for t in ("a > -5", "a >= .5", "a = -b", "a > - 5")),
    ),
    *each(
        *("V", "tags", "flightlog.sql("),
        *(lambda s, w=w: s.read("t", tags=f"a {w} 'b'") for w in ("CONTAINS", "not startswith", "ENDSWITH", "like")),
    ),
    *each("V", "tags='||'", "at least one tag", lambda s: s.read("t", tags="||")),
    *each("T", "filter='a > 5'", "flightlog.sql", lambda s: s.read("t", filter="a > 5")),
    *each("T", "filter='a > 5'", "flightlog.sql", lambda s: s.get("t", 0, 0, filter="a > 5")),
    *each("T", "tags=sql('a > 5')", "filter=", lambda s: s.read("t", tags=flightlog.sql("a > 5"))),
    *each("V", "filter=sql('a > 5')", "one of tags", lambda s: s.read("t", tags="a", filter=flightlog.sql("a > 5"))),
    *each("V", "filter", "one of tags", lambda s: s.get("t", 0, 0, tags="a", filter=flightlog.sql("a > 5"))),
    *each("T", "decompress", "True or False", *(lambda s, v=v: s.read("t", decompress=v) for v in (1, "yes", None))),
    *each("T", "must_exist", "True or False", lambda s: s.read("t", must_exist="no")),
    *each("V", "on_corrupt='ignore'", "'raise', 'skip'", lambda s: s.read("t", on_corrupt="ignore")),
    *each("T", "on_corrupt", "'raise', 'skip'", lambda s: s.read_batch("t", on_corrupt=True)),
    *each("T", "max_count", "from 1", lambda s: s.read_batch("t", max_count="5")),
    *each("V", "max_size=0", "from 1", lambda s: s.read_batch("t", max_size=0)),
    *each(
        "T", "columns", "names of columns", *(lambda s, c=c: s.read_batch("t", columns=c) for c in ("value", 5, [5]))
    ),
    *each("T", "message", "a StoredMessage", *(lambda s, m=m: s.body_view(m) for m in (None, Message("t", b"")))),
    *each(
        "T", "timestamp_ms", "ms since 1970", *(lambda s, v=v: s.offset_at("t", 0, v) for v in ("x", None, 0.5, True))
    ),
    *each("V", "timestamp_ms", "with a time zone", lambda s: s.offset_at("t", 0, NAIVE)),
    *each("V", "boundary='middle'", "'lower', 'upper'", lambda s: s.offset_at("t", 0, 0, "middle")),
    *each("T", "boundary", "'lower', 'upper'", lambda s: s.offset_at("t", 0, 0, None)),
    *each("T", "start", "a whole number", lambda s: s.estimate_count("t", 0, "0", 5)),
    *each("T", "stop", "a whole number", lambda s: s.estimate_count("t", 0, 0, None)),
    *each("T", "tags", "text", lambda s: s.estimate_count("t", 0, 0, 5, tags=5)),
    *each("T", "physical_offset", "a whole", *(lambda s, v=v: s.message_at(v) for v in (None, "0", 0.5, b"0"))),
    *each("T", "batch_index", "a whole number", lambda s: s.message_at(0, "0")),
    *each("T", "message_id", "hexadecimal", *(lambda s, v=v: s.message_by_id(v) for v in (None, 5, b"7F"))),
    *each("V", "message_id=''", "hexadecimal", lambda s: s.message_by_id("")),
    *each("T", "key=5", "expected text", lambda s: s.query("t", 5)),
    *each("T", "key", "expected text", *(lambda s, k=k: s.query("t", k) for k in (None, ["k"], b"k"))),
    *each("V", "key=''", "not empty", lambda s: s.query("t", "")),
    *each("T", "topic", "expected the name", lambda s: s.query(None, "k")),
    *each(
        "T", "begin_ms", "ms since 1970", lambda s: s.query("t", "k", "yesterday"), lambda s: s.query("t", "k", None)
    ),
    *each("V", "end_ms", "with a time zone", lambda s: s.query("t", "k", 0, NAIVE)),
    *each("T", "max_count", "1 or more", lambda s: s.query("t", "k", max_count="1")),
    *each("V", "on_corrupt=''", "'raise', 'skip'", lambda s: s.query("t", "k", on_corrupt="")),
    *each("T", "uniq_key", "expected text", lambda s: s.message_by_uniq_key("t", 5), lambda s: s.was_stored(5)),
    *each("V", "uniq_key=''", "not empty", lambda s: s.was_stored("")),
    *each("T", "topic", "expected the name", lambda s: s.was_stored("u", 5)),
    *each("T", "include_system", "True or False", lambda s: s.topics(include_system="t")),
    *each("T", "name", "expected the name", lambda s: s.topic(5), lambda s: s.topic(None)),
]
"""Wrong calls of a store that is open for writing, and of a view."""

PUTS: list[Row] = [
    *each("T", "message", "flightlog.Message", *(lambda s, m=m: s.put(m) for m in (b"x", None, "x", {"topic": "t"}))),
    *each("T", "message", "flightlog.Message", lambda s: s.put_async(b"x"), lambda s: s.put([Message("t", b"")])),
    *each("T", "messages[1]", "flightlog.Message", lambda s: s.put_many([Message("t", b""), b"x"])),
    *each("T", "messages[0]", "flightlog.Message", lambda s: s.put_batch([None])),
    *each("T", "messages", "iterable", *(lambda s, m=m: s.put_many(m) for m in (5, None, b"x", Message("t", b"")))),
    *each("T", "messages", "iterable", lambda s: s.put_batch("x")),
    *each("M", "body", "expected bytes", *(lambda s, b=b: s.put(Message("t", b)) for b in ("x", None, 5, ["x"]))),
    *each("M", "topic", "expected text", *(lambda s, t=t: s.put(Message(t, b"")) for t in (None, 5, b"t"))),
    *each("M", "tags=['a']", "one tag as text", lambda s: s.put(Message("t", b"", tags=["a"]))),
    *each("M", "tags", "one tag as text", lambda s: s.put(Message("t", b"", tags=5))),
    *each("M", "keys", "one key as text", *(lambda s, k=k: s.put(Message("t", b"", keys=k)) for k in (5, [5], b"k"))),
    *each(
        "M", "properties", "a mapping", *(lambda s, p=p: s.put(Message("t", b"", properties=p)) for p in (5, "a", []))
    ),
    *each("M", "a property", "expected str", lambda s: s.put(Message("t", b"", properties={"a": 5}))),
    *each("M", "uniq_key=5", "expected text", lambda s: s.put(Message("t", b"", uniq_key=5))),
    *each("M", "queue_id", "a whole", *(lambda s, q=q: s.put(Message("t", b"", queue_id=q)) for q in ("0", 0.5, -1))),
    *each("M", "flag", "a whole", *(lambda s, f=f: s.put(Message("t", b"", flag=f)) for f in ("0", None, 1 << 31))),
    *each("M", "born_timestamp_ms", "milli", lambda s: s.put(Message("t", b"", born_timestamp_ms=NAIVE))),
    *each(
        "M", "born_host", "a pair", *(lambda s, h=h: s.put(Message("t", b"", born_host=h)) for h in ("h", 5, ("h",)))
    ),
    *each("M", "sys_flag", "a whole number", lambda s: s.put(Message("t", b"", sys_flag="0"))),
    *each("M", "reconsume_times", "a whole", lambda s: s.put(Message("t", b"", reconsume_times=None))),
    *each("M", "wait_store_ok='no'", "True or", lambda s: s.put(Message("t", b"", wait_store_ok="no"))),
    *each("M", "compress='zlib'", "a CompressionType", lambda s: s.put(Message("t", b"", compress="zlib"))),
    *each("M", "delay_level", "a whole", *(lambda s, n=n: s.put(Message("t", b"", delay_level=n)) for n in (-1, "1"))),
    *each("T", "topic", "expected the name", lambda s: s.queue(5)),
    *each("T", "queue_id='0'", "a whole number", lambda s: s.queue("t", "0")),
    *each("M", "body", "expected bytes", lambda s: s.queue("t").append("x")),
    *each("M", "tags=5", "expected one tag", lambda s: s.queue("t").append(b"x", tags=5)),
    *each("M", "'value', row 0", "a str, expected bytes", lambda s: s.append_columns("t", {"value": ["text"]})),
    *each("M", "'value', row 1", "a str, expected bytes", lambda s: s.append_columns("t", {"body": [b"x", "text"]})),
    *each("M", "'value'", "a str, expected bytes", lambda s: s.append_columns("t", {"value": np.array(["a", "b"])})),
    *each("M", "'value'", "expected bytes", lambda s: s.append_columns("t", {"value": "text"})),
    *each("M", "columns", "expected an Arrow", *(lambda s, c=c: s.append_columns("t", c) for c in (5, [b"x"], None))),
    *each("M", "topic 5", "expected text", lambda s: s.append_columns(5, {"value": [b"x"]})),
    *each("T", "parts", "TopicColumns", *(lambda s, p=p: s.append_atomically(p) for p in (5, TopicColumns("t", {})))),
    *each("T", "part", "TopicColumns", lambda s: s.append_atomically([("t", {"value": [b"x"]})])),
    *each("T", "before_commit", "a function", lambda s: s.append_atomically([], before_commit=5)),
    *each("T", "retention_hours", "0 or more", lambda s: s.clean_up("1"), lambda s: s.clean_up(True)),
    *each("V", "retention_hours=-1", "0 or more", lambda s: s.clean_up(-1)),
    *each("T", "consumed_by_all", "True or False", lambda s: s.clean_up(consumed_by_all=1)),
    *each("T", "dry_run", "True or False", lambda s: s.clean_up(dry_run="yes")),
    *each("V", "queue_count=0", "from 1 to", lambda s: s.create_topic("new", 0)),
    *each("T", "queue_count", "from 1 to", lambda s: s.create_topic("new", "4"), lambda s: s.create_topic("new", 1.5)),
    *each("V", "perm=9", "a sum of", lambda s: s.create_topic("new", perm=9), lambda s: s.update_topic("t", perm=9)),
    *each("T", "order", "True or False", lambda s: s.create_topic("new", order="yes")),
    *each("T", "attributes", "a mapping", *(lambda s, a=a: s.create_topic("new", attributes=a) for a in (5, {"a": 1}))),
    *each("M", "topic", "expected", lambda s: s.create_topic(5), lambda s: s.create_topic("a/b")),
    *each("T", "name", "expected the name", lambda s: s.update_topic(5, 4), lambda s: s.delete_topic(None)),
    *each("T", "allow_unread", "True or False", lambda s: s.update_topic("t", 4, allow_unread=1)),
    *each("T", "queue_id", "a whole number", lambda s: s.pull("t", "0", 0)),
    *each("T", "queue_offset", "a whole number", lambda s: s.pull("t", 0, "0")),
    *each("V", "max_count=0", "1 or more", lambda s: s.pull("t", 0, 0, 0)),
    *each("V", "wait_s=31", "0 to 30", lambda s: s.pull("t", 0, 0, wait_s=31)),
    *each("T", "wait_s='5'", "0 to 30", lambda s: s.pull("t", 0, 0, wait_s="5")),
    *each("T", "tags", "text such as", lambda s: s.pull("t", 0, 0, tags=["a"])),
]

SECONDS = NOW_MS // 1000 + 60
TIMERS: list[Row] = [
    (lambda s: s.put(Message("t", b"").deliver_at_ms(SECONDS)), InvalidTimerError, "TIMER_DELIVER_MS", "milliseconds"),
    (lambda s: s.put(Message("t", b"").deliver_at_ms(-1)), InvalidTimerError, "at_ms=-1", "0 or more"),
    (lambda s: s.put(Message("t", b"").deliver_at_ms("5")), InvalidTimerError, "at_ms='5'", "a whole number"),
    (lambda s: s.put(Message("t", b"").deliver_at_ms(NAIVE)), InvalidTimerError, "at_ms", "a whole number"),
    (lambda s: s.put(Message("t", b"").deliver_after_ms(-1)), InvalidTimerError, "delay_ms=-1", "0 or more"),
    (lambda s: s.put(Message("t", b"").deliver_after_ms(0.5)), InvalidTimerError, "delay_ms=0.5", "a whole number"),
    (lambda s: s.cancel_timer("t", "none", NOW_MS + 60_000), UnknownTimerError, "uniq_key='none'", "no message"),
    (lambda s: s.cancel_timer("t", "plain", NOW_MS + 60_000), UnknownTimerError, "uniq_key='plain'", "without a timer"),
    (lambda s: s.cancel_timer("other", "timer", NOW_MS + 60_000), UnknownTimerError, "'other'", "no message"),
    (lambda s: s.cancel_timer("t", "timer", NOW_MS + 90_000), UnknownTimerError, "uniq_key='timer'", "found it due"),
    (lambda s: s.cancel_timer("t", "timer", SECONDS), InvalidTimerError, f"deliver_at_ms={SECONDS}", "milliseconds"),
    (lambda s: s.cancel_timer("t", "timer", NOW_MS), TimerTooLateError, "the timer to be cancelled", "was due"),
    *each("T", "deliver_at_ms", "a whole number", lambda s: s.cancel_timer("t", "timer", "5")),
    *each("V", "deliver_at_ms=-1", "0 or more", lambda s: s.cancel_timer("t", "timer", -1)),
    *each("T", "uniq_key", "as text", lambda s: s.cancel_timer("t", 5, NOW_MS + 60_000)),
    *each("V", "uniq_key=''", "not empty", lambda s: s.cancel_timer("t", "", NOW_MS + 60_000)),
    *each("T", "topic", "expected the name", lambda s: s.cancel_timer(5, "timer", NOW_MS + 60_000)),
]


@dataclass
class Opened:
    store: flightlog.Store
    path: Path

    @property
    def end(self) -> int:
        return inside.log(self.store).end


@pytest.fixture
def opened(tmp_path: Path, assert_clean: Callable[[Path], object]) -> Iterator[Opened]:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(), clock=ManualClock(NOW_MS)) as store:
        store.put(Message("t", b"plain", keys="k", uniq_key="plain"))
        store.put(Message("t", b"timer", uniq_key="timer").deliver_at_ms(NOW_MS + 60_000))
        yield Opened(store, path)
    assert_clean(path)


def check(row: Row, on: Any) -> None:
    call, error, argument, says = row
    with pytest.raises(error) as caught:
        call(on)
    assert isinstance(caught.value, flightlog.FlightlogError)
    text = str(caught.value)
    assert argument in text and says in text, text
    assert len(text) < 500
    if isinstance(caught.value, InvalidArgumentError):
        assert argument.startswith(caught.value.argument) and caught.value.expected in text


def test_wrong_questions(opened: Opened) -> None:
    end = opened.end
    with flightlog.open_read_only(opened.path) as view:
        for row in READS:
            check(row, opened.store)
            check(row, view)
    assert opened.end == end


def test_wrong_puts(opened: Opened, kernel: str) -> None:
    end, topics = opened.end, opened.store.topics(include_system=True)
    for row in PUTS:
        check(row, opened.store)
    assert opened.end == end and opened.store.topics(include_system=True) == topics


def test_wrong_timers(opened: Opened) -> None:
    end = opened.end
    for row in TIMERS:
        check(row, opened.store)
    assert opened.end == end
    opened.store.cancel_timer("t", "timer", NOW_MS + 60_000)
    opened.store.cancel_timer("t", "timer", NOW_MS + 60_000)
    assert opened.end > end, "the right one is taken, twice if need be"


COPIES = (flightlog.backup, flightlog.copy_store)
OPENING: list[Row] = [
    *each("T", "path", "the path of a folder", *(lambda o, p=p: flightlog.open(p) for p in (None, 5, b"store"))),
    *each("V", "path=''", "not empty", lambda o: flightlog.open(""), lambda o: flightlog.open_read_only("")),
    *each(
        "V", "path", "a file is there", *(lambda o, f=f: f(o.file) for f in (flightlog.open, flightlog.open_read_only))
    ),
    *each("T", "settings={}", "StoreSettings", lambda o: flightlog.open(o.new, {})),
    *each("T", "settings", "StoreSettings(segment", lambda o: flightlog.open(o.new, {"segment_size": 1})),
    *each("T", "settings", "StoreSettings", lambda o: flightlog.open_read_only(o.path, "small")),
    *each("T", "path", "the path of a folder", lambda o: flightlog.open_read_only(None)),
    *each("T", "path", "the path of a folder", *(lambda o, f=f: f(None, o.new) for f in COPIES)),
    *each("T", "out=5", "the path of a folder", *(lambda o, f=f: f(o.path, 5) for f in COPIES)),
    *each("V", "out", "a file is there", *(lambda o, f=f: f(o.path, o.file) for f in COPIES)),
    *each("V", "out", "apart from", *(lambda o, f=f: f(o.path, o.path) for f in COPIES)),
    *each("T", "settings={}", "StoreSettings", *(lambda o, f=f: f(o.path, o.new, {}) for f in COPIES)),
    *each("T", "path", "the path of a folder", lambda o: flightlog.repair(None), lambda o: flightlog.salvage(5, o.new)),
    *each("T", "out", "the path of a folder", lambda o: flightlog.salvage(o.path, None)),
    *each("V", "path", "a folder", lambda o: flightlog.repair(o.file), lambda o: flightlog.salvage(o.file, o.new)),
    *each("T", "settings", "StoreSettings", lambda o: flightlog.repair(o.path, {})),
    *each("T", "settings", "StoreSettings", lambda o: flightlog.salvage(o.path, o.new, {})),
    *each("T", "path", "the path of a folder", lambda o: flightlog.seal(None)),
    *each("T", "settings", "StoreSettings", lambda o: flightlog.seal(o.path, {})),
    *each("T", "write", "True or False", lambda o: flightlog.seal(o.path, write="yes")),
    *each("T", "b=5", "the path of a folder", lambda o: flightlog.diff(o.path, 5)),
    *each("T", "settings", "StoreSettings", lambda o: flightlog.diff(o.path, o.path, {})),
    *each("T", "settings", "StoreSettings", lambda o: flightlog.diff(o.path, o.path, None, {})),
    *each("T", "places", "True or False", lambda o: flightlog.diff(o.path, o.path, places=1)),
]

MESSAGING: list[Row] = [
    *each("T", "topics", "as in {'orders'", *(lambda o, t=t: o.store.subscribe(t, "g") for t in (["t"], None, 5))),
    *each("V", "topics={}", "at least one", lambda o: o.store.subscribe({}, "g")),
    *each("T", "topics=5", "as text", lambda o: o.store.subscribe({5: "*"}, "g")),
    *each("T", "group", "as text", *(lambda o, g=g: o.store.subscribe("t", g) for g in (None, True, 1.5, ["g"]))),
    *each("V", "group=''", "not empty", lambda o: o.store.subscribe("t", "")),
    *each("T", "tags=['a']", "text such as", lambda o: o.store.subscribe("t", "g", tags=["a"])),
    *each("V", "tags", "flightlog.sql(", lambda o: o.store.subscribe("t", "g", tags="a > 5 AND b < 3")),
    *each("T", "tags=5", "text such as", lambda o: o.store.subscribe({"t": 5}, "g")),
    *each("T", "filter='a > 5'", "flightlog.sql", lambda o: o.store.subscribe("t", "g", filter="a > 5")),
    *each("T", "filter=5", "flightlog.sql", lambda o: o.store.pull("t", 0, 0, filter=5)),
    *each("V", "filter", "one of tags", lambda o: o.store.subscribe("t", "g", tags="a", filter=flightlog.sql("a > 5"))),
    *each("V", "filter", "beside several", lambda o: o.store.subscribe({"t": "a"}, "g", filter=flightlog.sql("a > 5"))),
    *each("T", "group", "as text", *(lambda o, g=g: o.store.receive(g, "t") for g in (None, True, ["g"]))),
    *each("T", "topic", "text", *(lambda o, t=t: o.store.receive("g", t) for t in (None, 5, ["t"]))),
    *each("V", "topic", "the topic itself", lambda o: o.store.receive("g", "%RETRY%g_t")),
    *each("T", "max_count", "from 1 to 32", *(lambda o, n=n: o.store.receive("g", "t", n) for n in ("1", None, 0.5))),
    *each("V", "max_count", "from 1 to 32", *(lambda o, n=n: o.store.receive("g", "t", n) for n in (0, -1, 33))),
    *each(
        "V", "invisible_ms", "from 1", *(lambda o, n=n: o.store.receive("g", "t", invisible_ms=n) for n in (0, 1 << 40))
    ),
    *each("T", "invisible_ms", "from 1", lambda o: o.store.receive("g", "t", invisible_ms="5")),
    *each("T", "attempt_id", "text", *(lambda o, i=i: o.store.receive("g", "t", attempt_id=i) for i in (5, "", b"a"))),
    *each("T", "renew", "True or False", lambda o: o.store.receive("g", "t", renew="yes")),
    *each("V", "invisible_ms", "at least", lambda o: o.store.receive("g", "t", invisible_ms=1_000, renew=True)),
    *each("V", "attempt_id", "not ordered", lambda o: o.store.receive("g", "t", attempt_id="a")),
    *each("T", "wait_s", "seconds", lambda o: o.store.receive("g", "t", wait_s="5")),
    *each("V", "wait_s=-1", "seconds", lambda o: o.store.receive("g", "t", wait_s=-1)),
    *each("T", "tags", "text such as", lambda o: o.store.receive("g", "t", tags=["a"])),
    *each("T", "start='last'", "StartFrom.LAST here", lambda o: o.store.receive("g", "t", start="last")),
    *each("V", "filter", "one of tags", lambda o: o.store.receive("g", "t", tags="a", filter=flightlog.sql("a > 5"))),
    *each("T", "filter='a > 5'", "flightlog.sql", lambda o: o.store.receive("g", "t", filter="a > 5")),
    *each("V", "max_attempts=0", "from 1", lambda o: o.store.receive("g", "t", max_attempts=0)),
    *each("V", "handles=()", "at least one", lambda o: o.store.ack()),
    *each("T", "handle", "that `receive` returned", *(lambda o, h=h: o.store.ack(h) for h in (None, "0 1", [HANDLE]))),
    *each("T", "handle.topic", "text", lambda o: o.store.ack(PopHandle("g", 5, HANDLE.extra_info))),
    *each("V", "handle", "the words", *(lambda o, x=x: o.store.ack(PopHandle("g", "t", x)) for x in BAD_WORDS)),
    *each("V", "handle", "a reviveQid below 8", lambda o: o.store.ack(PopHandle("g", "t", "0 1 1 9 0 store 0 0"))),
    *each("V", "handle", "a retryFlag of 0 or 1", lambda o: o.store.ack(PopHandle("g", "t", "0 1 1 0 2 store 0 0"))),
    *each("V", "invisible_ms=0", "from 1", lambda o: o.store.change_invisible(HANDLE, 0)),
    *each("T", "invisible_ms", "from 1", lambda o: o.store.change_invisible(HANDLE, 1.5)),
    *each("T", "count_attempt", "True or False", lambda o: o.store.change_invisible(HANDLE, 5, count_attempt=1)),
    *each("T", "handle", "that `receive` returned", lambda o: o.store.change_invisible("0 1", 5)),
    *each("T", "start='last'", "StartFrom.LAST here", lambda o: o.store.subscribe("t", "g", start="last")),
    *each("V", "start=-1", "0 or more", lambda o: o.store.subscribe("t", "g", start=-1)),
    *each("V", "start", "with a time zone", lambda o: o.store.subscribe("t", "g", start=NAIVE)),
    *each("T", "member", "text", lambda o: o.store.subscribe("t", "g", member=5)),
    *each("T", "strategy", "AllocationStrategy", lambda o: o.store.subscribe("t", "g", strategy="averagely")),
    *each("T", "limits=5", "FlowLimits", lambda o: o.store.subscribe("t", "g", limits=5)),
    *each("T", "ordered", "True or False", lambda o: o.store.subscribe("t", "g", ordered="yes")),
    *each("T", "must_exist", "True or False", lambda o: o.store.subscribe("t", "g", must_exist=1)),
    *each("V", "idle_s=-1", "0 or more", lambda o: o.store.subscribe("t", "g", idle_s=-1)),
    *each("T", "idle_s='1'", "seconds", lambda o: o.store.subscribe("t", "g", idle_s="1")),
    *each("T", "broadcast_folder", "the path", lambda o: o.store.subscribe("t", "g", broadcast_folder=5)),
    *each("T", "on_change", "a function", lambda o: o.store.subscribe("t", "g", on_change=5)),
    *each("V", "max_attempts=0", "1 or more", lambda o: o.store.subscribe("t", "g", max_attempts=0)),
    *each("T", "max_attempts", "1 or more", lambda o: Consumer(o.store, "t", "g", print, max_attempts="3")),
    *each("T", "on_dead_letter", "a function", lambda o: o.store.subscribe("t", "g", on_dead_letter=5)),
    *each("V", "consume_timeout_s=-1", "0 or more", lambda o: o.store.subscribe("t", "g", consume_timeout_s=-1)),
    *each("T", "consume_timeout_s", "seconds", lambda o: Consumer(o.store, "t", "g", print, consume_timeout_s="1")),
    *each("T", "group", "as text", lambda o: o.store.dead_letters(None)),
    *each("T", "group", "as text", lambda o: o.store.group_offsets(None, "t")),
    *each("T", "group", "as text", lambda o: o.store.redrive(None)),
    *each("T", "to", "the name of a topic", lambda o: o.store.redrive("g", to=5)),
    *each("V", "to=''", "not empty", lambda o: o.store.redrive("g", to="")),
    *each("V", "to='%DLQ%g'", "another topic", lambda o: o.store.redrive("g", to="%DLQ%g")),
    *each("T", "where='a > 5'", "flightlog.sql", lambda o: o.store.redrive("g", where="a > 5")),
    *each("T", "dry_run", "True or False", lambda o: o.store.redrive("g", dry_run="no")),
    *each("T", "topic", "expected the name", lambda o: o.store.group_offsets("g", 5)),
    *each("T", "group", "as text", lambda o: o.store.change_subscription(None, "t")),
    *each("T", "topics=5", "a mapping", lambda o: o.store.change_subscription("g", 5)),
    *each("V", "topics", "at least one", lambda o: o.store.change_subscription("g", {})),
    *each("T", "strategy", "AllocationStrategy", lambda o: o.store.change_subscription("g", strategy="x")),
    *each("V", "offset_save_interval_ms=0", "from 1", lambda _: Stores({}, offset_save_interval_ms=0)),
    *each("T", "rebalance_interval_ms", "from 1", lambda _: Stores({}, rebalance_interval_ms="1")),
    *each("T", "include_system", "True or False", lambda o: o.store.groups(include_system=1)),
    *each("T", "group", "as text", lambda o: o.store.lag(None), lambda o: o.store.delete_group(b"g")),
    *each("T", "group", "as text", lambda o: o.store.reset_offset(None, "t", 0)),
    *each("T", "group", "as text", lambda o: o.store.commit_offset(None, "t", 0, 0)),
    *each("T", "topic", "expected the name", lambda o: o.store.reset_offset("g", 5, 0)),
    *each("T", "topic", "expected the name", lambda o: o.store.commit_offset("g", None, 0, 0)),
    *each(
        "T", "to", "'first' or 'last'", *(lambda o, t=t: o.store.reset_offset("g", "t", t) for t in (None, 1.5, b"0"))
    ),
    *each("V", "to='middle'", "'first' or 'last'", lambda o: o.store.reset_offset("g", "t", "middle")),
    *each("V", "to=-1", "0 or more", lambda o: o.store.reset_offset("g", "t", -1)),
    *each("V", "to", "with a time zone", lambda o: o.store.reset_offset("g", "t", NAIVE)),
    *each("V", "queue_id=-1", "from 0 to", lambda o: o.store.reset_offset("g", "t", 0, queue_id=-1)),
    *each("T", "dry_run", "True or False", lambda o: o.store.reset_offset("g", "t", 0, dry_run="no")),
    *each("V", "queue_id=-1", "from 0 to", lambda o: o.store.commit_offset("g", "t", -1, 0)),
    *each("T", "queue_offset", "0 or more", lambda o: o.store.commit_offset("g", "t", 0, "0")),
    *each("V", "queue_offset=1000", "ends, or less", lambda o: o.store.commit_offset("g", "t", 0, 1000)),
    *each("T", "with_topics", "True or False", lambda o: o.store.delete_group("g", with_topics=1)),
    *each("T", "group", "as text", lambda o: o.store.group_settings(None), lambda o: o.store.update_group(b"g")),
    *each("V", "group=''", "not empty", lambda o: o.store.group_settings(""), lambda o: o.store.update_group("")),
    *each("T", "is_enabled", "True or False", lambda o: o.store.update_group("g", is_enabled=1)),
    *each("T", "is_broadcast_enabled", "True", lambda o: o.store.update_group("g", is_broadcast_enabled="no")),
    *each("T", "is_ordered", "True or False", lambda o: o.store.update_group("g", is_ordered=0)),
    *each("V", "retry_queue_count=0", "from 1 to", lambda o: o.store.update_group("g", retry_queue_count=0)),
    *each("V", "retry_max_times=-1", "from 0 to", lambda o: o.store.update_group("g", retry_max_times=-1)),
    *each("T", "retry_max_times", "from 0 to", lambda o: o.store.update_group("g", retry_max_times=1.5)),
    *each("V", "consume_timeout_minutes=0", "from 1", lambda o: o.store.update_group("g", consume_timeout_minutes=0)),
    *each("T", "retry_policy=5", "CustomizedRetryPolicy", lambda o: o.store.update_group("g", retry_policy=5)),
    *each("T", "delays_ms", "in ms", *(lambda _, d=d: flightlog.CustomizedRetryPolicy(d) for d in (5, "1", None))),
    *each("V", "delays_ms=()", "at least one", lambda _: flightlog.CustomizedRetryPolicy(())),
    *each("V", "max_ms=-1", "0 or more", lambda _: flightlog.ExponentialRetryPolicy(max_ms=-1)),
    *each("T", "store", "open for writing", *(lambda o, s=s: Consumer(s, "t", "g", print) for s in (None, "store"))),
    *each("T", "store", "open for writing", lambda o: Consumer(o.view, "t", "g", print)),
    *each("T", "topics=['t']", "a mapping", lambda o: Consumer(o.store, ["t"], "g", print)),
    *each("T", "group", "as text", lambda o: Consumer(o.store, "t", None, print)),
    *each("T", "listener", "coroutine", *(lambda o, f=f: Consumer(o.store, "t", "g", f) for f in ("f", None, 5))),
    *each("V", "threads=0", "1 or more", lambda o: Consumer(o.store, "t", "g", print, threads=0)),
    *each("T", "batch_size", "1 or more", lambda o: Consumer(o.store, "t", "g", print, batch_size="2")),
    *each("T", "back_off", "BackOff", lambda o: Consumer(o.store, "t", "g", print, back_off=5)),
    *each("T", "ordered", "True or False", lambda o: Consumer(o.store, "t", "g", print, ordered=1)),
    *each("T", "first_s", "seconds", lambda o: BackOff("1")),
    *each("V", "max_count=0", "1 or more", lambda o: FlowLimits(max_count=0)),
    *each("T", "folder", "the path of", *(lambda o, f=f: DeduplicationWindow(f) for f in (None, 5, b"window"))),
    *each("V", "folder", "a file is there", lambda o: DeduplicationWindow(o.file)),
    *each("V", "folder", "a folder of its own", lambda o: DeduplicationWindow(o.path)),
    *each("V", "max_count=0", "1 or more", lambda o: DeduplicationWindow(o.new, max_count=0)),
    *each("V", "max_age_s=-1", "seconds", lambda o: DeduplicationWindow(o.new, max_age_s=-1)),
    *each("T", "flush_mode='SYNC'", "a FlushMode", lambda o: DeduplicationWindow(o.new, flush_mode="SYNC")),
    *each("T", "id", "text or bytes", *(lambda o, i=i: o.window.first_time(i) for i in (None, 5, ["a"]))),
    *each("T", "id=5", "text or bytes", lambda o: o.window.forget(5), lambda o: o.window.once(5).__enter__()),
    *each("T", "id=5", "text or bytes", lambda o: 5 in o.window),
    *each("V", "id=''", "not empty", lambda o: o.window.first_time(""), lambda o: "" in o.window),
    *each("V", "id=b''", "not empty", lambda o: o.window.forget(b""), lambda o: o.window.once(b"").__enter__()),
    *each("T", "stores", "by name", *(lambda o, s=s: Stores(s) for s in (None, 5, "s", ["s"]))),
    *each("T", "stores", "by name", lambda o: Stores(o.store)),
    *each("T", "store", "open for writing", lambda o: Stores({"a": o.view}), lambda o: Stores({"a": "path"})),
    *each("T", "name", "text", lambda o: Stores({5: o.store}), lambda o: Producer({5: o.store})),
    *each("T", "stores='s'", "open for writing", lambda o: Producer("s")),
    *each("T", "stores", "open for writing", *(lambda o, s=s: Producer(s) for s in (None, 5, ["s"]))),
    *each("T", "stores", "open for writing", lambda o: Producer(o.view)),
    *each("T", "store", "open for writing", lambda o: Producer({"a": o.view})),
    *each("V", "retries=-1", "0 or more", lambda o: Producer(o.store, retries=-1)),
    *each("T", "retries='1'", "0 or more", lambda o: Producer(o.store, retries="1")),
    *each("T", "rule=5", "a function", lambda o: Producer(o.store, rule=5)),
    *each("T", "fault_rules", "FaultRules", lambda o: Producer(o.store, fault_rules={})),
    *each("T", "latencies_ms", "numbers of ms", *(lambda o, v=v: FaultRules(v) for v in (None, 5, "50", b"50", {50}))),
    *each(
        "T", "latencies_ms[1]", "a whole number", *(lambda o, v=v: FaultRules((0, v)) for v in (None, "5", 0.5, True))
    ),
    *each("V", "latencies_ms[0]=-1", "0 or more", lambda o: FaultRules((-1,), (0,))),
    *each("T", "back_offs_ms", "whole numbers of ms", *(lambda o, v=v: FaultRules((1,), v) for v in (None, 5, "5"))),
    *each("T", "back_offs_ms[0]", "a whole number", lambda o: FaultRules((1,), (None,))),
    *each("V", "back_offs_ms[0]=-5", "0 or more", lambda o: FaultRules((1,), (-5,))),
    (lambda o: FaultRules((1, 2), (0,)), InvalidSettingsError, "latencies (1, 2)", "as many"),
    (lambda o: FaultRules((2, 1), (0, 0)), InvalidSettingsError, "latencies (2, 1)", "ascending"),
    *each("T", "message", "flightlog.Message", *(lambda o, m=m: o.producer.send(m) for m in (b"x", None, "x"))),
    *each("T", "group=5", "text", lambda o: o.producer.send(Message("t", b""), group=5)),
    *each("T", "selector", "a function", lambda o: o.producer.send(Message("t", b""), selector=5)),
    *each("T", "message", "flightlog.Message", *(lambda o, m=m: o.producer.send_async(m) for m in (b"x", None, "x"))),
    *each("T", "message", "flightlog.Message", lambda o: asyncio.run(o.producer.send_coroutine(b"x"))),
    *each("V", "group=''", "not empty", lambda o: o.producer.send_async(Message("t", b""), group="")),
    *each("T", "messages", "iterable", *(lambda o, m=m: o.producer.send_many(m) for m in (5, None, Message("t", b"")))),
    *each("T", "messages[1]", "flightlog.Message", lambda o: o.producer.send_many([Message("t", b""), b"x"])),
    *each("T", "group=5", "text", lambda o: o.producer.send_many([Message("t", b"")], group=5)),
    *each("T", "group=5", "text", lambda o: o.producer.send_many([Message("t", b"")], group=lambda _: 5)),
    *each("T", "one_queue=1", "True or False", lambda o: o.producer.send_many([], one_queue=1)),
    *each("T", "timeout_s='3'", "seconds", lambda o: o.producer.send(Message("t", b""), timeout_s="3")),
    *each("V", "timeout_s=-1", "0 or more", lambda o: o.producer.send_async(Message("t", b""), timeout_s=-1)),
    *each("T", "timeout_s", "seconds", *(lambda o, v=v: Producer(o.store, timeout_s=v) for v in ("3", True, [3]))),
    *each("T", "max_lag", "by consumer group", *(lambda o, v=v: Producer(o.store, max_lag=v) for v in (5, "g", ["g"]))),
    *each("T", "max_lag['g']", "0 or more", lambda o: Producer(o.store, max_lag={"g": "5"})),
    *each("V", "max_lag['g']=-1", "0 or more", lambda o: Producer(o.store, max_lag={"g": -1})),
    *each("V", "on_lag='drop'", "'wait', 'raise'", lambda o: Producer(o.store, on_lag="drop")),
    *each("T", "check_message_type", "True or False", lambda o: Producer(o.store, check_message_type="FIFO")),
    (
        lambda o: Producer(o.store, check_message_type=True).send(Message("t", b""), group="g"),
        MessageTypeError,
        "topic 't'",
        "found a FIFO message, expected NORMAL",
    ),
    *each("T", "message", "flightlog.Message", *(lambda o, m=m: o.producer.transaction(m) for m in (b"x", None, "x"))),
    *each("T", "group=5", "text", lambda o: o.producer.transaction(Message("t", b""), group=5)),
    *each("T", "selector", "a function", lambda o: o.producer.transaction(Message("t", b""), selector=5)),
    *each("T", "timeout_s", "seconds", lambda o: o.producer.transaction(Message("t", b""), timeout_s="1")),
    *each("M", "delay_level=1", "no delay", lambda o: o.producer.transaction(Message("t", b"", delay_level=1))),
    *each("T", "producer_group", "as text", *(lambda o, g=g: Producer(o.store, producer_group=g) for g in (None, 5))),
    *each("V", "producer_group=''", "not empty", lambda o: Producer(o.store, producer_group="")),
    *each("T", "store", "open for writing", *(lambda o, s=s: TransactionChecker(s, "g", print) for s in (None, "s"))),
    *each("T", "store", "open for writing", lambda o: TransactionChecker(o.view, "g", print)),
    *each("T", "producer_group", "as text", lambda o: TransactionChecker(o.store, 5, print)),
    *each("T", "check", "a function", lambda o: TransactionChecker(o.store, "g", None)),
    *each("T", "topic", "expected the name", lambda o: o.producer.queues(5)),
    *each("T", "store", "open for writing", lambda o: o.producer.add_store("b", "path")),
    *each("T", "name", "text", lambda o: o.producer.remove_store(5)),
    *each("T", "count", "1 or more", lambda o: o.member.poll("1"), lambda o: o.member.poll(None)),
    *each("V", "count=0", "1 or more", lambda o: o.member.poll(0), lambda o: o.member.receive_batch(0)),
    *each("T", "wait_s='1'", "seconds", lambda o: o.member.receive("1")),
    *each("T", "queue", "a MessageQueue", lambda o: o.member.pause("t"), lambda o: o.member.seek("t", 0)),
    *each("T", "queue", "a MessageQueue", lambda o: o.member.resume(("t", 0))),
    *each("T", "queue_offset", "a whole number", lambda o: o.member.seek(MessageQueue("t", "store", 0), "0")),
    *each("T", "timestamp_ms", "ms since 1970", lambda o: o.member.seek_to_time("now")),
    *each("V", "timestamp_ms", "with a time zone", lambda o: o.member.seek_to_time(NAIVE)),
    *each("T", "store", "a read-only view", *(lambda o, s=s: topic_states(s) for s in (None, "path"))),
    *each("T", "include_system", "True or False", lambda o: topic_states(o.view, include_system=1)),
    *each("T", "view", "a read-only view", *(lambda o, s=s: topic_traffic(s) for s in (None, "path"))),
    *each("T", "view", "a read-only view", lambda o: topic_traffic(o.store)),
    *each(
        "T", "topics", "a tuple of names", *(lambda o, t=t: topic_traffic(o.view, topics=t) for t in ("t", ["t"], 5))
    ),
    *each("T", "topic", "expected the name", lambda o: topic_traffic(o.view, topics=("t", 5))),
    *each("T", "begin_ms", "ms since 1970", lambda o: topic_traffic(o.view, begin_ms="2h")),
    *each("V", "end_ms", "with a time zone", lambda o: topic_traffic(o.view, end_ms=NAIVE)),
    *each("T", "include_system", "True or False", lambda o: topic_traffic(o.view, include_system=None)),
]


def test_wrong_openings_and_wrong_messaging(opened: Opened) -> None:
    file = opened.path.with_name("file")
    file.write_bytes(b"")
    end, new = opened.end, opened.path.with_name("new")
    with (
        flightlog.open_read_only(opened.path) as view,
        opened.store.subscribe("nothing", "g0") as member,
        DeduplicationWindow(opened.path.with_name("window")) as window,
    ):
        on = SimpleNamespace(store=opened.store, path=opened.path, view=view, file=file, new=new, member=member)
        on.window = window
        on.producer = Producer(opened.store)
        for row in (*OPENING, *MESSAGING):
            check(row, on)
    assert opened.end == end and not new.exists()
    assert opened.store.group_offsets("g", "t") == {}, "nobody has joined"


def test_there_are_many_of_them() -> None:
    assert len(READS) + len(PUTS) + len(TIMERS) + len(OPENING) + len(MESSAGING) >= 150


def test_what_means_the_same_is_taken(opened: Opened) -> None:
    store = opened.store
    at = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert store.offset_at("t", 0, at) == store.offset_at("t", 0, NOW_MS) == 0
    assert store.query("t", "k", at, at).messages == store.query("t", "k", NOW_MS, NOW_MS).messages != []
    assert [m.body for m in store.read("t", np.int64(0), np.int32(0))] == [b"plain"]
    with store.subscribe("t", 17, start=at) as member:
        message = member.receive(process.LIMIT_S)
        assert message is not None and message.ack() and member.group == "17"
    assert store.group_offsets(17, "t") == store.group_offsets("17", "t") != {}
    assert [m.body for m in store.read("t", tags="a=b || x y")] == [], "tags may have such signs"


def test_a_long_or_broken_value_is_cut_short(opened: Opened) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(WrongTypeError, match=r"queue_id=\[0, 0.*\.\.\.: expected") as caught:
        opened.store.read("t", [0] * 1000)
    assert len(str(caught.value)) < 200 and caught.value.given == [0] * 1000
    with pytest.raises(WrongTypeError, match="queue_id=<tests.*expected"):
        opened.store.read("t", Broken())
