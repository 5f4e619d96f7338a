"""Consumer offsets beside RocketMQ's own ConsumerOffsetManager: its consumerOffset.json is read by us, ours by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flightlog.engine.topics.offset_table import OffsetTable
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import RealDisk
from flightlog.store.queue_offsets import QueueKey
from flightlog.tests.interop.harness import Line, RocketMq

pytestmark = pytest.mark.ci

LIMIT_S = 120.0


@pytest.fixture
def broker_offsets(rocketmq: RocketMq) -> Callable[..., list[Line]]:
    """What a broker's ConsumerOffsetManager reads: a line a topic and group, and a summary. It then commits
    ("GROUP:TOPIC:QUEUE_ID:OFFSET"), and writes the file."""

    def ask(path: Path, *, commit: Sequence[str] = ()) -> list[Line]:
        with rocketmq.run("offsets", {"path": path, "commit": commit}, LIMIT_S) as output:
            return [json.loads(line) for line in output.read_text().splitlines()]

    return ask


def no_end(key: QueueKey) -> int:
    return (1 << 63) - 1


def our_table(path: Path, end_of: Callable[[QueueKey], int] = no_end) -> OffsetTable:
    table = OffsetTable(RealDisk(), path, SystemClock(), lambda: None)
    table.load(end_of)
    return table


def by_name(lines: list[Line]) -> dict[str, dict[int, int]]:
    return {
        line["name"]: {int(queue_id): int(offset) for queue_id, offset in line["offsets"].items()}
        for line in lines
        if line["type"] == "offsets"
    }


def test_each_reads_what_the_other_wrote(broker_offsets: Callable[..., list[Line]], tmp_path: Path) -> None:
    commits = ["billing:orders:0:12", "billing:orders:7:0", "billing:%RETRY%billing:0:3", "g:%LMQ%client:0:5"]
    assert by_name(broker_offsets(tmp_path, commit=commits)) == {}
    table = our_table(tmp_path)
    assert table.of("billing", "orders") == {0: 12, 7: 0}
    assert table.get("billing", "%RETRY%billing", 0) == 3
    assert table.get("g", "%LMQ%client", 0) == 5
    table.set("billing", "orders", 0, 13)
    table.set("billing", "orders", 3, (1 << 63) - 1)
    table.set("grüppe", "订单🚀", 2, 4)
    table.save()

    expected: dict[str, Any] = {
        "orders@billing": {0: 13, 3: (1 << 63) - 1, 7: 0},
        "%RETRY%billing@billing": {0: 3},
        "%LMQ%client@g": {0: 5},
        "订单🚀@grüppe": {2: 4},
    }
    lines = broker_offsets(tmp_path, commit=["billing:orders:0:10"])
    assert by_name(lines) == expected
    (summary,) = [line for line in lines if line["type"] == "summary"]
    assert summary["loaded"] and summary["counter"] >= 1 and summary["timestamp"] > 0
    assert our_table(tmp_path).of("billing", "orders") == {0: 10, 3: (1 << 63) - 1, 7: 0}, "a broker may lower one"


def test_a_damaged_file_of_ours_is_read_from_its_copy_by_both(
    broker_offsets: Callable[..., list[Line]], tmp_path: Path
) -> None:
    table = our_table(tmp_path)
    for offset in (5, 6):
        table.set("g", "t", 1, offset)
        table.save()
    file = tmp_path / "config" / "consumerOffset.json"
    file.write_bytes(b"")
    assert our_table(tmp_path).of("g", "t") == {1: 5}
    assert by_name(broker_offsets(tmp_path)) == {"t@g": {1: 5}}
