"""`make readers`: says what it is about to do, does it, tells what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benches.readers.readers import PROCESSES, THREADS, WRITER_PART, Readers, ReadersRound, backlog
from flightlog.store.errors import UsageError
from flightlog.tools.bench.cases.workloads import record_size
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.machine.scratch import check_room, scratch_folder
from flightlog.tools.bench.telling.saving import check_folder
from flightlog.tools.output import Column, Output
from flightlog.tools.progress_bar import ProgressBar
from flightlog.tools.words import figure_text, seconds_text, size_text

ROUNDS, QUICK_ROUNDS = 5, 1
SECONDS, QUICK_SECONDS = 1.0, 0.3
MESSAGES, QUICK_MESSAGES = 200_000, 4_000
PARTS = 3
"""Of a round, of the same length."""
WRITTEN_A_SECOND = 1 << 30
"""Bytes that a writer puts at most, about."""
KINDS = (THREADS, PROCESSES)


@dataclass(frozen=True)
class ReadersOptions:
    """What the command line says."""

    readers: int = 16
    body_size: int = 1024
    messages: int | None = None
    seconds: float | None = None
    """Of each part of a round."""
    rounds: int | None = None
    quick: bool = False
    folder: Path | None = None
    as_json: bool = False


def run(options: ReadersOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    rounds = options.rounds if options.rounds is not None else QUICK_ROUNDS if options.quick else ROUNDS
    seconds = options.seconds if options.seconds is not None else QUICK_SECONDS if options.quick else SECONDS
    messages = options.messages if options.messages is not None else QUICK_MESSAGES if options.quick else MESSAGES
    numbers = {
        "--readers": options.readers,
        "--rounds": rounds,
        "--messages": messages,
        "--body-size": options.body_size,
    }
    for name, value in numbers.items():
        if value < 1:
            raise UsageError(f"{name} {value}: expected at least 1")
    if seconds <= 0:
        raise UsageError(f"--seconds {seconds:g}: expected more than 0")
    check_folder(options.folder)
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        room = room_needed(options.body_size, messages, seconds)
        time = seconds_text(len(KINDS) * rounds * PARTS * seconds)
        _say(str(machine))
        _say(
            f"{len(KINDS)} kinds of readers, {rounds} rounds: about {time} and what the disk needs in between, "
            f"writing up to {size_text(rounds * room)} below {folder.parent}"
        )
        check_room(folder, room)
        with ProgressBar("measuring", len(KINDS) * rounds) as bar:

            def done() -> None:
                bar.done += 1

            found = measure(folder, options.body_size, messages, options.readers, seconds, rounds, done)
    if options.as_json:
        told = {kind: [asdict(each) for each in rounds_] for kind, rounds_ in found.items()}
        print(json.dumps({"machine": asdict(machine), "rounds": told}, indent=2))
    else:
        show(found, options.readers, Output())
    return 0


def room_needed(body_size: int, messages: int, seconds: float) -> int:
    """Bytes that the log of a round grows to at most, about: each has a store of its own."""
    written_s = len(KINDS) * (1 + WRITER_PART) * seconds
    return messages * record_size(body_size) + int(written_s * WRITTEN_A_SECOND)


def measure(
    folder: Path, body_size: int, messages: int, readers: int, seconds: float, rounds: int, done: Callable[[], None]
) -> dict[str, list[ReadersRound]]:
    """By kind of reader; the kinds take turns. What the writers of a round put is gone before the next one."""
    found: dict[str, list[ReadersRound]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        with (
            TemporaryDirectory(dir=folder) as place,
            backlog(Path(place), body_size, messages) as (store, made),
            ExitStack() as children,
        ):
            each = {kind: Readers(store, made, kind, readers) for kind in KINDS}
            for one in each.values():
                one.start(children)
            for kind, one in each.items():
                found[kind].append(one.measure(seconds))
                done()
    return found


def show(
    found: dict[str, Sequence[ReadersRound]] | dict[str, list[ReadersRound]], readers: int, output: Output
) -> None:
    """Medians of the rounds, thousand messages a second."""
    columns = [Column("readers")]
    names = (
        "writer alone",
        "one alone",
        "its share",
        "the slowest",
        "of its share",
        "all",
        "writer beside",
        "of its pace",
    )
    columns += [Column(name, True) for name in names]
    rows = []
    for kind, rounds in found.items():
        figures = [
            [each.writer_alone / 1e3 for each in rounds],
            [each.reader_alone / 1e3 for each in rounds],
            [each.solo_share / 1e3 for each in rounds],
            [min(each.readers) / 1e3 for each in rounds],
            [each.slowest_share for each in rounds],
            [sum(each.readers) / 1e3 for each in rounds],
            [each.writer / 1e3 for each in rounds],
            [each.pace for each in rounds],
        ]
        rows.append([f"{readers} {kind}", *(figure_text(median(values)) for values in figures)])
    output.table("Readers on a backlog beside a writer at half its speed, thousand messages/s", columns, rows)
    output.line()
    output.line(
        "its share: what one reads alone, divided by the readers that share a core; threads of one process share its "
        "interpreter, and so one core. of its share, of its pace: 1 is all of it"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
