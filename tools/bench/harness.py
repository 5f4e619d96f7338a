"""What all runs of the bench share: options and their checks, a scratch folder, a progress bar, and the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...store.errors import UsageError
from ..output import Output
from ..progress_bar import ProgressBar
from . import plot, report, runner
from .case import Case, Outcome
from .machine.machine import Machine, this_machine
from .machine.scratch import scratch_folder
from .report import say


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line. Each command takes some of them."""

    subject: str | None = None
    """What is measured; None: the run without a subject."""
    only: Sequence[str] = ()
    """Names of parts, or several of them with commas; none: all parts."""
    body_sizes: Sequence[int] = ()
    threads: Sequence[int] = (8, 64)
    rate: int | None = None
    """Messages per second, all threads together; None: as fast as possible."""
    messages: int | None = None
    """Messages per round; None: as many as make a short round."""
    versus: Sequence[str] = ()
    rocketmq: Path | None = None
    """A folder of RocketMQ's jars; None: without it."""
    quick: bool = False
    rounds: int | None = None
    seconds: float | None = None
    """About how long the run may take (s)."""
    size: float | None = None
    """Size of a store (MiB)."""
    master: str = "local[2]"
    no_spark: bool = False
    folder: Path | None = None
    """The run creates its scratch folder here, and removes it; None: the temporary folder."""
    as_json: bool = False
    save: Path | None = None
    plot: Path | None = None
    compare: Path | None = None

    def rounds_of(self, usual: int, quick: int) -> int:
        return self.rounds or (quick if self.quick else usual)

    def check(self) -> None:
        """Raises UsageError for a wrong value, before anything is written."""
        check_numbers(
            {
                "--body-size": self.body_sizes,
                "--threads": self.threads,
                "--rounds": self.rounds,
                "--rate": self.rate,
                "--messages": self.messages,
            }
        )
        check_positive({"--seconds": self.seconds})
        if self.folder is not None and not self.folder.is_dir():
            raise UsageError(f"--folder {self.folder}: no such folder")
        if self.plot is not None and self.plot.suffix not in plot.SUFFIXES:
            raise UsageError(f"--plot {self.plot}: expected a name that ends in {', '.join(plot.SUFFIXES)}")
        for name, path in {"--save": self.save, "--plot": self.plot}.items():
            if path is not None and not path.absolute().parent.is_dir():
                raise UsageError(f"{name} {path}: there is no folder {path.parent}")


def check_numbers(numbers: dict[str, Any]) -> None:
    """Raises UsageError for a number below 1. None means that an option was not given."""
    for name, found in numbers.items():
        for value in found if isinstance(found, Sequence) else [found]:
            if value is not None and value < 1:
                raise UsageError(f"{name} {value}: expected at least 1")


def check_positive(numbers: dict[str, float | None]) -> None:
    """Raises UsageError for a number that is not finite and above 0. None means that an option was not given."""
    for name, value in numbers.items():
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"{name} {value:g}: expected more than 0")


def choose(only: Sequence[str], names: Sequence[str], problem: str = "expected some of") -> list[str]:
    """The names that `--only` contains, or all of them. Raises UsageError for an unknown name."""
    words = [word.strip() for text in only for word in text.split(",")]
    for word in words:
        if word not in names:
            raise UsageError(f"--only {word}: {problem} {', '.join(names)}")
    return [name for name in names if not words or name in words]


@contextmanager
def begun(options: Options, about: str = "") -> Iterator[tuple[Path, Machine]]:
    """Check the options, describe the machine on stderr, and yield a scratch folder, which is removed at the end."""
    options.check()
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        say(f"{machine}{about}")
        for warning in machine.warnings:
            say(f"warning: {warning}")
        yield folder, machine


def measure_with_bar(cases: Sequence[Case], rounds: int, folder: Path, **options: Any) -> list[Outcome]:
    """`runner.measure` with a progress bar."""
    with ProgressBar("measuring", (rounds + options.get("stamped", False)) * len(cases)) as bar:
        return runner.measure(cases, rounds, folder, bar.advance, **options)


def finish(
    options: Options,
    machine: Machine,
    outcomes: Sequence[Outcome],
    *,
    show: Callable[[Output], None] | None = None,
    notes: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> int:
    """Draw, save and print the outcomes: by `show`, or as their tables and the notes; `more` is added to the JSON
    object. Returns the exit code."""

    def show_tables(output: Output) -> None:
        report.show(outcomes, output)
        for note in notes:
            output.line(note)

    if options.plot is not None:
        plot.draw(outcomes, machine, options.plot)
    found = report.as_object(outcomes, machine) | dict(more or {})
    report.tell(found, show or show_tables, as_json=options.as_json, save=options.save)
    return 0
