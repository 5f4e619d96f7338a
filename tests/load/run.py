"""Tests that touch clocks, threads, processes or sockets, many times beside each other: which of them hang on the speed
of the machine?

Forty processes at once are the load, each one test file under pytest; every file has its turn once a round, in random
order. Odd rounds run with the kernel, even ones with the pure reference. Left out are tests marked `ci`, unless
`--marked` says otherwise, and what starts a Java (slice.py).

The processes are forks of this one, which has imported what takes long. Each has a folder of its own
for temporary files, removed as it ends. In `.load/` are the outcome of every file in every round (`results.jsonl`,
added to by each run) and, in `failed/`, what pytest said of those that failed. `--done FILE` keeps what passed, and a
later run with it, at the same commit, leaves that out: twenty rounds may be gathered over several runs.

`--stops N` also stops up to N of the processes at a time (SIGSTOP) for 0.2 to 9 s and lets them go again, at random:
threads and clocks meet pauses that a loaded machine makes seldom. What they have started runs on. A test then has twice
its limit of time.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flightlog.tests.load.done import Done, UncommittedChangesError, commit_of
from flightlog.tests.load.slice import chosen
from flightlog.tests.load.stops import TIMES_LONGER, Stops

ROOT = Path(__file__).resolve().parents[2]
LOADED = ("numpy", "crc32c", "hypothesis", "pytest", "_pytest.unittest", "pytest_timeout", "pytest_benchmark.plugin")
"""Imported once."""
NO_TESTS = 5
"""The exit code of pytest for a file of which no test was chosen."""
POLL_S = 0.02
STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One file in one round."""

    path: str
    round: int

    @property
    def is_pure(self) -> bool:
        return self.round % 2 == 0

    @property
    def name(self) -> str:
        return f"{self.path.removeprefix('tests/').removesuffix('.py').replace('/', '.')}-{self.round}"


@dataclass(frozen=True, slots=True)
class Running:
    turn: Turn
    began_s: float
    folder: Path


class Load:
    """Turns that run, and the results of those that ended."""

    def __init__(self, work: Path, marked: str, done: Done | None) -> None:
        self._work, self._marked, self._done = work, marked, done
        self._failed = work / "failed"
        self._failed.mkdir(parents=True, exist_ok=True)
        self._temporary = Path(tempfile.mkdtemp(prefix="load-"))
        self.running: dict[int, Running] = {}
        self.results: list[dict[str, Any]] = []

    def start(self, turn: Turn) -> None:
        folder = Path(tempfile.mkdtemp(dir=self._temporary))
        pid = os.fork()
        if pid == 0:
            _run_pytest(turn, self._marked, folder)
        self.running[pid] = Running(turn, time.monotonic(), folder)

    def collect(self) -> None:
        """Take in what ended; returns at once if nothing did."""
        for pid in list(self.running):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._take(self.running.pop(pid), os.waitstatus_to_exitcode(status))

    def _take(self, ended: Running, code: int) -> None:
        lines = ended.folder / "outcomes"
        outcomes = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        counts = Counter(outcome for _, outcome in outcomes)
        failed = sorted({test for test, outcome in outcomes if outcome == "failed"})
        if code not in (0, NO_TESTS):
            failed = failed or [f"{outcomes[-1][0] if outcomes else ended.turn.path} (exit code {code})"]
            shutil.copyfile(ended.folder / "output", self._failed / f"{ended.turn.name}.log")
        result = {
            "path": ended.turn.path,
            "round": ended.turn.round,
            "pure": ended.turn.is_pure,
            "marked": self._marked,
            "passed": counts["passed"],
            "skipped": counts["skipped"],
            "failed": failed,
            "seconds": round(time.monotonic() - ended.began_s, 1),
            "at": round(time.time()),
        }
        self.results.append(result)
        if self._done is not None and not failed:
            self._done.add(ended.turn.path, ended.turn.round)
        with (self._work / "results.jsonl").open("a") as file:
            file.write(json.dumps(result) + "\n")
        shutil.rmtree(ended.folder, ignore_errors=True)

    def stop(self) -> None:
        """Interrupt what runs, so that tests unmount what they mounted; kill what does not end soon, with what it
        started; and remove its files."""
        for pid in self.running:
            os.kill(pid, signal.SIGINT)
        deadline_s = time.monotonic() + STOP_S
        while self.running and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
            for pid in list(self.running):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self.running[pid]
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        shutil.rmtree(self._temporary, ignore_errors=True)


def _run_pytest(turn: Turn, marked: str, folder: Path) -> None:
    """In a fork; does not return."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where this was started behind a shell
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["FLIGHTLOG_LOAD_OUTCOMES"] = str(folder / "outcomes")
        os.environ["FLIGHTLOG_PURE"] = "1" if turn.is_pure else "0"
        if turn.is_pure:  # the kernel came with what this process imported, before the variable was set
            importlib.import_module("flightlog.store.native").use("pure")
        options = ["-q", "-p", "outcomes", "-p", "no:cacheprovider", "-n0", "--benchmark-disable"]
        options += ["-m", marked, f"--basetemp={folder / 'tmp'}"]
        code = int(importlib.import_module("pytest").main([*options, str(ROOT / turn.path)]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _progress(load: Load, count: int, began_s: float) -> str:
    failures = sum(bool(result["failed"]) for result in load.results)
    load_1 = os.getloadavg()[0]
    return (
        f"{len(load.results)} of {count} files, {failures} failed, {len(load.running)} run, load {load_1:.0f}, "
        f"{(time.monotonic() - began_s) / 60:.1f} min"
    )


def _report(results: list[dict[str, Any]], stops: Stops) -> bool:
    """Print what failed and how often; true if nothing did."""
    failures = Counter(test for result in results for test in result["failed"])
    for test, times in failures.most_common():
        rounds = sorted(
            f"{result['round']}{' pure' if result['pure'] else ''}" for result in results if test in result["failed"]
        )
        print(f"{times:3} x {test} (rounds {', '.join(rounds)})")
    tests = sum(result["passed"] for result in results)
    skipped = sum(result["skipped"] for result in results)
    stopped = f", {stops.count:,} stops" if stops.count else ""
    print(f"{len(results)} files ran: {tests:,} tests passed, {skipped:,} skipped, {failures.total()} failed{stopped}")
    return not failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", type=Path, help="files, in place of those that slice.py chooses")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="the number of the first round")
    parser.add_argument("--processes", type=int, default=40, help="how many files run at a time")
    parser.add_argument("--seed", type=int, default=None, help="of the order")
    parser.add_argument("--marked", default="not ci", help="which of their tests, as pytest's -m has it")
    parser.add_argument("--stops", type=int, default=0, help="how many processes at a time are stopped for seconds")
    parser.add_argument("--one-core", action="store_true", help="all on the first core that this process may use")
    parser.add_argument("--done", type=Path, help="leave out what this file says passed at this commit, and add to it")
    parser.add_argument("--list", action="store_true", help="print the files that would run")
    parser.add_argument("--work", type=Path, default=ROOT / ".load")
    given = parser.parse_args()
    files = [str(path.resolve().relative_to(ROOT)) for path in given.tests or chosen(ROOT / "tests")]
    if given.list:
        print("\n".join(files))
        return
    done = None
    if given.done is not None:
        try:
            commit = commit_of(ROOT)
        except UncommittedChangesError as e:
            parser.error(str(e))
        how = f"{given.marked}{', one core' if given.one_core else ''}{f', {given.stops} stops' if given.stops else ''}"
        done = Done(given.done.resolve(), commit, how)
    if given.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.chdir(ROOT)
    if given.stops:
        os.environ["FLIGHTLOG_LOAD_TIMES_LONGER"] = str(TIMES_LONGER)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a thread of numpy's would not live on in a fork
    sys.path.insert(0, str(Path(__file__).parent))
    for name in LOADED:
        importlib.import_module(name)
    seed = random.SystemRandom().randrange(1 << 31) if given.seed is None else given.seed
    dice, turns = random.Random(seed), list[Turn]()
    for number in range(given.first, given.first + given.rounds):
        order = dice.sample(files, len(files))
        turns += [Turn(path, number) for path in order if done is None or (path, number) not in done]
    how = f"{given.rounds} rounds, {given.processes} at a time, seed {seed}"
    left_out = len(files) * given.rounds - len(turns)
    print(f"{len(files)} files, {how}; {left_out} turns passed before", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    load, began_s, said = Load(given.work.resolve(), given.marked, done), time.monotonic(), ""
    stops = Stops(given.stops, seed)
    try:
        while len(load.results) < len(turns):
            while len(load.running) < given.processes and (begun := len(load.results) + len(load.running)) < len(turns):
                load.start(turns[begun])
            time.sleep(POLL_S)
            load.collect()
            stops.step(load.running, time.monotonic())
            if (progress := _progress(load, len(turns), began_s)) != said:
                said = progress
                print(f"\r{progress:79}", end="", file=sys.stderr, flush=True)
    finally:
        stops.end(load.running)
        load.stop()
        print(file=sys.stderr)
        is_good = _report(load.results, stops)
    sys.exit(0 if is_good else f"what they said is in {given.work / 'failed'}")


if __name__ == "__main__":
    main()
