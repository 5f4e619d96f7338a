"""`make messaging`: from put to listener, through groups and pulls, beside a queue on SQLite."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.messaging.flow import burst, latency, throughput
from benches.messaging.groups import STRATEGIES, rebalance
from benches.messaging.part import Part
from benches.messaging.plot import draw
from benches.messaging.pulls import PULLS, pulls
from flightlog.store.errors import UsageError
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.machine.scratch import scratch_folder
from flightlog.tools.bench.telling.plots import check_plot
from flightlog.tools.bench.telling.saving import check_files, check_folder, save_csv, save_json
from flightlog.tools.output import Column, Output
from flightlog.tools.progress_bar import ProgressBar
from flightlog.tools.words import figure_text

PARTS = "latency", "throughput", "burst", "rebalance", "pulls"
BESIDE_S = 1.0
"""Opening and closing of stores, a part."""


@dataclass(frozen=True)
class MessagingOptions:
    """What the command line says."""

    only: Sequence[str] = ()
    quick: bool = False
    folder: Path | None = None
    as_json: bool = False
    save: Path | None = None
    csv: Path | None = None
    plot: Path | None = None


@dataclass(frozen=True)
class Plan:
    """How much of each."""

    rate: int = 1_000
    latency_s: float = 3.0
    consumers: tuple[int, ...] = (1, 2, 4, 8, 16)
    backlog: int = 40_000
    burst_s: float = 1.0
    change_s: float = 1.5
    pulls: int = PULLS
    pulls_s: float = 10.0

    def parts(self, folder: Path) -> dict[str, tuple[float, Callable[[], Part]]]:
        """By name: about how many seconds it takes, and what to call."""
        return {
            "latency": (4 * self.latency_s, lambda: latency(folder / "latency", self.rate, self.latency_s)),
            "throughput": (
                len(self.consumers) * self.backlog / 8_000,
                lambda: throughput(folder / "throughput", self.consumers, self.backlog),
            ),
            "burst": (26 * self.burst_s, lambda: burst(folder / "burst", self.burst_s)),
            "rebalance": (len(STRATEGIES) * 3 * self.change_s, lambda: rebalance(folder / "rebalance", self.change_s)),
            "pulls": (3 * self.pulls_s + 4, lambda: pulls(folder / "pulls", self.pulls, self.pulls_s)),
        }


QUICK = Plan(500, 0.1, (1, 2), 500, 0.02, 0.1, 100, 0.2)


def run(options: MessagingOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    for name in options.only:
        if name not in PARTS:
            raise UsageError(f"--only {name}: expected some of {', '.join(PARTS)}")
    check_folder(options.folder)
    check_files({"--save": options.save, "--csv": options.csv})
    if options.plot is not None:
        check_plot(options.plot)
    wanted = [name for name in PARTS if not options.only or name in options.only]
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        plan = (QUICK if options.quick else Plan()).parts(folder)
        takes_s = sum(plan[name][0] + BESIDE_S for name in wanted)
        print(f"{machine}\nabout {takes_s:.0f} s", file=sys.stderr, flush=True)
        found = []
        with ProgressBar("measuring", len(wanted)) as bar:
            for name in wanted:
                (folder / name).mkdir()
                found.append(plan[name][1]())
                bar.done += 1
    told = {"machine": asdict(machine), "parts": [asdict(part) for part in found]}
    if options.save is not None:
        save_json(options.save, told)
    if options.csv is not None:
        rows = _as_rows(found)
        save_csv(options.csv, rows, ("part", "case", "figure", "value"))
    if options.plot is not None:
        draw(found, machine, options.plot)
    if options.as_json:
        print(json.dumps({"machine": told["machine"], "parts": {part.name: part.rows for part in found}}, indent=2))
    else:
        show(found, Output())
    return 0


def show(parts: Sequence[Part], output: Output) -> None:
    for part in parts:
        columns = [Column(name, not isinstance(value, str)) for name, value in part.rows[0].items()]
        output.table(part.title, columns, [[_text(value) for value in row.values()] for row in part.rows])


def _text(value: object) -> str:
    return figure_text(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _as_rows(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """One figure a row."""
    rows = []
    for part in parts:
        for number, row in enumerate(part.rows):
            words = [value for value in row.values() if isinstance(value, str)]
            case = " ".join(words) or str(number)
            if "consumers" in row:
                case += f" {row['consumers']}"
            for name, value in row.items():
                if not isinstance(value, str):
                    rows.append({"part": part.name, "case": case, "figure": name, "value": value})
    return rows
