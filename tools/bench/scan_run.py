"""`flightlog bench scan`: queries through Spark, warm, over stores of one size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...store.errors import UsageError
from ..progress_bar import ProgressBar
from ..words import size_text
from .case import Outcome
from .harness import Options, begun, check_numbers, choose, finish, measure_with_bar
from .machine.scratch import check_room
from .report import say
from .scan.queries import NAMES, SCANS, SELECTIONS, Scanner, ScanQuery
from .scan.session import measured_session
from .scan.stores import write_plain, write_shares

BODY_SIZES = (100, 1024, 10_240)
SELECTION_BODY_SIZE = 1024
ROUNDS, QUICK_ROUNDS = 5, 1
MIB = 1 << 20
SIZE, QUICK_SIZE, SIZE_MIN = 1024 * MIB, 16 * MIB, 4 * MIB
ROOM = 4
"""Free space needed, as a multiple of a store's size: the store, its Parquet, the output of a query, keys."""


@dataclass(frozen=True)
class ScanPlan:
    """The stores to write, and the queries on each."""

    stores: tuple[tuple[bool, int, tuple[ScanQuery, ...]], ...]
    """(whether it has topics of different shares, body size, queries)"""
    size: int
    rounds: int

    @property
    def room(self) -> int:
        return ROOM * self.size * (1 + any(is_mixed for is_mixed, _, _ in self.stores))


def run(options: Options) -> int:
    """Measure and print; returns the exit code. Raises UsageError for wrong options, before anything is written."""
    asked = make_plan(options)
    with begun(options, f"; {options.master}") as (folder, machine):
        say(f"{asked.rounds} rounds, up to {size_text(asked.room)} below {folder.parent}")
        outcomes = measure(asked, folder, options.master)
    return finish(options, machine, outcomes)


def make_plan(options: Options) -> ScanPlan:
    """Raises UsageError for an unknown query, another body size, and a store that is too small."""
    wanted = choose(options.only, NAMES, "no such query; there are")
    check_numbers({"--rounds": options.rounds})
    for body_size in options.body_sizes:
        if body_size not in BODY_SIZES:
            raise UsageError(f"--body-size {body_size}: expected one of {', '.join(map(str, BODY_SIZES))}")
    size = QUICK_SIZE if options.quick else SIZE
    if options.size is not None:
        size = int(options.size * MIB)
    if size < SIZE_MIN:
        raise UsageError(f"--size {options.size:g}: expected at least {SIZE_MIN // MIB} MiB")
    scans, selections = (tuple(query for query in queries if query.name in wanted) for queries in (SCANS, SELECTIONS))
    stores = [(False, body_size, scans) for body_size in tuple(options.body_sizes) or BODY_SIZES if scans]
    stores += [(True, SELECTION_BODY_SIZE, selections)] if selections else []
    return ScanPlan(tuple(stores), size, options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS))


def measure(plan: ScanPlan, folder: Path, master: str = Options.master) -> list[Outcome]:
    """Run every query on every store, after a warm-up round. Raises UsageError if the disk has too little room."""
    check_room(folder, plan.room)
    outcomes: list[Outcome] = []
    with measured_session(master) as spark:
        for is_mixed, body_size, queries in plan.stores:
            path = folder / f"store-{'shares' if is_mixed else body_size}"
            with ProgressBar(f"writing {path.name}"):
                store = (write_shares if is_mixed else write_plain)(path, body_size, plan.size * (1 + is_mixed))
                scanner = Scanner(spark, folder, store)
                if not is_mixed:
                    scanner.make_parquet()
                os.sync()
            cases = [case for query in queries for case in scanner.cases(query)]
            measure_with_bar(cases, 1, folder)
            outcomes += measure_with_bar(cases, plan.rounds, folder)
            scanner.remove()
    return outcomes
