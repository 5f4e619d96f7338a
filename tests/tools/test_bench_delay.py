"""`flightlog bench delay`: every message comes, none before its time, and the figures are told, kept and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flightlog.store.errors import UsageError
from flightlog.store.settings import FlushMode
from flightlog.tools.bench import delay
from flightlog.tools.bench.delay import DelayOptions, measure, measure_idle, run


@pytest.mark.parametrize("mode", FlushMode)
def test_every_message_is_measured(mode: FlushMode, tmp_path: Path) -> None:
    found = measure(tmp_path / "store", 500, 0.2, mode)
    assert found.messages == len(found.late_ms) == 100 and found.late_ms.min() >= 0
    told = found.as_object()
    assert told["p50_ms"] <= told["p99_ms"] <= told["max_ms"] == found.late_ms.max()
    assert "late_ms" not in told and told["mode"] == mode.name.lower()
    assert measure_idle(tmp_path / "idle", 3, 0.01).waiting == 3


def test_it_is_told_kept_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(folder: Path, rate: int, seconds: float, mode: FlushMode) -> delay.Lateness:
        return delay.Lateness(rate, mode.name.lower(), 4, seconds, np.array([0, 1, 2, 7]), 0.1)

    monkeypatch.setattr(delay, "measure", measured)
    monkeypatch.setattr(delay, "measure_idle", lambda folder, waiting, seconds: delay.Idle(waiting, seconds, 0.0))
    files = tmp_path / "kept.json", tmp_path / "drawn.svg"
    assert run(DelayOptions([1000], quick=True, folder=tmp_path, save=files[0], plot=files[1])) == 0
    text = capsys.readouterr().out
    assert "1,000" in text and "async" in text and "sync" in text
    kept = json.loads(files[0].read_text())
    assert [(one["rate"], one["max_ms"]) for one in kept["lateness"]] == [(1000, 7.0), (1000, 7.0)]
    assert "due a second" in files[1].read_text()
    assert run(DelayOptions([1000], quick=True, as_json=True)) == 0
    assert json.loads(capsys.readouterr().out)["idle"][1]["waiting"] == delay.WAITING


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (DelayOptions([5]), "--rate 5"),
        (DelayOptions(seconds=0), "--seconds 0"),
        (DelayOptions(folder=Path("/no/such")), "no such folder"),
        (DelayOptions(save=Path("/no/such/file.json")), "--save"),
        (DelayOptions(plot=Path("drawn.txt")), "--plot"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(options: DelayOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(options)
