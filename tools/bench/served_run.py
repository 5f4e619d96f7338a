"""`flightlog bench serve`: the server beside RocketMQ's own broker and proxy, under the same load, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ...store.errors import UsageError
from ..output import Column, Output
from ..words import figure_text
from .case import RAW_LOOP, Case, Outcome
from .harness import Options, begun, finish, measure_with_bar
from .machine.machine import Machine
from .plot import OWN_COLOURS, PEER_COLOURS, drawing
from .report import say
from .served.cases import (
    BODY_SIZE,
    END_TO_END,
    LOADED,
    OWN_SERVER,
    ROCKETMQ_SERVER,
    START,
    Start,
    load_cases,
    memory_case,
    start_case,
)
from .served.rocketmq_proxy import check_proxy_jars
from .served.servers import own_server, rocketmq_server
from .writers import put_case

ROUNDS, QUICK_ROUNDS = 5, 1
START_ROUNDS = 3
RAW_COUNT, QUICK_RAW_COUNT = 500, 50
MEMORY = ("RSS MiB", "private MiB")
Pairs = Sequence[tuple[Outcome, Outcome | None]]
COLOURS = (next(iter(OWN_COLOURS.values())), PEER_COLOURS[0])
BAR_HEIGHT = 0.38


def run(options: Options) -> int:
    """Measure and print; returns the exit code. Raises UsageError for wrong options, before anything is written."""
    options.check()
    if options.rocketmq is not None:
        check_proxy_jars(options.rocketmq)
    with begun(options) as (folder, machine):
        if machine.is_in_memory:
            raise UsageError(f"{folder.parent} is on {machine.file_system}: name a disk's folder with --folder")
        outcomes = measure(options, folder)
    return finish(options, machine, outcomes, partial(show, outcomes), draw)


def measure(options: Options, folder: Path) -> list[Outcome]:
    """Starts and memory first, then loads under async flush, then under sync flush."""
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    starts: dict[str, Callable[..., Any]] = {OWN_SERVER: own_server}
    if options.rocketmq is not None:
        starts[ROCKETMQ_SERVER] = partial(rocketmq_server, options.rocketmq.resolve())
    say("starts")
    starting: dict[str, Start] = {who: partial(start, sync=False) for who, start in starts.items()}
    outcomes = measure_with_bar([start_case(*each) for each in starting.items()], min(rounds, START_ROUNDS), folder)
    for sync in (False, True):
        say("sync flush" if sync else "async flush")
        with ExitStack() as running:
            cases: list[list[Case]] = []
            memory = []
            for who, start in starts.items():
                place = folder / f"{'sync' if sync else 'async'}-{len(cases)}"
                place.mkdir()
                server = running.enter_context(start(place, sync=sync))
                cases.append(load_cases(who, server, sync=sync, quick=options.quick))
                memory.append(memory_case(who, server))
            in_turns = [case for same in zip(*cases, strict=True) for case in same]
            if sync:
                calls = QUICK_RAW_COUNT if options.quick else RAW_COUNT
                in_turns.append(put_case(RAW_LOOP, sync=True, body_size=BODY_SIZE, calls=calls))
            measure_with_bar(in_turns, 1, folder)  # warms both up
            outcomes += measure_with_bar(in_turns, rounds, folder)
            if not sync:
                outcomes += measure_with_bar(memory, 1, folder)
    return outcomes


def _pairs(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Outcome | None]]:
    """Each outcome of the server, with RocketMQ's of the same task."""
    others = {outcome.case.task: outcome for outcome in outcomes if outcome.case.who == ROCKETMQ_SERVER}
    return [(outcome, others.get(outcome.case.task)) for outcome in outcomes if outcome.case.who == OWN_SERVER]


def show(outcomes: Sequence[Outcome], output: Output) -> None:
    """Print a row for each task: both servers side by side."""
    pairs = _pairs(outcomes)
    rows = []
    for own, other in pairs:
        if own.case.task in (START, LOADED):
            continue
        row = [own.case.task, _rate(own), _rate(other), "" if other is None else f"{own.part_of(other):.2f}x"]
        for percentile in (50.0, 99.0):
            row += [_latency(own, percentile), _latency(other, percentile)]
        rows.append([*row, f"{own.spread:.0%}", "" if other is None else f"{other.spread:.0%}"])
    own_name, other_name = "flightlog", "RocketMQ"
    names = [f"{own_name}/s", f"{other_name}/s", "ratio", f"p50 ms {own_name}", other_name]
    names += [f"p99 ms {own_name}", other_name, f"spread {own_name}", other_name]
    columns = [Column("1 KiB messages"), *(Column(name, True) for name in names)]
    output.table("Under load: medians of the rounds, which alternate", columns, rows)
    rows = []
    for own, other in pairs:
        found = {name: [_figure(each, name) for each in (own, other)] for name in MEMORY}
        if own.case.task == START:
            found["seconds"] = [own.per_message_s, None if other is None else other.per_message_s]
        if own.case.task in (START, LOADED):
            for name, (one, two) in found.items():
                cells = [figure_text(one or 0.0), "" if two is None else figure_text(two)]
                rows.append([f"{own.case.task}: {name}", *cells, "" if not two else f"{two / (one or 1):.1f}x"])
    columns = [Column("at rest"), Column(own_name, True), Column(other_name, True), Column("less", True)]
    output.table("Start and memory: of RocketMQ its name server and its proxy with the broker inside", columns, rows)
    for outcome in outcomes:
        if outcome.case.who == RAW_LOOP:
            output.line(f"raw loop of pwrite and fdatasync: {1 / outcome.per_message_s:,.0f}/s ({outcome.spread:.0%})")
    output.line("p50, p99: of one call, or from when a send was due until its message was received (end to end)")


def _figure(outcome: Outcome | None, name: str) -> float | None:
    return None if outcome is None else outcome.figure(name)


def _rate(outcome: Outcome | None) -> str:
    return "" if outcome is None else f"{1 / outcome.per_message_s:,.0f}"


def _latency(outcome: Outcome | None, percentile: float) -> str:
    return "" if outcome is None else figure_text(outcome.latency_ns(percentile) / 1e6)


def draw(outcomes: Sequence[Outcome], machine: Machine, path: Path) -> None:
    """Three panels: messages a second, latencies of a call, and starts with the memory then."""
    pairs = _pairs(outcomes)
    loads = [pair for pair in pairs if pair[0].case.task not in (START, LOADED, END_TO_END)]
    timed = [pair for pair in pairs if pair[0].case.task not in (START, LOADED)]
    with drawing(path, machine, 1, 3, figsize=(16, 6.5), width_ratios=(3, 3, 2)) as [row]:
        _bars(row[0], loads, lambda o: 1 / o.per_message_s)
        row[0].set_title("Messages per second, bodies of 1 KiB, logarithmic", loc="left")
        _bars(row[1], timed, lambda o: o.latency_ns(99) / 1e6)
        row[1].set_title("p99 of a call, ms, logarithmic", loc="left")
        starting = next(pair for pair in pairs if pair[0].case.task == START)
        figures: list[tuple[str, Callable[[Outcome], float]]] = [
            ("start, s", lambda o: o.per_message_s),
            ("RSS, MiB", lambda o: o.figure("RSS MiB")),
            ("private, MiB", lambda o: o.figure("private MiB")),
        ]
        _groups(row[2], [(name, [figure(each) for each in starting if each]) for name, figure in figures])
        row[2].set_title("Start, and memory at rest, logarithmic", loc="left")
        for place, name in enumerate((OWN_SERVER, ROCKETMQ_SERVER)):
            row[0].bar(0, 0, color=COLOURS[place], label=name)
        row[0].legend(fontsize=8, frameon=False, loc="lower right")


def _bars(axes: Any, pairs: Pairs, figure: Callable[[Outcome], float]) -> None:
    _groups(axes, [(own.case.task, [figure(each) for each in (own, other) if each]) for own, other in pairs])


def _groups(axes: Any, groups: Sequence[tuple[str, Sequence[float]]]) -> None:
    """A group of bars for each name, the first group above."""
    values = [value for _, found in groups for value in found]
    for place, colour in enumerate(COLOURS):
        rows = [(row + place * BAR_HEIGHT, found[place]) for row, (_, found) in enumerate(groups) if len(found) > place]
        bars = axes.barh([at for at, _ in rows], [value for _, value in rows], BAR_HEIGHT, color=colour)
        axes.bar_label(bars, [figure_text(value) for _, value in rows], padding=3, fontsize=8)
    axes.set_yticks([row + BAR_HEIGHT / 2 for row in range(len(groups))], [name for name, _ in groups], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2, max(values) * 5)
    axes.spines[["top", "right"]].set_visible(False)
