"""Readers of a backlog: each reads all of it, beside a writer that puts what falls due."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from flightlog import open_read_only
from flightlog.benches.readers import (
    KINDS,
    PACE,
    PROCESSES,
    SHARE,
    THREADS,
    Readers,
    again_and_again,
    backlog,
    figures_of,
)
from flightlog.tests.support import process
from flightlog.tools.bench.messages import QUEUES, TOPIC


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_of_each_kind(kind: str, tmp_path: Path) -> None:
    before = process.threads()
    with backlog(tmp_path, 100, 402) as (store, messages), ExitStack() as children:
        assert len(messages) == 400
        found = Readers(store, messages, kind, 3, children).measure(0.05).figures
        put = store.statistics().puts.messages  # type: ignore[union-attr]
    assert process.threads() <= before
    assert min(found.values()) > 0 and found["all"] >= 3 * found["the slowest"]
    assert put >= 400 + 0.05 * 1e3 * found["writer alone"]
    with open_read_only(tmp_path / "backlog") as view:
        assert view.verify().is_clean


def test_readers_read_the_backlog_aloneagain_and_again(tmp_path: Path) -> None:
    with backlog(tmp_path, 100, 8) as (store, messages):
        for message in messages:
            store.put(message)
        found = [(m.queue_id, m.queue_offset) for m in islice(again_and_again(store, 2), 12)]
    once = [(queue_id, offset) for queue_id in range(QUEUES) for offset in range(2)]
    assert found == [*once, *once[:4]]
    with open_read_only(tmp_path / "backlog") as view:
        assert len(list(view.read(TOPIC, 0))) == 4 and view.verify().is_clean


def test_what_a_round_means() -> None:
    found = figures_of(1000.0, 800.0, 16.0, (40.0, 30.0, 90.0), 450.0)
    assert found["its share"] == pytest.approx(50.0)
    assert found[SHARE] == pytest.approx(0.6)
    assert found[PACE] == pytest.approx(0.9)


def test_threads_share_one_core_and_processes_those_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (THREADS, 16), (PROCESSES, 16), (PROCESSES, 2)
    with backlog(tmp_path, 100, 40) as (store, messages), ExitStack() as children:
        monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)))
        found = [Readers(store, messages, *kind, children).per_core for kind in kinds]
    assert found == [16, 4, 1]
    with open_read_only(tmp_path / "backlog") as view:
        assert view.verify().is_clean
