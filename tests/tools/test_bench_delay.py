"""`make delay`: every message comes, none before its time, and the figures are told, kept and drawn."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches.delay import command as delay
from benches.delay import lateness as delay_load
from benches.delay.command import DelayOptions, run
from benches.delay.lateness import LEVEL, TIMER, Idle, Lateness, Watch, measure, measure_idle
from benches.delay.pending_timers import Step
from flightlog.store.errors import UsageError
from flightlog.store.settings import FlushMode

MIB = 1 << 20


@pytest.mark.parametrize("kind", [LEVEL, TIMER])
@pytest.mark.parametrize("mode", FlushMode)
def test_every_message_is_measured(kind: str, mode: FlushMode, tmp_path: Path) -> None:
    found = measure(tmp_path / "store", kind, 500, 0.2, mode)
    assert found.messages == len(found.late_ms) == 100 and found.late_ms.min() >= 0
    told = found.as_object()
    assert told["p50_ms"] <= told["p99_ms"] <= told["max_ms"] == found.late_ms.max()
    assert "late_ms" not in told and (told["kind"], told["mode"]) == (kind, mode.name.lower())


@pytest.mark.parametrize("kind", [LEVEL, TIMER])
def test_an_idle_store(kind: str, tmp_path: Path) -> None:
    found = measure_idle(tmp_path / "idle", kind, 3, 0.01, settle_s=0.0)
    assert (found.kind, found.waiting) == (kind, 3)
    assert found.cpu_seconds >= 0 and found.context_switches >= 1, "to sleep is a context switch"


def test_a_watch_tells_when_a_record_was_first_seen(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch._seen += [(100, 5), (300, 9)]
    assert watch.times_ms(np.array([1, 100, 101, 300])).tolist() == [5, 5, 9, 9]


def test_a_message_that_does_not_come_once_or_comes_early_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_evenly = delay_load._put_evenly

    def put_one_more(*given: object) -> np.ndarray:
        put_evenly(*given)  # type: ignore[arg-type]
        return np.zeros(101, np.int64)

    monkeypatch.setattr(delay_load, "_put_evenly", put_one_more)
    with pytest.raises(AssertionError, match="101 messages were put, 100 delivered"):
        measure(tmp_path / "lost", LEVEL, 500, 0.2, FlushMode.ASYNC)
    monkeypatch.setattr(delay_load, "_put_evenly", lambda *given: put_evenly(*given) + 10**9)
    with pytest.raises(AssertionError, match="early"):
        measure(tmp_path / "early", LEVEL, 500, 0.2, FlushMode.ASYNC)


def test_it_is_told_kept_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late_ms, asked = np.array([0, 1, 2, 7]), list[int]()

    def measured(folder: Path, kind: str, rate: int, seconds: float, mode: FlushMode) -> Lateness:
        return Lateness(kind, rate, mode.name.lower(), 4, seconds, late_ms, 0.1)

    def pending(folder: Path, count: int) -> list[Step]:
        asked.append(count)
        return [Step(step, count, 1.5, 200 * MIB, 50 * MIB) for step in ("put", "take", "open")]

    monkeypatch.setattr(delay, "measure", measured)
    monkeypatch.setattr(
        delay, "measure_idle", lambda folder, kind, waiting, seconds: Idle(kind, waiting, seconds, 0, 1)
    )
    monkeypatch.setattr(delay, "measure_pending", pending)
    kept, table, drawn = (tmp_path / name for name in ("kept.json", "kept.csv", "drawn.svg"))
    options = DelayOptions([1000, 2000], quick=True, folder=tmp_path, save=kept, csv=table, plot=drawn)
    assert run(options) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("1,000", "2,000", "async", "sync", "Timers", "An idle store"))
    assert "Many timers" not in text and not asked, "they take minutes: only on request"
    told = json.loads(kept.read_text())
    assert len(told["lateness"]) == 8 and {one["max_ms"] for one in told["lateness"]} == {7.0}
    rows = list(csv.DictReader(table.open()))
    assert [(row["kind"], int(row["rate"]), float(row["max_ms"])) for row in rows[:2]] == [("level", 1000, 7.0)] * 2
    assert "1,000 a second, sync flush: p99 6.85 ms" in drawn.read_text()
    assert run(replace(options, pending=2000)) == 0
    assert asked == [2000] and "50 MiB" in capsys.readouterr().out
    assert json.loads(kept.read_text())["pending"][2]["own_memory_size"] == 50 * MIB
    assert run(DelayOptions([1000], quick=True, as_json=True)) == 0
    assert json.loads(capsys.readouterr().out)["idle"][1]["waiting"] == delay.WAITING


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (DelayOptions([5]), "--rate 5"),
        (DelayOptions([]), "--rate"),
        (DelayOptions(seconds=0), "--seconds 0"),
        (DelayOptions(seconds=math.nan), "--seconds nan"),
        (DelayOptions(pending=0), "--pending 0"),
        (DelayOptions(pending=1500), "--pending 1500"),
        (DelayOptions(folder=Path("/no/such")), "no such folder"),
        (DelayOptions(save=Path("/no/such/file.json")), "--save"),
        (DelayOptions(csv=Path("/no/such/file.csv")), "--csv"),
        (DelayOptions(plot=Path("drawn.txt")), "--plot"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(options: DelayOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(options)
