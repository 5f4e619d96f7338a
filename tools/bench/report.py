"""Output of a run: tables, JSON, and the change since an earlier run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ...store.errors import UsageError
from ..output import Column, Output
from ..words import figure_text
from .case import (
    FRESH_PAGES,
    MAPPED,
    MEMCPY,
    NOTHING,
    OWN,
    PERCENTILES,
    PLAIN,
    PLAIN_COLD,
    POOL,
    PURE,
    PUT,
    RAW_LOOP,
    WAIT_PERCENTILES,
    Case,
    Outcome,
)
from .machine.machine import Machine
from .machine.system_use import why_rounds_differ
from .reads.files import SEALS, VERIFY
from .reads.reads import QUERY, READ, READ_ALL, READ_BATCH, READ_COLD, READ_FIELDS
from .reads.recover import RECOVER
from .scan.queries import NOT_PUSHED, PARQUET

NOTES = {
    MEMCPY: "the same bytes into a mapped file whose pages are there already: the limit of memory",
    FRESH_PAGES: "the same into pages that must be faulted in first",
    RAW_LOOP: "pwrite and fdatasync of the same bytes in a file with its blocks allocated, as a segment has them",
    OWN: "with the C kernel; puts until every message was in its queue and in the key index",
    PURE: "the same without the C kernel",
    NOTHING: "the same loop with nothing to call: what the loop costs, and what the machine gives to others",
    MAPPED: "Apache RocketMQ's own store at its defaults, warm, puts until its dispatch had caught up",
    POOL: "the same with transientStorePoolEnable. RocketMQ's transient pool does not survive the process",
    PLAIN: "the log's files by read calls of 1 MiB, from the page cache",
    PLAIN_COLD: "the log's files by read calls of 1 MiB, nothing of them in the page cache",
    READ: "every message as an object, its CRC checked, from the page cache; RocketMQ checks no CRC of a body here",
    READ_ALL: "the same messages as one stream, in the order of the log",
    READ_BATCH: "bodies and queue offsets of every message as Arrow columns, the rest checked as by read",
    READ_FIELDS: "the same as read, and every field of it looked at: properties, hosts, times, flags",
    READ_COLD: "a view opened and every message read as by read, nothing of the store in the page cache",
    SEALS: "the same bytes against the seals of their segments; the last one, which has none, read plainly",
    VERIFY: "the whole store against itself, from the page cache: seals, records, queues, key index",
    QUERY: "a message by its key, keys in random order, from the page cache",
    RECOVER: "open for writing what a writer at default settings left that was killed right after its last put; "
    "RocketMQ what its own killed writer left",
    PARQUET: "Spark's own reading of the same rows, the limit here; CPU s: of all of Spark's processes",
    NOT_PUSHED: "the same answer by a filter that Spark keeps to itself",
}
IDENTITY = tuple(each.name for each in fields(Case) if each.compare)
COLUMNS_NOTE = (
    "µs each: until everything was done; put alone: until the last put had returned; p50 to max: of one call, of "
    "puts in a round of its own; spread: of the rounds; device B/B: bytes that the device took per byte of record"
)
RATE_NOTE = (
    "p50 to max count from when a call was due. Of that, wait: how long a call that was due, and had none "
    "before it any more, waited for the interpreter's lock or a core, which another thread or program had"
)


def reference_of(outcome: Outcome, outcomes: Sequence[Outcome]) -> Outcome | None:
    """Its reference in the same run; under sync the one with as many messages per call, or else the most."""
    case = outcome.case
    found = [o for o in outcomes if o.case.who == case.against and o.case.body_size == case.body_size]
    if case.task != PUT:  # where a reference does the same task, it is the one of this task
        found = [o for o in found if o.case.task == case.task] or found
    fitting = [o for o in found if o.case.batch <= case.batch or not case.sync]
    return max(fitting, key=lambda o: o.case.batch, default=None)


def rival_of(outcome: Outcome, outcomes: Sequence[Outcome]) -> Outcome | None:
    """RocketMQ's outcome for the same task, if it was measured."""
    case = outcome.case
    same_size = (o for o in outcomes if o.case.body_size == case.body_size)
    return next((o for o in same_size if (o.case.who, o.case.task) == case.rival), None)


def as_object(outcomes: Sequence[Outcome], machine: Machine) -> dict[str, Any]:
    """The object that `--json` prints and `--save` writes. JSON has no NaN: figures that were not measured are null."""
    return {"machine": asdict(machine), "outcomes": [_as_row(outcome, outcomes) for outcome in outcomes]}


def _as_row(outcome: Outcome, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    case, reference, rival = outcome.case, reference_of(outcome, outcomes), rival_of(outcome, outcomes)
    times = {f"p{percentile:g}_ns": outcome.latency_ns(percentile) for percentile in PERCENTILES}
    times |= {"max_ns": outcome.latency_ns(100)}
    times |= {f"wait_p{percentile:g}_ns": outcome.wait_ns(percentile) for percentile in WAIT_PERCENTILES}
    return {
        **case.identity,
        "mode": case.mode,
        "record_size": case.record_size,
        "messages": outcome.rounds[0].count,
        "drained_s": [sample.drained_s for sample in outcome.rounds],
        "put_s": [sample.put_s for sample in outcome.rounds],
        "returned_s": outcome.returned_s,
        "per_message_s": outcome.per_message_s,
        "messages_per_s": 1 / outcome.per_message_s,
        "spread": outcome.spread,
        **{name: or_null(value) for name, value in times.items()},
        "device_bytes_per_byte": outcome.device_bytes_per_byte,
        "reference": case.against,
        "part_of_reference": None if reference is None else outcome.part_of(reference),
        "times_rocketmq": None if rival is None else outcome.part_of(rival),
        "figures": {name: or_null(outcome.figure(name)) for name in figure_names([outcome])},
    }


def or_null(value: float) -> float | None:
    """The value, or None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def figure_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Names of all figures besides times."""
    return list(dict.fromkeys(name for o in outcomes for sample in o.rounds for name in sample.figures))


def tell(found: dict[str, Any], show: Callable[[Output], None], *, as_json: bool, save: Path | None) -> None:
    """Write the object to `save`, and print it as JSON or, by `show`, as tables."""
    text = json.dumps(found, indent=2)
    if save:
        save.write_text(text + "\n")
    if as_json:
        print(text)
    else:
        show(Output())


def say(text: str) -> None:
    """Print progress or a warning to stderr, which keeps stdout clean for results."""
    print(text, file=sys.stderr, flush=True)


def load_earlier(path: Path, machine: Machine) -> dict[tuple[Any, ...], float]:
    """Seconds per message by case, from a file that `--save` wrote. Raises UsageError for another file, and for
    a run on another machine, which cannot be compared."""
    try:
        found = json.loads(path.read_text())
        earlier_machine, rows = Machine(**found["machine"]), found["outcomes"]
        earlier = {tuple(row[name] for name in IDENTITY): float(row["per_message_s"]) for row in rows}
    except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError) as e:
        raise UsageError(f"--compare {path}: no run that --save has kept ({e})") from e
    if earlier_machine != machine:
        raise UsageError(f"--compare {path}: measured on another machine ({earlier_machine}), this one is {machine}")
    return earlier


def show_change(outcomes: Sequence[Outcome], earlier: dict[tuple[Any, ...], float], output: Output) -> None:
    """Print the speed of each case relative to the earlier run; 1.0 is equally fast."""
    rows = []
    for outcome in outcomes:
        before_s = earlier.get(tuple(outcome.case.identity.values()))
        if before_s is not None:
            rows.append([str(outcome.case), figure_text(before_s * 1e6), figure_text(outcome.per_message_s * 1e6)])
            rows[-1].append(f"{before_s / outcome.per_message_s:.2f}x")
    columns = [Column("case"), Column("µs before", True), Column("µs now", True), Column("as fast", True)]
    output.table("Beside the earlier run", columns, rows)
    if not rows:
        output.line("The earlier run has none of these cases.")


Cell = Callable[[Outcome], str]


def show(outcomes: Sequence[Outcome], output: Output) -> None:
    """Print the tables, and notes on the names. Empty columns are left out."""
    for title, here in tables(outcomes).items():
        names: dict[str, Cell] = {"": lambda o: o.case.who}
        numbers: dict[str, Cell] = {name: _figure_cell(name) for name in figure_names(here)}
        if not here[0].case.has_figures:
            names = {"who": lambda o: o.case.who, "how": lambda o: o.case.mode}
            numbers = _rates(outcomes) | numbers
        cells = {**names, **numbers}
        rows = [[cell(o) for cell in cells.values()] for o in here]
        kept = [i for i in range(len(cells)) if any(row[i] for row in rows)]
        heads = [Column(name, name not in names) for name in cells]
        output.table(title, [heads[i] for i in kept], [[row[i] for i in kept] for row in rows])
    output.line()
    for outcome in outcomes:
        if why := why_rounds_differ(outcome):
            output.line(f"{outcome.case}: {why}")
    for name in dict.fromkeys(name for o in outcomes for name in (o.case.who, o.case.task)):
        if name in NOTES:
            output.line(f"{name}: {NOTES[name]}")
    if not all(outcome.case.has_figures for outcome in outcomes):
        output.line(COLUMNS_NOTE)
    if any(outcome.case.rate is not None for outcome in outcomes):
        output.line(RATE_NOTE)


def _figure_cell(name: str) -> Cell:
    return lambda outcome: figure_text(outcome.figure(name))


def tables(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each table, by its title; larger bodies later."""
    found: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda o: o.case.body_size):
        found.setdefault(outcome.case.table, []).append(outcome)
    return found


def _rates(outcomes: Sequence[Outcome]) -> dict[str, Cell]:
    """The columns of a table of rates and times."""
    percentiles = {f"p{p:g}" + " µs" * (p == 50): p for p in PERCENTILES} | {"max": 100.0}
    waits = {f"wait p{p:g}": p for p in WAIT_PERCENTILES}
    return {
        "thousand/s": lambda o: figure_text(1e-3 / o.per_message_s),
        "MB/s": lambda o: figure_text(o.case.record_size / o.per_message_s / 1e6),
        "µs each": lambda o: figure_text(o.per_message_s * 1e6),
        "put alone": lambda o: figure_text(o.returned_s * 1e6) if o.case.task == PUT else "",
        "spread": lambda o: f"{o.spread:.0%}",
        **{name: lambda o, p=p: figure_text(o.latency_ns(p) / 1e3) for name, p in percentiles.items()},  # type: ignore[misc]
        "device B/B": lambda o: figure_text(o.device_bytes_per_byte or math.nan),
        "of the limit": lambda o: _ratio(o, reference_of(o, outcomes), 100, " %"),
        "x RocketMQ": lambda o: _ratio(o, rival_of(o, outcomes), 1, "x"),
        **{name: lambda o, p=p: figure_text(o.wait_ns(p) / 1e3) for name, p in waits.items()},  # type: ignore[misc]
    }


def _ratio(outcome: Outcome, other: Outcome | None, scale: float, unit: str) -> str:
    return "" if other is None else f"{figure_text(scale * outcome.part_of(other))}{unit}"
