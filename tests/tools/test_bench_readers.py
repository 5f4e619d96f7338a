"""`make readers`: every reader reads all of the backlog, beside a writer that puts what falls due."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benches.readers.command import ReadersOptions, run
from benches.readers.readers import PROCESSES, THREADS, Readers, ReadersRound, _again_and_again, backlog
from flightlog import open_read_only
from flightlog.store.errors import UsageError
from flightlog.tools.bench.cases.workloads import QUEUES, TOPIC
from flightlog.tools.bench.machine.scratch import check_room

BENCHES = str(Path(__file__).resolve().parents[2] / "benches" / "run.py")

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]


@pytest.mark.parametrize("kind", [THREADS, PROCESSES])
def test_a_round_of_each_kind(kind: str, tmp_path: Path) -> None:
    before = threading.active_count()
    with backlog(tmp_path, 100, 402) as (store, messages), ExitStack() as children:
        assert len(messages) == 400
        readers = Readers(store, messages, kind, 3)
        readers.start(children)
        found = readers.measure(0.05)
        put = store.statistics().puts.messages  # type: ignore[union-attr]
    assert threading.active_count() == before
    assert len(found.readers) == 3 and min(found.readers) > 0
    assert found.writer_alone > 0 and found.writer > 0
    assert put >= 400 + 0.05 * found.writer_alone
    with open_read_only(tmp_path / "backlog") as view:
        assert view.verify().is_clean


def test_readers_read_the_backlog_alone_again_and_again(tmp_path: Path) -> None:
    with backlog(tmp_path, 100, 8) as (store, messages):
        for message in messages:
            store.put(message)
        found = [(m.queue_id, m.queue_offset) for m in islice(_again_and_again(store, 2), 12)]
    once = [(queue_id, offset) for queue_id in range(QUEUES) for offset in range(2)]
    assert found == [*once, *once[:4]]
    with open_read_only(tmp_path / "backlog") as view:
        assert len(list(view.read(TOPIC, 0))) == 4 and view.verify().is_clean


def test_what_a_round_means() -> None:
    found = ReadersRound(1000.0, 800.0, 50.0, (40.0, 30.0, 90.0), 450.0)
    assert found.slowest_share == pytest.approx(0.6)
    assert found.pace == pytest.approx(0.9)


def test_threads_share_one_core_and_processes_those_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(4)))
    with backlog(tmp_path, 100, 40) as (store, messages):
        found = {kind: Readers(store, messages, kind, 16)._per_core for kind in (THREADS, PROCESSES)}
        alone = Readers(store, messages, PROCESSES, 2)._per_core
    assert (found, alone) == ({THREADS: 16, PROCESSES: 4}, 1)
    with open_read_only(tmp_path / "backlog") as view:
        assert view.verify().is_clean


@pytest.mark.ci
def test_a_run_as_its_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    small = ("--readers", "2", "--seconds", "0.05", "--messages", "400", "--quick", "--folder", tmp_path)
    finished = cli("readers", *small, module=BENCHES)
    assert finished.code == 0, finished.err
    assert "writing up to" in finished.err
    assert "2 threads" in finished.out and "2 processes" in finished.out
    finished = cli("readers", *small, "--json", module=BENCHES)
    found = json.loads(finished.out)
    assert {kind: len(rounds) for kind, rounds in found["rounds"].items()} == {THREADS: 1, PROCESSES: 1}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (ReadersOptions(readers=0), "--readers 0"),
        (ReadersOptions(rounds=0), "--rounds 0"),
        (ReadersOptions(messages=0), "--messages 0"),
        (ReadersOptions(seconds=0), "--seconds 0"),
        (ReadersOptions(folder=Path("/no/folder")), "--folder /no/folder"),
    ],
)
def test_wrong_calls(options: ReadersOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(options)


def test_a_full_disk_is_told_beforehand(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="free, expected"):
        check_room(tmp_path, 1 << 60)
