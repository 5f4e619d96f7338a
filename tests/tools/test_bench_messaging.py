"""`make messaging`: every message comes and is counted, and the figures are told, kept and drawn."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from benches.messaging import command as messaging
from benches.messaging.command import PARTS, MessagingOptions, run
from benches.messaging.flow import burst, latency, throughput
from benches.messaging.groups import STRATEGIES, Life, rebalance
from benches.messaging.part import Part
from benches.messaging.pulls import pulls
from benches.messaging.sqlite_queue import SqliteQueue
from flightlog.store.errors import UsageError


def test_latencies_are_of_every_message(tmp_path: Path) -> None:
    part = latency(tmp_path, 1000, 0.05)
    assert [(row["queue"], row["flush"]) for row in part.rows] == [
        *(("flightlog", "async"), ("flightlog", "sync"), ("SQLite table", "async"), ("SQLite table", "sync"))
    ]
    for row, ms in zip(part.rows, part.series.values(), strict=True):
        assert row["messages"] == len(ms) == 50 and 0 < ms[0] <= row["p50 ms"] <= row["p99 ms"] <= ms[-1]


def test_a_backlog_is_worked_off_by_any_number(tmp_path: Path) -> None:
    part = throughput(tmp_path, (1, 3), 200)
    assert [(row["consumers"], row["messages"]) for row in part.rows] == [*[(1, 200), (3, 200)] * 2, (1, 20), (3, 20)]
    assert all(row["messages/s"] > 0 for row in part.rows)
    assert [len(points) for points in part.series.values()] == [2, 2, 2]


def test_a_burst_is_followed_until_it_is_worked_off(tmp_path: Path) -> None:
    [row] = burst(tmp_path, 0.02).rows
    assert row["messages"] == 1000 and 0 < row["taken a second"] < 2_000 * 1.2
    assert row["drained after s"] >= 0.4


def test_a_rebalance_moves_queues_and_loses_nothing(tmp_path: Path) -> None:
    part = rebalance(tmp_path, 0.1)
    assert [(row["strategy"], row["change"]) for row in part.rows] == [
        (strategy.name, change) for strategy in STRATEGIES for change in ("join", "leave")
    ]
    moved = [row["queues moved"] for row in part.rows]
    assert moved[:4] == [6, 6, 12, 12] and moved[4] == moved[5] <= 6
    assert all(row["pause p50 ms"] <= row["pause max ms"] and row["came again"] >= 0 for row in part.rows)


def test_pauses_and_repeats_are_told_by_what_came() -> None:
    life = Life([(1.0, "a", 0, 1), (2.0, "a", 1, 2), (3.5, "b", 0, 1), (5.0, "b", 0, 3), (6.0, "b", 0, 3)])
    assert life.pauses_s({0, 1}, 3.0) == [2.5], "nothing came of queue 1 any more"
    assert [life.repeats_between(3.0, 4.0), life.repeats_between(0.0, 9.0)] == [1, 2]


def test_pulls_are_woken_and_renewed(tmp_path: Path) -> None:
    [row] = pulls(tmp_path, 50, 0.1).rows
    assert row["pulls that wait"] == 50 and 0 <= row["wake-up p50 ms"] <= row["p99 ms"] <= row["max ms"]
    assert row["all of one queue ms"] > 0


@pytest.mark.parametrize("is_sync", [False, True])
def test_the_sqlite_queue_gives_each_message_once_and_again_what_failed(is_sync: bool, tmp_path: Path) -> None:
    with SqliteQueue(tmp_path / "queue", is_sync=is_sync) as queue:
        queue.put_many([b"1", b"2"])
        queue.put(b"3")
        with pytest.raises(ValueError, match="not yet"), queue.taken() as body:
            raise ValueError(f"not yet: {body!r}")
        assert len(queue) == 3
        found: list[bytes] = []

        def take() -> None:
            for _ in range(2):
                with queue.taken() as body:
                    found.append(body)

        takers = [threading.Thread(target=take) for _ in range(2)]
        for taker in takers:
            taker.start()
        queue.put(b"4")  # one of them waits for it
        for taker in takers:
            taker.join()
        assert sorted(found) == [b"1", b"2", b"3", b"4"] and not len(queue)


def test_it_is_told_kept_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(name: str) -> Part:
        series: dict[str, dict[str, Any]] = {
            "latency": {"a": [0.5, 1.0]},
            "throughput": {"a": [(1, 10.0), (2, 20.0)]},
            "burst": {"b": [[0, 1]]},
        }
        rows = [{"queue": f"of {name}", "consumers": 2, "p50 ms": 0.25}]
        return Part(name, f"The {name}", rows, series.get(name, {}))

    parts = {name: (1.0, lambda name=name: found(name)) for name in PARTS}
    monkeypatch.setattr(messaging.Plan, "parts", lambda plan, folder: parts)
    files = [tmp_path / name for name in ("kept.json", "kept.csv", "drawn.svg")]
    assert run(MessagingOptions(folder=tmp_path, save=files[0], csv=files[1], plot=files[2])) == 0
    told = capsys.readouterr()
    assert "about 10 s" in told.err and all(f"The {name}" in told.out for name in PARTS)
    kept = json.loads(files[0].read_text())
    assert [part["name"] for part in kept["parts"]] == list(PARTS) and kept["machine"]["cpus"] > 0
    rows = list(csv.DictReader(files[1].open()))
    assert rows[1] == {"part": "latency", "case": "of latency 2", "figure": "p50 ms", "value": "0.25"}
    assert "messages behind" in files[2].read_text()
    assert run(MessagingOptions(["burst"], quick=True, as_json=True)) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == {"burst": found("burst").rows}
    assert not [path for path in tmp_path.iterdir() if path not in files], "the folder is left as it was"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (MessagingOptions(["all"]), "--only all"),
        (MessagingOptions(folder=Path("/no/such")), "no such folder"),
        (MessagingOptions(save=Path("/no/such/file.json")), "--save"),
        (MessagingOptions(csv=Path("/no/such/file.csv")), "--csv"),
        (MessagingOptions(plot=Path("drawn.txt")), "--plot"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(options: MessagingOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(options)
