"""The demo's output: a numbered line for each step, and indented lines for its results; or one object."""

from __future__ import annotations

import shutil
import textwrap

from ...store.errors import FlightlogError

WIDTH_MAX = 100


class DemoFailedError(FlightlogError):
    """A check of the demo failed. This is a bug in flightlog."""

    exit_code = 1


class Teller:
    """Numbers the steps, and writes to stdout. Flushes every line, for the reader of a pipe."""

    def __init__(self) -> None:
        self._number = 0
        self._width = min(shutil.get_terminal_size((WIDTH_MAX, 24)).columns, WIDTH_MAX)

    def begin(self, title: str) -> None:
        if self._number:
            print()
        self._number = 0
        self._print(title)

    def step(self, text: str) -> None:
        self._number += 1
        print()
        self._print(text, f"{self._number}. ")

    def result(self, text: str) -> None:
        self._print(text, "   ")

    def end(self, text: str) -> None:
        print()
        self._print(text)

    def path(self, label: str, path: object) -> None:
        """Print a line without wrapping it, so that it can be copied."""
        print(f"   {label}{path}", flush=True)

    def _print(self, text: str, indent: str = "") -> None:
        filled = textwrap.fill(
            text, self._width, initial_indent=indent, subsequent_indent=" " * len(indent),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        print(filled, flush=True)


class QuietTeller(Teller):
    """Keeps what is said, and prints nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, list[str]]] = []
        """Each step, and each title of a stage, with its results."""

    def begin(self, title: str) -> None:
        self.step(title)

    def step(self, text: str) -> None:
        self.steps.append((text, []))

    def result(self, text: str) -> None:
        self.steps[-1][1].append(text)

    def end(self, text: str) -> None:
        self.step(text)

    def path(self, label: str, path: object) -> None:
        self.result(f"{label}{path}".strip())


def must(holds: bool, otherwise: str) -> None:
    """Raise DemoFailedError with the text `otherwise` unless `holds`."""
    if not holds:
        raise DemoFailedError(f"the demo failed: {otherwise}. This is a bug: please report it")
