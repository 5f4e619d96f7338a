"""`stat`, and `topic_traffic` beneath it: sizes and hours by queue entries, against every message that is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings, topic_traffic
from flightlog.engine.read.topic_traffic import HOUR_MS
from flightlog.tests.support.clocks import HeldClock
from flightlog.tools.records.fields import iso_time

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

HOURS = 5
"""With messages; one in the middle has none."""
EACH = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path, clock = tmp_path / "store", HeldClock(1_795_000_000.0)
    with flightlog.open(path, StoreSettings.small(rocketmq_strict=False), clock=clock) as store:
        for hour in range(HOURS):
            for number in range(EACH):
                body = b"x" * (37 * number * number % 3000)
                store.put(Message("orders", body, queue_id=number % 3))
                if number % 4 == 0:
                    store.put(Message("payments", body, keys="k"))
                clock.now_s += HOUR_MS / 1000 / EACH
            clock.now_s += 2 * HOUR_MS / 1000 * (hour == 2)
    return path


def test_sizes_and_hours_are_those_of_all_messages(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        found = topic_traffic(view)
        messages = [each for key in view.queues() for each in view.read(*key)]
    assert found.keys() == {"orders", "payments"}
    for topic, traffic in found.items():
        of_topic = [each for each in messages if each.topic == topic]
        sizes = sorted(each.size for each in of_topic)
        assert (traffic.messages, traffic.records, traffic.size) == (len(sizes), len(sizes), sum(sizes))
        assert (traffic.min_size, traffic.max_size) == (sizes[0], sizes[-1])
        assert traffic.median_size == sizes[(len(sizes) - 1) // 2]
        assert sum(bucket.records for bucket in traffic.sizes) == len(sizes)
        for bucket in traffic.sizes:
            assert bucket.records == sum(bucket.above < size <= bucket.up_to for size in sizes)
        hours = Counter(each.store_timestamp_ms // HOUR_MS * HOUR_MS for each in of_topic)
        assert {hour.begin_ms: hour.messages for hour in traffic.hours} == hours
        assert sum(hour.size for hour in traffic.hours) == sum(sizes)
        between = (traffic.hours[-1].begin_ms - traffic.hours[0].begin_ms) // HOUR_MS + 1
        assert between == len(hours) + 1, "the hour without messages is left out"


@pytest.mark.parametrize("name", ["abort", "batch-bcq", "clean-crcflip", "cqext", "delay-tx", "lmq", "minoffset"])
def test_golden_sets_are_counted_message_by_message(golden: Callable[[str], Path], name: str) -> None:
    with flightlog.open_read_only(golden(name) / "store") as view:
        found = topic_traffic(view, include_system=True)
        bounds = view.queues()
        assert {topic: each.messages for topic, each in found.items()} == Counter(
            topic for (topic, _), (first, end) in bounds.items() for _ in range(first, end) if "%LMQ%" not in topic
        )
        for topic, each in found.items():
            records = {
                (message.physical_offset, message.store_timestamp_ms // HOUR_MS)
                for key in bounds
                if key[0] == topic
                for message in view.read(*key, on_corrupt="skip")
            }
            damaged = 1 if view.corrupt_skipped and each.records != len(records) else 0
            assert each.records == len(records) + damaged
            assert sum(hour.messages for hour in each.hours) == each.messages


def test_times_bound_what_is_counted(path: Path, cli: Cli) -> None:
    with flightlog.open_read_only(path) as view:
        messages = [each for key in view.queues() for each in view.read(*key)]
        times = sorted(each.store_timestamp_ms for each in messages)
        begin_ms, end_ms = times[50], times[150]
        found = topic_traffic(view, topics=("orders",), begin_ms=begin_ms, end_ms=end_ms)
        assert found["orders"].messages == sum(
            begin_ms <= each.store_timestamp_ms < end_ms for each in messages if each.topic == "orders"
        )
        assert topic_traffic(view, topics=("nobody",)) == {}
    [listed] = json.loads(
        cli("stat", path, "-t", "orders", "--since", iso_time(begin_ms), "--until", iso_time(end_ms), "--json").out
    )
    assert listed["messages"] == found["orders"].messages
    assert list(listed) == [
        *("topic", "messages", "records", "size", "min_size", "median_size", "p99_size", "max_size"),
        *("sizes", "hours"),
    ]
    assert list(listed["sizes"][0]) == ["above", "up_to", "records"]
    assert list(listed["hours"][0]) == ["begin", "messages", "size"]
    assert cli("stat", path, "--since", "yesterday").code == 2


def test_text_and_plot(path: Path, cli: Cli, hiding: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    picture = tmp_path / "store.svg"
    finished = cli("stat", path, "--plot", picture)
    said = [line for line in finished.err.splitlines() if "font cache" not in line]  # matplotlib's, once a machine
    assert (finished.code, said) == (0, [])
    assert finished.out.endswith("250 messages of 2 topics\n")
    rows = [line.split() for line in finished.out.splitlines()]
    assert [row for row in rows if row[:1] == ["200"] and row[-1] == "orders"]
    drawn = picture.read_text()
    assert "orders" in drawn and "payments" in drawn and "2 KiB" in drawn
    assert cli("stat", path, "--plot", tmp_path / "store.doc").code == 2
    missing = cli("stat", path, "--plot", picture, env=hiding("matplotlib"))
    assert missing.code == 2 and "flightlog[tools]" in missing.err
