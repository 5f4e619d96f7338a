"""The load of delay levels and timers: every message comes, none before its time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flightlog.benches import delay
from flightlog.benches.delay import LEVEL, TIMER, Watch, measure, measure_idle
from flightlog.store.settings import FlushMode


@pytest.mark.parametrize("kind", [LEVEL, TIMER])
@pytest.mark.parametrize("mode", FlushMode)
def test_every_message_is_measured(kind: str, mode: FlushMode, tmp_path: Path) -> None:
    found = measure(tmp_path / "store", kind, 500, 0.2, mode)
    assert found.count == len(found.series) == 100 and found.series[0] >= 0
    figures = found.figures
    assert figures["p50 ms"] <= figures["p99 ms"] <= figures["max ms"] == found.series[-1]


@pytest.mark.parametrize("kind", [LEVEL, TIMER])
def test_an_idle_store(kind: str, tmp_path: Path) -> None:
    found = measure_idle(kind, 3, 0.01, tmp_path / "idle", settle_s=0.0)
    assert found.count == 3
    assert found.figures["CPU, ms a second"] >= 0
    assert found.figures["context switches a second"] * 0.01 >= 0.99, "to sleep is a context switch"


def test_a_watch_tells_when_a_record_was_first_seen(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch._seen += [(100, 5), (300, 9)]
    assert watch.times_ms(np.array([1, 100, 101, 300])).tolist() == [5, 5, 9, 9]


def test_a_message_that_does_not_come_once_or_comes_early_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_evenly = delay.put_evenly

    def put_one_more(*given: object) -> np.ndarray:
        put_evenly(*given)  # type: ignore[arg-type]
        return np.zeros(101, np.int64)

    monkeypatch.setattr(delay, "put_evenly", put_one_more)
    with pytest.raises(AssertionError, match="101 messages were put, 100 delivered"):
        measure(tmp_path / "lost", LEVEL, 500, 0.2, FlushMode.ASYNC)
    monkeypatch.setattr(delay, "put_evenly", lambda *given: put_evenly(*given) + 10**9)
    with pytest.raises(AssertionError, match="early"):
        measure(tmp_path / "early", LEVEL, 500, 0.2, FlushMode.ASYNC)
