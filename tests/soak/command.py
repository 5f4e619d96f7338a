"""The command line of the soak: how long, from which seed, and the summary."""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flightlog.tests.soak.campaign import Soak
from flightlog.tests.soak.episodes import kinds_first
from flightlog.tests.soak.ledger import Finding
from flightlog.tests.support import mounts
from flightlog.tests.support.mounts import why_none
from flightlog.tools.output import Output
from flightlog.tools.program import EXIT_FINDINGS, run_program
from flightlog.tools.progress_bar import ProgressBar
from flightlog.tools.words import count_text, seconds_text

SIMULATED_CUTS = Path(mounts.__file__).with_name("simulated_cuts.py")
TOLD_EVERY_S = 60


class Progress:
    """A bar on a terminal, else a line every minute, on stderr."""

    def __init__(self, soak: Soak, limit_s: float) -> None:
        self._soak, self._limit_s = soak, limit_s
        self.started_s = self._told_s = time.monotonic()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self.started_s

    def is_over(self, episodes: int) -> bool:
        """Asked after every episode. One of each kind comes first, however long that takes."""
        if time.monotonic() - self._told_s > TOLD_EVERY_S and not sys.stderr.isatty():
            self._told_s = time.monotonic()
            counts, acknowledged = self._soak.counts, self._soak.ledger.acknowledged
            said = ", ".join(f"{counts[name]} {name}" for name in ("episodes", "kills", "cuts", "full disks"))
            print(f"soak: {seconds_text(self.passed_s)}: {said}, {acknowledged} messages", file=sys.stderr, flush=True)
        first = kinds_first(can_lose_power=self._soak.can_lose_power)
        return episodes >= len(first) and self.passed_s >= self._limit_s

    def bar(self) -> ProgressBar:
        return ProgressBar("soak", max(round(self._limit_s), 1), lambda: round(self.passed_s))


def _summary(soak: Soak, passed_s: float, seed: int, findings: int) -> list[tuple[str, str]]:
    counts, ledger = soak.counts, soak.ledger
    return [
        ("duration", seconds_text(passed_s)),
        ("seed", str(seed)),
        ("episodes", f"{counts['episodes']} ({counts['ended before']} had ended before their end came)"),
        ("messages acknowledged", f"{ledger.acknowledged}"),
        ("messages refused", f"in {count_text(ledger.refusals, 'answer')}, none of them stored"),
        ("checks of acknowledged messages", f"{counts['checks']}"),
        ("kills", f"{counts['kills']}"),
        ("power cuts", f"{counts['cuts']}"),
        ("same boots", f"{counts['same boots']} of the power cuts were of the disk alone"),
        ("clean closes", f"{counts['closes']}"),
        ("torn tails", f"{counts['torn tails']} cut and kept aside"),
        ("full disks", f"{counts['full disks']}"),
        ("cleanings", f"{ledger.cleanings}"),
        ("topics deleted", f"{ledger.deletions}"),
        ("views", f"{counts['views']} opened, {counts['looks']} looks, {counts['read']} messages read"),
        ("queries by key", f"{counts['queries']}"),
        ("sightings held to", f"{ledger.sightings}"),
        ("findings", f"{findings}"),
    ]


def _soak(arguments: argparse.Namespace, seed: int) -> int:
    """The real thing. Returns how many findings there were; nothing is left behind unless there were some."""
    reason = "asked for" if arguments.plain else why_none()
    print(f"soak: seed {seed}, {arguments.minutes:g} minutes", file=sys.stderr)
    if reason is not None:
        print(f"soak: kills alone, neither power cuts nor full disks: {reason}", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="flightlog-soak-"))
    logging.basicConfig(filename=folder / "log", level=logging.WARNING)
    findings = 0
    with Soak(folder, seed, can_mount=reason is None, lies=arguments.lies) as soak:
        progress = Progress(soak, arguments.minutes * 60)
        try:
            with progress.bar():
                soak.run(until=progress.is_over)
        except Finding as e:
            findings = 1
            print(f"soak: FOUND, seed {seed}: {e}", *e.__notes__, sep="\n  ", file=sys.stderr)
            print(f"soak: store, ledger, episodes and logs are kept in {folder}", file=sys.stderr)
        passed_s = progress.passed_s
    Output().facts(_summary(soak, passed_s, seed, findings))
    if not findings:
        shutil.rmtree(folder)
    return findings


def _simulate(cuts: int, seed: int) -> int:
    """Cuts on a disk in memory, in as many processes as there are cores. Returns how many of those found something."""
    parts = len(os.sched_getaffinity(0))
    print(
        f"soak: {cuts} simulated cuts of seed {seed}, in {count_text(parts, 'process', 'processes')}", file=sys.stderr
    )
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # a seed is one life there, sets of texts included
    with tempfile.TemporaryDirectory(prefix="flightlog-cuts-") as folder:
        processes = []
        for part in range(parts):
            command = [sys.executable, "-P", str(SIMULATED_CUTS), f"{folder}/{part}", "--seed", str(seed)]
            command += ["--part", f"{part}/{parts}", "--cuts", str(-(-cuts // parts))]
            processes.append(subprocess.Popen(command, env=environment))
        try:
            with ProgressBar("simulated cuts"):
                return sum(process.wait() != 0 for process in processes)
        finally:
            for process in processes:
                process.kill()


def _run(arguments: argparse.Namespace) -> int:
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    findings = _soak(arguments, seed)
    if arguments.cuts:
        findings += _simulate(arguments.cuts, seed)
    return EXIT_FINDINGS if findings else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, help="of an earlier run, to have its episodes again")
    parser.add_argument("--cuts", type=int, default=0, help="simulated power cuts behind it")
    parser.add_argument(
        "--plain", action="store_true", help="in a plain folder, as where nobody may mount: kills alone"
    )
    parser.add_argument("--lies", action="store_true", help="writers whose syncs do nothing: they must be found out")
    return run_program(lambda: _run(parser.parse_args(arguments)))
