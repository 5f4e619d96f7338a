"""One run of the bench: says what it is about to do, does it, tells what came of it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ...store import native
from ...store.errors import UsageError
from ..output import Output
from ..progress_bar import ProgressBar
from ..words import seconds_text, size_text
from .cases import spark_scan
from .cases.case import Case
from .cases.plan import BODY_SIZES, make_cases
from .cases.rocketmq_cases import RIVALS, rocketmq_cases
from .cases.runner import Result, measure, pilot
from .machine.machine import Machine, this_machine
from .machine.scratch import scratch_folder
from .rocketmq import QUICK_WARM_COUNT, RocketmqProcess
from .telling import saving
from .telling.report import COLUMNS, as_object, show
from .versus.load_plan import ROCKETMQ, read_versus

ROUNDS = 5
QUICK_ROUNDS = 2
SPARK_START_S = 20
"""About what it takes to start Spark and its workers, for the estimate."""
SUBJECTS = {
    "read": "Every message of a store, one by one and as Arrow batches.",
    "query": "Messages by their key, one at a time.",
    "recover": "Opening a store whose writer was killed right after its last put.",
    "verify": "Every byte of a store against itself, and against the seals of full segments.",
}
"""Name -> what is measured; each is a part of the whole run."""
ROOM = 3
"""The folder must have so many times the bytes of the largest round free."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    quick: bool = False
    rounds: int | None = None
    no_spark: bool = False
    folder: Path | None = None
    """Whose file system is measured; a folder of our own is made in it, and removed."""
    as_json: bool = False
    subject: str | None = None
    """One of SUBJECTS; None: all of it."""
    messages: int | None = None
    """How many a round handles; None: as many as make a short round."""
    versus: Sequence[str] = ()
    """`rocketmq=FOLDER_OF_JARS`, for what RocketMQ's own store does as well."""
    save: Path | None = None
    csv: Path | None = None


def run(options: Options) -> int:
    """Measure and print. Raises UsageError and whatever the store raises."""
    default = QUICK_ROUNDS if options.quick else ROUNDS
    rounds = default if options.rounds is None else options.rounds
    if rounds < 1:
        raise UsageError(f"--rounds {rounds}: expected at least 1")
    if options.messages is not None and options.messages < 1:
        raise UsageError(f"--messages {options.messages}: expected at least 1")
    saving.check_folder(options.folder)
    saving.check_files({"--save": options.save, "--csv": options.csv})
    jars = _jars(options)
    with scratch_folder(options.folder) as folder, ExitStack() as running:
        rocketmq = None
        if jars is not None:
            with ProgressBar("starting RocketMQ"):
                rocketmq = running.enter_context(RocketmqProcess(jars, folder, QUICK_WARM_COUNT))
        results, machine = _measure_all(options, rounds, folder, rocketmq)
    found = as_object(results, machine, rounds)
    if options.save:
        saving.save_json(options.save, found)
    if options.csv:
        saving.save_csv(options.csv, found["results"], COLUMNS)
    if options.as_json:
        print(json.dumps(found, indent=2))
    else:
        show(results, Output())
    return 0


def _jars(options: Options) -> Path | None:
    """RocketMQ's jars, if it is to do the same. Raises UsageError for other peers, and for jars that are not there."""
    peers, jars = read_versus(options.versus)
    strangers = [peer for peer in peers if peer != ROCKETMQ]
    if strangers:
        raise UsageError(f"--versus {','.join(strangers)}: expected rocketmq=FOLDER_OF_JARS; others read no such files")
    return jars


def _cases(options: Options, rocketmq: RocketmqProcess | None) -> list[Case]:
    cases = make_cases(quick=options.quick, subject=options.subject, messages=options.messages)
    if rocketmq is None:
        return cases
    found: list[Case] = []
    for body_size in dict.fromkeys(case.body_size for case in cases):
        own = [case for case in cases if case.body_size == body_size]
        names = dict.fromkeys(case.name for case in own)
        found += [replace(case, rival=RIVALS.get(case.name)) for case in own]
        found += rocketmq_cases(rocketmq, names, body_size, own[0].count)
    return found


def _measure_all(
    options: Options, rounds: int, folder: Path, rocketmq: RocketmqProcess | None
) -> tuple[list[Result], Machine]:
    machine = this_machine(folder)
    cases = [case for case in _cases(options, rocketmq) if not (case.needs_disk and machine.is_in_memory)]
    _say(f"{machine}; kernels: {', '.join(native.available())}")
    if machine.is_in_memory:
        _say(f"{folder} is on {machine.file_system}: no sync figures from there; name a disk's folder with --folder")
    _check_room(cases, folder)
    kernels = native.available() if spark_scan.is_possible() and not options.no_spark else ()
    if not kernels and not options.no_spark:
        _say("no Spark scan: pip install 'flightlog[spark]'")
    round_s = pilot(cases, folder)
    whole_s = rounds * round_s + len(kernels) * SPARK_START_S
    _say(
        f"{rounds} rounds, about {seconds_text(max(whole_s, 1))}, writing about {size_text(_written(cases, rounds))} "
        f"below {folder}"
    )
    with ProgressBar("measuring", rounds * len(cases)) as bar:

        def done(count: int) -> None:
            bar.done = count

        results = measure(cases, rounds, folder, done)
    for kernel in kernels:
        results += _measure_spark(kernel, options, rounds, folder)
    return results, machine


def _measure_spark(kernel: str, options: Options, rounds: int, folder: Path) -> list[Result]:
    with spark_scan.SparkProcess(kernel) as spark, ProgressBar(f"Spark scan, {kernel} kernel"):
        cases = [spark.case(body_size, quick=options.quick) for body_size in BODY_SIZES]
        for case in cases:
            case.measure(folder)
        return measure(cases, rounds, folder, lambda count: None)


def _written(cases: Sequence[Case], rounds: int) -> int:
    """Bytes: what every round writes, and the stores that are written once to be read."""
    once = sum(case.size for case in cases if not case.writes) * spark_scan.MORE_MESSAGES
    return rounds * sum(case.size for case in cases if case.writes) + once


def _check_room(cases: Sequence[Case], folder: Path) -> None:
    wanted = ROOM * spark_scan.MORE_MESSAGES * max(case.size for case in cases)
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise UsageError(f"{folder}: {size_text(free)} free, expected {size_text(wanted)}. Name another --folder")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
