"""`stats` and `metrics`: of stores at rest, of brokers' stores, and beside a live writer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import flightlog
from flightlog import Message, StoreSettings
from flightlog.consume.store_metrics import StoreMetric
from flightlog.tests.support import signals
from flightlog.tests.support.clocks import ClockAhead
from flightlog.tests.support.process import LIMIT_S
from flightlog.tools.commands.watch.stats_screen import line_of, screen
from flightlog.tools.prometheus_text import prometheus_text
from flightlog.tools.rates import a_minute_ago, rates, sample

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

HOUR_MS = 3_600_000
OLD, NEW = 40, 30
KEYS = [
    *("time", "interval_s", "messages_per_s", "size_per_s", "log_size", "disk_free_size", "flush_behind_size"),
    *("dispatch_behind_size", "topics", "groups"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with messages of an hour ago, and some that count as of the last minute however slow the test is."""
    path = tmp_path / "store"
    settings = StoreSettings.small(deliver_delayed=False)
    for ahead_ms, count in ((-HOUR_MS, OLD), (HOUR_MS // 2, NEW)):
        with flightlog.open(path, settings, clock=ClockAhead(ahead_ms)) as store:
            store.put_many(Message("orders", b"x" * 100, queue_id=number % 4) for number in range(count))
            store.put(Message("payments", b"x"))
            store.put(Message("orders", b"x", delay_level=18))
    with flightlog.open(path, settings, clock=ClockAhead(HOUR_MS)) as store:
        store.commit_offset("billing", "orders", 0, 3)
        store.put(Message("%DLQ%billing", b"x"))
    return path


def test_one_shot_tells_of_the_last_minute(cli: Cli, path: Path) -> None:
    finished = cli("stats", path, "--json")
    assert (finished.code, finished.err) == (0, "")
    found = json.loads(finished.out)
    assert list(found) == KEYS
    per_s = {each["topic"]: each["messages_per_s"] * found["interval_s"] for each in found["topics"]}
    assert per_s == pytest.approx({"orders": NEW, "payments": 1, "%DLQ%billing": 1}, rel=0.01)
    assert {each["topic"]: each["messages"] for each in found["topics"]} == {
        "orders": OLD + NEW,
        "payments": 2,
        "%DLQ%billing": 1,
    }
    assert found["groups"] == [{"group": "billing", "lag": OLD + NEW - 3, "messages_per_s": None}]
    assert found["size_per_s"] * found["interval_s"] > NEW * 100
    assert found["flush_behind_size"] == 0
    lines = [line.split() for line in cli("stats", path).out.splitlines()]
    assert [str(OLD + NEW - 3), "billing"] in lines and ["not", "yet", "durable", "0", "bytes"] in lines


def test_two_looks_tell_what_came_between(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        store.put(Message("orders", b"x"))
        store.commit_offset("billing", "orders", 0, 0)
        with flightlog.open_read_only(path) as view:
            before = sample(view)
            store.put_many(Message("orders", b"x" * 1000, queue_id=0) for _ in range(5))
            store.commit_offset("billing", "orders", 0, 4)
            view.refresh()
            now = sample(view)
            found = rates(view, before, now)
            interval_s = now.at_s - before.at_s
            assert found.messages_per_s * interval_s == pytest.approx(5)
            assert found.size_per_s * interval_s == pytest.approx(now.physical_offset - before.physical_offset)
            [group] = found.groups
            assert group.lag == 2
            assert group.per_s is not None and group.per_s * interval_s == pytest.approx(4)
            assert "billing 2 behind" in line_of(found)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_screen_says_what_it_has_no_room_for(tmp_path: Path, columns: int) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        for number in range(50):
            store.put(Message(f"topic-{number:02d}", b"x"))
            store.commit_offset(f"group-{number:02d}", "topic-00", 0, 0)
    console = Console(record=True, width=columns, height=24, file=open("/dev/null", "w"))  # noqa: SIM115
    with flightlog.open_read_only(path) as view:
        console.print(screen(rates(view, a_minute_ago(view), sample(view)), 24))
    lines = console.export_text().splitlines()
    console.file.close()
    assert len(lines) <= 24 and max(map(len, lines)) <= columns
    shown = {kind: sum(f"{kind}-" in line for line in lines) for kind in ("topic", "group")}
    for title, count in (("Topics", shown["topic"]), ("Consumer groups", shown["group"])):
        assert any(line.startswith(f"{title}  ({50 - count} more") for line in lines)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[tuple[flightlog.Store, subprocess.Popen[str]]]:
    """A writer, and `stats --watch` beside it."""
    store = flightlog.open(tmp_path / "live", StoreSettings.small())
    store.put(Message("orders", b"x"))
    command = [sys.executable, "-P", "-m", "flightlog", "stats", str(store.path), "--watch", "--interval", "0.1"]
    with subprocess.Popen(
        [*command, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=signals.default_signals,
    ) as process:
        yield store, process
        process.kill()
    store.close()


def test_a_live_writer_is_watched(watching: tuple[flightlog.Store, subprocess.Popen[str]]) -> None:
    store, process = watching
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["topics"][0]["messages"] == 1
    store.put_many(Message("orders", b"x", queue_id=number % 4) for number in range(50))
    came = 0.0
    while True:
        found: dict[str, Any] = json.loads(process.stdout.readline())
        came += found["messages_per_s"] * found["interval_s"]
        if found["topics"][0]["messages"] == 51:
            break
    assert came == pytest.approx(50, rel=0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    assert process.stderr.read() == ""


def metrics_of(cli: Cli, path: Path) -> dict[str, list[tuple[dict[str, str], float]]]:
    finished = cli("metrics", path)
    assert (finished.code, finished.err) == (0, "")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(finished.out):
        assert family.documentation
        for each in family.samples:
            labels = dict(each.labels)
            assert [labels.pop(name) for name in ("cluster", "node_type", "node_id")] == [
                *("DefaultCluster", "broker", "store")
            ]
            found.setdefault(each.name, []).append((labels, each.value))
    return found


def test_metrics_have_the_names_of_rocketmq(cli: Cli, path: Path) -> None:
    found = metrics_of(cli, path)
    group = {"consumer_group": "billing", "topic": "orders", "is_retry": "false", "is_system": "false"}
    assert found["rocketmq_consumer_lag_messages"] == [(group, OLD + NEW - 3)]
    assert found["rocketmq_consumer_group_number"] == [({}, 1)]
    came_in = {labels["topic"]: value for labels, value in found["rocketmq_messages_in_total"]}
    assert came_in == {"orders": OLD + NEW, "payments": 2, "SCHEDULE_TOPIC_XXXX": 2}
    assert found["flightlog_delays_pending"] == [({"level": "18"}, 2)]
    assert found["flightlog_dead_letters"] == [({"consumer_group": "billing"}, 1)]
    assert found["rocketmq_half_messages"] == [({}, 0)] and found["rocketmq_storage_size"][0][1] > 1 << 20


def test_metrics_of_a_brokers_store(cli: Cli, golden: Callable[[str], Path]) -> None:
    folder = golden("delay-tx")
    lines = [json.loads(line) for line in (folder / "java-read.jsonl").read_text().splitlines()]
    ends: dict[str, int] = {}
    for line in lines:
        if line["type"] == "queue":
            ends[line["topic"]] = ends.get(line["topic"], 0) + line["max"]
    found = metrics_of(cli, folder / "store")
    came_in = {labels["topic"]: value for labels, value in found["rocketmq_messages_in_total"]}
    assert came_in == {topic: end for topic, end in ends.items() if end}
    assert "rocketmq_storage_flush_behind_bytes" not in found, "a broker does not note it"


def test_a_name_cannot_leave_its_label() -> None:
    text = 'a"b\\c\nd'
    metric = StoreMetric("rocketmq_topic_number", "Topics", [({"topic": text}, 1.5)])
    [family] = text_string_to_metric_families("\n".join(prometheus_text([metric], {"node_id": "n"})) + "\n")
    [found] = family.samples
    assert (found.labels, found.value) == ({"node_id": "n", "topic": text}, 1.5)
