"""`flightlog bench scan`: says what it is about to do, does it, tells what came of it."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ....store.errors import UsageError
from ...output import Column, Output
from ...progress_bar import CLEAR_LINE, ProgressBar
from ...words import figure_text, seconds_text, size_text
from ..machine.machine import this_machine
from ..machine.scratch import check_room, scratch_folder
from ..telling import saving
from .scan_plan import BODY_SIZES, NAMES, SCANS, SELECTION_BODY_SIZE, SELECTIONS, ScanQuery
from .scan_session import measured_session
from .scan_spark import Scanner, ScanRound
from .scan_stores import ScanStore, write_plain, write_shares

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS, QUICK_ROUNDS = 5, 1
SIZE, QUICK_SIZE = 1 << 30, 16 << 20
SIZE_MIN = 4 << 20
MIB = 1 << 20
GIB = 1 << 30
WARM_ROUNDS = 1
MASTER = "local[2]"
SPARK_START_S, ROUND_OVERHEAD_S = 15.0, 1.0
STORE_S = 20.0
"""About what a GiB of a store takes until it and its Parquet are written."""
ROOM = 4
"""The folder must have so many times the bytes of a store free: the store, its Parquet, what a query writes, keys."""


@dataclass(frozen=True)
class ScanOptions:
    """What the command line says."""

    only: Sequence[str] = ()
    body_sizes: Sequence[int] = ()
    size_mib: float | None = None
    rounds: int | None = None
    quick: bool = False
    master: str = MASTER
    folder: Path | None = None
    as_json: bool = False
    save: Path | None = None


@dataclass
class ScanLine:
    """A query over one store, its rounds and its rival's."""

    query: ScanQuery
    store: ScanStore
    target: float
    ours: list[ScanRound] = field(default_factory=list)
    rival: list[ScanRound] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Of times, round by round."""
        return [ours.seconds / rival.seconds for ours, rival in zip(self.ours, self.rival, strict=True)]

    @property
    def cpu_ratio(self) -> float:
        """Of the time that all processes computed; says more than the clock where others use the machine."""
        rival_s = _median_told(each.usage.cpu_s for each in self.rival)
        return _median_told(each.usage.cpu_s for each in self.ours) / rival_s if rival_s else math.nan

    @property
    def read_part(self) -> float:
        """Bytes that the source's workers read, as a part of the log."""
        return _median_told(each.usage.read_size for each in self.ours) / self.store.size

    @property
    def is_met(self) -> bool:
        return median(self.ratios) <= self.target

    def per_gib_s(self, rounds: Sequence[ScanRound]) -> float:
        return median(each.seconds for each in rounds) * GIB / self.store.size

    def as_object(self) -> dict[str, Any]:
        return {
            "query": self.query.name,
            "text": self.query.text,
            "against": self.query.rival,
            "body_size": self.store.body_size,
            "log_size": self.store.size,
            "messages": self.store.count,
            "ours": [each.as_object() for each in self.ours],
            "rival": [each.as_object() for each in self.rival],
            "ratios": self.ratios,
            "ratio": median(self.ratios),
            "cpu_ratio": saving.told(self.cpu_ratio),
            "read_part": saving.told(self.read_part),
            "target": self.target,
            "is_met": self.is_met,
        }


def _median_told(values: Iterable[float]) -> float:
    """Of those that could be told; NaN if none could."""
    told = [value for value in values if not math.isnan(value)]
    return median(told) if told else math.nan


@dataclass(frozen=True)
class _Plan:
    """Which stores are written, and what is asked of each."""

    scans: tuple[ScanQuery, ...]
    selections: tuple[ScanQuery, ...]
    body_sizes: tuple[int, ...]
    size: int
    rounds: int

    @property
    def stores(self) -> list[tuple[bool, int, tuple[ScanQuery, ...]]]:
        """(whether it has topics of different shares, body size, queries)"""
        plain = [(False, body_size, self.scans) for body_size in self.body_sizes if self.scans]
        return plain + ([(True, SELECTION_BODY_SIZE, self.selections)] if self.selections else [])

    @property
    def seconds(self) -> float:
        total_s = SPARK_START_S
        for is_mixed, _, queries in self.stores:
            gib = self.size * (1 + is_mixed) / GIB
            a_round_s = sum(query.seconds * gib + ROUND_OVERHEAD_S for query in queries)
            total_s += STORE_S * gib + (WARM_ROUNDS + self.rounds) * a_round_s
        return total_s


def run(options: ScanOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    plan = _plan(options)
    saving.check_files({"--save": options.save})
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        room = ROOM * plan.size * (1 + bool(plan.selections))
        _say(f"{machine}; {options.master}")
        _say(f"{plan.rounds} rounds, about {seconds_text(plan.seconds)}, up to {size_text(room)} below {folder.parent}")
        check_room(folder, room)
        started_s = time.monotonic()
        with measured_session(options.master) as spark:
            lines = _measure(spark, plan, folder)
        _say(f"took {seconds_text(time.monotonic() - started_s)}")
    found = {"machine": asdict(machine), "master": options.master, "lines": [line.as_object() for line in lines]}
    if options.save:
        saving.save_json(options.save, found)
    if options.as_json:
        print(json.dumps(found, indent=2))
    else:
        show(lines, Output())
    return 0


def _plan(options: ScanOptions) -> _Plan:
    wanted = [word.strip() for text in options.only for word in text.split(",")]
    for word in wanted:
        if word not in NAMES:
            raise UsageError(f"--only {word}: no such query; there are {', '.join(NAMES)}")
    for body_size in options.body_sizes:
        if body_size not in BODY_SIZES:
            raise UsageError(f"--body-size {body_size}: expected one of {', '.join(map(str, BODY_SIZES))}")
    size = QUICK_SIZE if options.quick else SIZE
    if options.size_mib is not None:
        size = int(options.size_mib * MIB)
    if size < SIZE_MIN:
        raise UsageError(f"--size {options.size_mib:g}: expected at least {SIZE_MIN // MIB} MiB")
    rounds = options.rounds if options.rounds is not None else QUICK_ROUNDS if options.quick else ROUNDS
    if rounds < 1:
        raise UsageError(f"--rounds {rounds}: expected at least 1")
    saving.check_folder(options.folder)
    return _Plan(
        tuple(query for query in SCANS if not wanted or query.name in wanted),
        tuple(query for query in SELECTIONS if not wanted or query.name in wanted),
        tuple(options.body_sizes) or BODY_SIZES,
        size,
        rounds,
    )


def _measure(spark: SparkSession, plan: _Plan, folder: Path) -> list[ScanLine]:
    lines: list[ScanLine] = []
    scanner = Scanner(spark, folder)
    for is_mixed, body_size, queries in plan.stores:
        path = folder / f"store-{'shares' if is_mixed else body_size}"
        with ProgressBar(f"writing {path.name}"):
            write = write_shares if is_mixed else write_plain
            store = write(path, body_size, plan.size * (1 + is_mixed))
            parquet = None if is_mixed else scanner.make_parquet(store)
            os.sync()
        here = [ScanLine(query, store, query.target(body_size)) for query in queries]
        with ProgressBar(f"measuring {path.name}", (WARM_ROUNDS + plan.rounds) * len(here)) as bar:
            for number in range(WARM_ROUNDS + plan.rounds):
                for line in here:
                    ours, rival = scanner.round(line.query, store, parquet)
                    if number >= WARM_ROUNDS:
                        line.ours.append(ours)
                        line.rival.append(rival)
                    bar.done += 1
        for line in here:  # told at once: whatever ends a long run early is not to take them along
            _say(f"{CLEAR_LINE if sys.stderr.isatty() else ''}{'  '.join([str(body_size), *_row(line)])}")
        lines += here
        shutil.rmtree(path)
        if parquet is not None:
            shutil.rmtree(parquet)
    return lines


def show(lines: Sequence[ScanLine], output: Output) -> None:
    """A table for each store, medians of the rounds."""
    titles = ("s/GiB", "rival's", "ratio", "at most", "spread", "CPU ratio", "of the log read")
    columns = [Column("query"), Column("against"), *(Column(title, True) for title in titles), Column("met")]
    for path in dict.fromkeys(line.store.path for line in lines):
        here = [line for line in lines if line.store.path == path]
        store = here[0].store
        title = f"Bodies of {store.body_size:,} bytes, {store.count:,} messages, {size_text(store.size)} of log"
        output.table(title, columns, [_row(line) for line in here])
    output.line()
    output.line(
        "s/GiB: from spark.read to the answer, of a GiB of log. ratio: to the rival's time, round by round; CPU ratio: "
        "to the time that its processes computed. Parquet: Spark's own, of the same rows. not pushed: the same answer "
        "by a filter that Spark keeps to itself"
    )
    output.line(f"{sum(line.is_met for line in lines)} of {len(lines)} targets met")


def _row(line: ScanLine) -> list[str]:
    ratios = line.ratios
    return [
        line.query.text,
        line.query.rival,
        figure_text(line.per_gib_s(line.ours)),
        figure_text(line.per_gib_s(line.rival)),
        figure_text(median(ratios)),
        figure_text(line.target),
        f"{(max(ratios) - min(ratios)) / median(ratios):.0%}",
        figure_text(line.cpu_ratio),
        "" if math.isnan(line.read_part) else f"{line.read_part:.1%}",
        "yes" if line.is_met else "NO",
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
