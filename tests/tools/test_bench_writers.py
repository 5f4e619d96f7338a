"""`flightlog bench flush` and `append`: every writer does as asked, and what is told follows from its rounds."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from flightlog import open_read_only
from flightlog.store.errors import UsageError
from flightlog.tools.bench import plot, report
from flightlog.tools.bench.case import (
    FRESH_PAGES,
    MEMCPY,
    NOTHING,
    OWN,
    PURE,
    RAW_LOOP,
    REFERENCES,
    Case,
    Outcome,
    Sample,
)
from flightlog.tools.bench.drive import drive
from flightlog.tools.bench.machine import device
from flightlog.tools.bench.machine.machine import Machine, this_machine
from flightlog.tools.bench.messages import QUEUES, TOPIC, make_rows, record_size
from flightlog.tools.bench.plan import Peers, append_cases, flush_cases, read_versus
from flightlog.tools.bench.runner import run
from flightlog.tools.bench.sentences import sentences
from flightlog.tools.bench.writers import PEERS, begin, opened, own_writers, put_case
from flightlog.tools.bench.writers.own import OwnSession
from flightlog.tools.output import Output

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

MACHINE = Machine(2, "a cpu", "Linux 6", "3.12", "ext4", "sda")
ALL = Peers(tuple(PEERS))
CASES = sorted(
    {
        *flush_cases([100], [3], ALL, None),
        *append_cases([100], ALL, None),
        *append_cases([100], Peers(), 5000),
    },
    key=str,
)


def need(writer: str) -> None:
    if writer == OWN and OWN not in own_writers():
        pytest.skip("the C kernel is not built here")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_runs_and_leaves_nothing(case: Case, tmp_path: Path) -> None:
    need(case.who)
    case = dataclasses.replace(case, batch=min(case.batch, 20), calls=6)
    found = run(case, tmp_path, stamps=True)
    assert found.count == 6 * case.batch
    assert 0 < found.put_s <= found.drained_s
    assert found.latencies_ns.shape == (6,) and (found.latencies_ns > 0).all()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("writer", (OWN, RAW_LOOP))
def test_a_store_is_filled_by_many_threads_before_the_clock_starts(writer: str, tmp_path: Path) -> None:
    need(writer)
    case = put_case(writer, sync=True, body_size=100, filled=2_000, calls=6)
    with opened(tmp_path, case, 2_000 * record_size(100)) as session:
        begin(session, case)
        if isinstance(session, OwnSession):
            assert sum(end for _, end in session.store.queues().values()) == 2_000
    found = run(case, tmp_path)
    assert found.count == 6 and "behind 2,000 others" in case.mode


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("writer", own_writers())
def test_this_store_holds_what_was_put(writer: str, columns: bool, tmp_path: Path) -> None:
    case = put_case(writer, body_size=100, batch=10, columns=columns)
    rows = make_rows(100, 40)
    with opened(tmp_path, case, 0) as session:
        drive(session.puts(), session.units(rows), 4, rate=None, stamps=False)
        session.drain()
    with open_read_only(tmp_path / "store") as view:
        found = [message for i in range(QUEUES) for message in view.read(TOPIC, i)]
        assert view.verify().is_clean
    assert sorted((m.keys[0], m.queue_id, m.body) for m in found) == [(r.key, r.queue_id, r.body) for r in rows]


def test_threads_share_the_calls() -> None:
    called: list[tuple[int, int]] = []

    def put_of(number: int) -> Callable[[int], None]:
        return lambda unit: called.append((number, unit))

    times = drive([put_of(0), put_of(1), put_of(2)], range(6), 14, rate=None, stamps=True)
    assert len(times.latencies_ns) == 14 and not len(times.waits_ns)
    assert sorted(unit for number, unit in called if number == 1) == [2, 2, 2, 3, 3]
    assert [number for number, _ in called].count(0) == 5


def test_an_error_of_a_thread_is_told_when_all_have_ended() -> None:
    ended = threading.Semaphore(0)

    def fails(unit: int) -> None:
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        drive([fails, lambda unit: ended.release()], [1, 2], 10, rate=None, stamps=False)
    assert all(ended.acquire(timeout=60) for _ in range(5))


def test_a_stall_is_charged_to_all_that_had_to_wait_behind_it() -> None:
    calls = itertools.count()

    def stalls_once(unit: int) -> None:
        if next(calls) == 0:
            time.sleep(0.1)

    times = drive([stalls_once], [1], 60, rate=1000, stamps=False)
    due_ms = np.arange(60)
    assert (times.latencies_ns / 1e6 >= 100 - due_ms - 1e-3).all()
    assert (times.waits_ns >= 0).all() and (times.waits_ns <= times.latencies_ns).all()
    assert (times.waits_ns[1:] < times.latencies_ns[:-1]).any(), "a call is not said to wait for the one before it"


def test_the_device_is_known(tmp_path: Path) -> None:
    machine = this_machine(tmp_path)
    if machine.is_in_memory:
        pytest.skip("no device under a file system in memory")
    assert device.sync_time_s(tmp_path) > 0
    assert not list(tmp_path.iterdir())
    if machine.device:
        assert machine.device in str(machine)
        assert (device.written_size(tmp_path) or 0) > 0


@pytest.mark.parametrize(
    ("file_system", "warns"), [("nfs4", "network"), ("overlay", "hides"), ("ext4", ""), ("tmpfs", "")]
)
def test_file_systems_that_tell_little_are_named(file_system: str, warns: str) -> None:
    found = Machine(1, "cpu", "kernel", "3", file_system).warnings
    assert len(found) == bool(warns) and all(warns in warning for warning in found)


def outcome(case: Case, per_message_us: Sequence[float], latencies_us: Sequence[float] = ()) -> Outcome:
    rounds = [Sample(1000, us * 1e-3, us * 0.5e-3, device_size=2_000_000) for us in per_message_us]
    return Outcome(case, rounds, Sample(1000, 1, 1, (np.array(latencies_us) * 1000).astype(np.int64)))


def case(who: str, *, sync: bool = False, batch: int = 1, threads: int = 1, rate: int | None = None) -> Case:
    return put_case(who, sync=sync, body_size=100, batch=batch, threads=threads, rate=rate)


OUTCOMES = [
    outcome(case(MEMCPY, batch=256), [0.1]),
    outcome(case(OWN), [2, 1, 4], [1, 2, 300]),
    outcome(case(OWN, batch=256), [1]),
    outcome(case(RAW_LOOP, sync=True), [40]),
    outcome(case(OWN, sync=True), [50], [40] * 99 + [1000]),
    outcome(case(OWN, sync=True, threads=8), [10]),
    outcome(case("sqlite3"), [20]),
    outcome(case("lmdb"), [4]),
    outcome(case("lmdb", sync=True), [100]),
]


def test_what_rounds_mean() -> None:
    own = OUTCOMES[1]
    assert own.per_message_s == pytest.approx(2e-6)
    assert own.returned_s == pytest.approx(1e-6)
    assert own.spread == pytest.approx(1.5)
    assert own.latency_ns(50) == pytest.approx(2000)
    assert own.device_bytes_per_byte is None, "an async writer's bytes come when they like"
    assert OUTCOMES[4].device_bytes_per_byte == pytest.approx(2000 / record_size(100))
    assert np.isnan(OUTCOMES[0].latency_ns(99))


def test_sync_is_measured_against_the_raw_loop_and_async_against_memcpy() -> None:
    found = [report.reference_of(o, OUTCOMES) for o in OUTCOMES]
    assert found[1] is OUTCOMES[0]
    assert found[4] is OUTCOMES[3]
    assert [reference is None for reference in found] == [o.case.who in REFERENCES for o in OUTCOMES]


def test_the_closing_sentences() -> None:
    cost, rival = sentences(OUTCOMES)
    assert cost == (
        "Sync costs you 25x here, because each put waits 50 µs for the device to confirm it; "
        "8 threads bring it to 5x of an async put."
    )
    assert rival == "Beside the fastest peer this store writes: async, 2x lmdb; sync, 2x lmdb."
    cost, limit = sentences(OUTCOMES[:6])
    assert limit == "The device alone takes 40 µs to write such a record and confirm it: 80 % of what a sync put takes."
    assert sentences(OUTCOMES[1:2]) == [], "nothing to compare"


def test_the_closing_sentences_without_a_sync() -> None:
    pure = outcome(case(PURE), [8])
    cost, limit = sentences([*OUTCOMES[:3], pure])
    assert cost == (
        "A message costs you 2 µs here, put one by one, until it can be found by its queue and its key; "
        "1 µs in batches of 256."
    )
    assert limit == ("To copy its bytes alone takes 0.1 µs: a put costs 20x that, and without the C kernel 80x.")
    assert sentences(OUTCOMES[:3])[1].endswith("20x that.")


def test_the_closing_sentences_at_a_rate() -> None:
    paced = [outcome(case(OWN, sync=sync, rate=5000), [200], [3] * 999 + [70, 70]) for sync in (False, True)]
    many = outcome(case(OWN, sync=True, threads=8, rate=5000), [200], [3])
    told = (
        "flush, 5,000 messages a second: half of the puts have returned 3 µs after they were due, 99.9 % after 70 µs."
    )
    assert sentences([*paced, many]) == [f"Async {told}", f"Sync {told}"]


def test_a_run_is_kept_and_compared_with_one_of_the_same_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "run.json"
    report.tell(report.as_object(OUTCOMES, MACHINE), lambda output: None, as_json=False, save=kept)
    rows = json.loads(kept.read_text())["outcomes"]
    assert [row["who"] for row in rows] == [o.case.who for o in OUTCOMES]
    assert rows[1]["messages_per_s"] == pytest.approx(500_000)

    earlier = report.load_earlier(kept, MACHINE)
    faster = [outcome(OUTCOMES[1].case, [1])]
    report.show_change(faster, earlier, Output())
    assert "2.00x" in capsys.readouterr().out
    report.show_change([outcome(put_case(OWN, sync=True, body_size=7), [1])], earlier, Output())
    assert "none of these cases" in capsys.readouterr().out

    other = Machine(64, "a cpu", "Linux 6", "3.12", "ext4", "sda")
    with pytest.raises(UsageError, match="measured on another machine"):
        report.load_earlier(kept, other)
    for text in ("", "[]", "{}", json.dumps({"machine": {}, "outcomes": []}), '{"machine": {"cpus": 1}}'):
        kept.write_text(text)
        with pytest.raises(UsageError, match="no run that --save has kept"):
            report.load_earlier(kept, MACHINE)


@pytest.mark.parametrize("suffix", plot.SUFFIXES)
def test_a_plot_is_drawn(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"plot{suffix}"
    plot.draw(OUTCOMES, MACHINE, path)
    magic = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert path.read_bytes().startswith(magic)


def test_peers_are_named_one_by_one_or_all() -> None:
    assert read_versus(()) == Peers()
    assert read_versus(["lmdb,sqlite3", "lmdb"]) == Peers(("lmdb", "sqlite3"))
    assert "sqlite3" in read_versus(["all"]).names


def test_at_a_rate_every_flush_mode_puts_one_by_one() -> None:
    cases = flush_cases([1024], [8], Peers(("sqlite3",)), 5000)
    assert {(each.rate, each.batch, each.columns) for each in cases} == {(5000, 1, False)}
    assert {(each.who, each.sync, each.threads) for each in cases} == {
        (NOTHING, False, 1),
        (RAW_LOOP, True, 1),
        *((own_writers()[0], sync, threads) for sync, threads in ((False, 1), (True, 1), (True, 8))),
        *(("sqlite3", sync, 1) for sync in (False, True)),
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("flush", "--versus", "kafka"), "--versus kafka: no such peer"),
        (("flush", "--versus", "rocketmq"), "--versus rocketmq: name its jars"),
        (("append", "--versus", "rocketmq=/proc"), "--versus rocketmq=/proc: no rocketmq-store"),
        (("append", "--rate", "0"), "--rate 0: expected at least 1"),
        (("flush", "--rate", "0"), "--rate 0: expected at least 1"),
        (("flush", "--body-size", "0"), "--body-size 0"),
        (("flush", "--seconds", "0"), "--seconds 0"),
        (("flush", "--plot", "plot.txt"), "--plot plot.txt: expected a name that ends in"),
        (("flush", "--plot", "/no/folder/plot.png"), "--plot /no/folder/plot.png: there is no folder"),
        (("append", "--save", "/no/folder/run.json"), "--save /no/folder/run.json: there is no folder"),
        (("append", "--compare", "/no/run.json"), "--compare /no/run.json: no run that --save has kept"),
        (("flush", "--folder", "/no/folder"), "--folder /no/folder: no such folder"),
    ],
)
def test_wrong_calls(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    finished = cli("bench", *arguments)
    assert (finished.code, finished.out) == (2, "")
    assert says in finished.err.splitlines()[-1]


def test_sync_figures_of_a_file_system_in_memory_are_refused(cli: Cli, in_memory: Path) -> None:
    finished = cli("bench", "flush", "--folder", in_memory)
    assert finished.code == 2
    assert "a sync syncs nothing" in finished.err
    assert not list(in_memory.iterdir())


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_run_as_its_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    kept, drawn = tmp_path / "run.json", tmp_path / "run.png"
    small = ("--quick", "--rounds", "1", "--seconds", "1", "--body-size", "100", "--folder", tmp_path)
    files = ("--save", kept, "--plot", drawn)
    finished = cli("bench", "flush", *small, "--threads", "2", "--versus", "sqlite3", *files)
    assert finished.code == 0, finished.err
    assert "writing about" in finished.err
    assert "Sync costs you" in finished.out and "Beside the fastest peer" in finished.out
    found: list[dict[str, Any]] = json.loads(kept.read_text())["outcomes"]
    assert {row["who"] for row in found} == {MEMCPY, FRESH_PAGES, RAW_LOOP, own_writers()[0], "sqlite3"}
    assert drawn.stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "run.png"]

    finished = cli("bench", "flush", *small, "--threads", "2", "--compare", kept, "--json")
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["machine"]["cpus"] > 0
