"""Runs the fuzz targets, one after the other or several at a time, and says how often each was executed.

A target is `tests/fuzz/**/fuzz_NAME.c`, built by the Makefile beside it, or `tests/fuzz/targets/NAME.py`, run by
atheris (run_files.py). Either takes libFuzzer's arguments and ends with libFuzzer's statistics.
`tests/fuzz/corpus/NAME/` holds its inputs and `fuzz_NAME.dict` beside it, if there is one, its words.

Everything goes into one folder (`--work`, default `.fuzz`): `build/`, `corpus/NAME/` with what this and earlier runs
added to the corpus, `logs/NAME.txt`, and `found/NAME-…` with every input that broke something. Such an input is tried
again by giving it to the target as its only argument. The exit code is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ADDR_NO_RANDOMIZE: Final = 0x0040000
TIMEOUT_S: Final = 120
"""An input that takes longer hangs; far more than any takes on a machine that is busy otherwise."""
INPUT_SIZE_MAX: Final = {".c": 1024, ".py": 4096}
EXECUTED: Final = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
INTERRUPTED: Final = 72
"""libFuzzer's exit code after a SIGINT."""
OPTIONS: Final = {
    # The kernel allocates nothing, and Python leaks by design. The rest is for speed: what was freed is watched for a
    # shorter while, and where it came from is told with fewer callers.
    "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=4:malloc_context_size=4",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclass(frozen=True, slots=True)
class Target:
    source: Path
    build: Path
    """Where programs built from C lie."""

    @property
    def name(self) -> str:
        return self.source.stem.removeprefix("fuzz_")

    @property
    def command(self) -> list[str]:
        if self.source.suffix == ".c":
            return [str(self.build / self.source.stem)]
        return [sys.executable, "-P", str(HERE / "run_files.py"), self.name]


@dataclass(frozen=True, slots=True)
class Outcome:
    target: Target
    exit_code: int
    executions: int
    seconds: float
    found: list[Path] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.exit_code == 0 and not self.found

    def __str__(self) -> str:
        line = f"{self.target.name:<16} {self.executions:>13,} executions in {self.seconds:,.0f} s"
        if self.found:
            return "\n".join([line, *(f"    found {path}" for path in self.found)])
        return line if self.exit_code == 0 else f"{line}, exit code {self.exit_code}"


def targets(build: Path) -> list[Target]:
    sources = [*HERE.rglob("fuzz_*.c"), *(HERE / "targets").glob("*.py")]
    return sorted((Target(source, build) for source in sources), key=lambda target: target.name)


def compile_c(chosen: list[Target], build: Path, native: Path | None, jobs: int) -> None:
    folders = {target.source.parent for target in chosen if target.source.suffix == ".c"}
    for folder in sorted(folders):
        programs = [str(build / target.source.stem) for target in chosen if target.source.parent == folder]
        command = ["make", "-s", f"-j{jobs}", "-C", str(folder), f"OUT={build}", f"PYTHON={sys.executable}"]
        subprocess.run([*command, *([f"NATIVE={native}"] if native else []), *programs], check=True)


def run(target: Target, work: Path, limit: str, seed: int) -> Outcome:
    grown, found, log = work / "corpus" / target.name, work / "found", work / "logs" / f"{target.name}.txt"
    for folder in (grown, found, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(found.glob(f"{target.name}-*"))
    words, stored = target.source.with_suffix(".dict"), HERE / "corpus" / target.name
    command = [
        *target.command,
        limit,
        f"-seed={seed}",
        f"-timeout={TIMEOUT_S}",
        f"-report_slow_units={TIMEOUT_S}",
        f"-max_len={INPUT_SIZE_MAX[target.source.suffix]}",
        f"-artifact_prefix={found / target.name}-",
        "-print_final_stats=1",
        *([f"-dict={words}"] if words.is_file() else []),
        str(grown),
        *([str(stored)] if stored.is_dir() else []),
    ]
    begin = time.monotonic()
    with log.open("wb") as output:
        finished = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env={**OPTIONS, **os.environ})
    took = time.monotonic() - begin
    said = EXECUTED.findall(log.read_text(errors="replace"))
    exit_code = finished.returncode or (0 if said else 1)
    new = sorted(set(found.glob(f"{target.name}-*")) - before)
    outcome = Outcome(target, exit_code, int(said[-1]) if said else 0, took, new)
    print(outcome, flush=True)
    if not outcome.is_good and exit_code != INTERRUPTED:
        print(*tail(log), sep="\n", flush=True)
    return outcome


def tail(log: Path) -> Iterator[str]:
    """The report's beginning and what came after it, without the fuzzer's progress."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("#")]
    reports = [i for i, line in enumerate(lines) if "ERROR" in line or "runtime error" in line or "hold:" in line]
    start = reports[0] if reports else max(len(lines) - 20, 0)
    yield from (f"    | {line}" for line in lines[start : start + 40])
    yield f"    {log}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the fuzz targets and says how often each was executed.")
    parser.add_argument("names", nargs="*", help="targets (default: all)")
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--seconds", type=int, default=600, help="for all targets together (default 600)")
    limits.add_argument("--runs", type=int, help="executions of each target instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="0 (the default) draws a new one")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time (default 1)")
    parser.add_argument("--work", type=Path, default=HERE.parents[1] / ".fuzz", help="folder for all that is written")
    parser.add_argument("--native", type=Path, help="folder of the kernel's sources (default store/native/c)")
    arguments = parser.parse_args()

    work = arguments.work.resolve()
    known = targets(work / "build")
    chosen = [target for target in known if target.name in arguments.names or not arguments.names]
    if unknown := set(arguments.names) - {target.name for target in chosen}:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(target.name for target in known)}")
    compile_c(chosen, work / "build", arguments.native and arguments.native.resolve(), arguments.jobs)
    # A run repeats itself only at the same addresses, and older AddressSanitizers fail at some of the random ones.
    # Where it is forbidden, as in some containers, both matter little.
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
    each = max(arguments.seconds * arguments.jobs // len(chosen), 1)
    limit = f"-max_total_time={each}" if arguments.runs is None else f"-runs={arguments.runs}"
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(lambda target: run(target, work, limit, arguments.seed), chosen))
    bad = [outcome.target.name for outcome in outcomes if not outcome.is_good]
    executions = sum(outcome.executions for outcome in outcomes)
    print(f"{'together':<16} {executions:>13,} executions; {'broken: ' + ', '.join(bad) if bad else 'nothing found'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
