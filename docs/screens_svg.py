"""Draws docs/screens/*.svg: the command line as a person sees it, on terminals of 80 and of 120 columns.

    python -P docs/screens_svg.py

makes the example store of this file in a temporary folder, runs the real commands with a terminal for stdout, and draws
what they print; the extra `tools` is needed. A picture is dark where its reader prefers dark. What differs from one
machine or run to the next is replaced by the values of `FIXED`. `tests/house/test_documents.py` compares the committed
pictures.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from xml.sax.saxutils import escape

from rich.ansi import AnsiDecoder
from rich.color import blend_rgb
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME, TerminalTheme

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.testing import ManualClock
from flightlog.tools.app import app
from flightlog.tools.commands.check import verify
from flightlog.tools.commands.watch.stats_screen import screen
from flightlog.tools.rates import Sample, rates, sample

if TYPE_CHECKING:
    from rich.text import Text

FOLDER = Path(__file__).with_name("screens")
START_MS = 1_777_626_000_000
"""2026-05-01 09:00 UTC."""
SCREENS = {
    "info": "info store",
    "topics": "topics store",
    "stat": "stat store",
    "trace": "trace store order-7",
    "verify": "verify damaged",
    "repair": "repair damaged",
}
"""Name of the picture -> the command; beside them the screen of `stats --watch`."""
WIDTHS = (80, 120)
ROWS = 40
FIXED = (
    (r"(?m)^(epoch +)(\d+ *)", "7".ljust),
    (r"(?m)^(pid +)(\d+ *)", "4711".ljust),
    (r"(?m)^( +16 +1800 +1 +)([\d,.]+)", "12.4".rjust),
)
"""What is replaced behind its first group, and by what, as wide as it was: the writer's process, the age of a delay."""
FREE_SIZE = 212 << 30
CHARACTER, LINE, MARGIN, BASELINE = 8.4, 19, 12, 14
"""A character's width and a line's height, in units of the drawing: those of a font of 14."""


class Terminal(io.TextIOWrapper):
    """Stdout that says that it is a terminal, in memory."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        """What was written."""
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@contextlib.contextmanager
def terminal(columns: int, **environment: str) -> Iterator[Terminal]:
    """Have stdout be a terminal of so many columns."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLORTERM")}
    kept |= {"COLUMNS": str(columns), "LINES": str(ROWS), "TERM": "xterm-256color", **environment}
    shown = Terminal()
    with mock.patch.dict(os.environ, kept, clear=True), contextlib.redirect_stdout(shown):
        yield shown


def make_stores(folder: Path) -> None:
    """The example: half a day of a shop, in `store`; the same with one flipped bit in `damaged`."""
    clock = ManualClock(START_MS)
    settings = StoreSettings.small(segment_size=64 << 10, deliver_delayed=False)
    with flightlog.open(folder / "store", settings, clock=clock) as store:
        store.create_topic("orders", 4)
        store.create_topic("invoices", 2, attributes={"message.type": "FIFO"})
        for number in range(240):
            clock.at_ms = START_MS + number * 60_000
            message = Message(
                "orders",
                f'{{"order": {number}, "amount": {number * 37 % 900}}}'.encode(),
                tags="paid" if number % 3 else "created",
                keys=f"order-{number}",
                properties={"amount": str(number * 37 % 900)},
                uniq_key=f"7F000001{number:024X}",
                queue_id=number % 4,
            )
            store.put(message)
            if number % 5 == 0:
                body = b"an invoice, as PDF. " * (number % 40)
                store.put(
                    Message("invoices", body or b"-", keys=f"order-{number}", uniq_key=f"{number:032X}", queue_id=0)
                )
        paid = Message("orders", b"paid", keys="order-7", uniq_key="7F000001" + "7" * 24)
        with flightlog.Producer(store).transaction(paid, selector=lambda queues, _: queues[3]) as transaction:
            transaction.commit()
        store.put(Message("%RETRY%billing", b"again", keys="order-7", uniq_key="A" * 32, reconsume_times=2))
        store.put(
            Message("%DLQ%billing", b"dead", keys="order-7", uniq_key="A" * 32, properties={"RETRY_TOPIC": "orders"})
        )
        store.put(Message("orders", b"remind", keys="order-7", uniq_key="B" * 32, delay_level=16))
        for queue_id in range(4):
            store.commit_offset("billing", "orders", queue_id, 55 - 2 * queue_id)
            store.commit_offset("warehouse", "orders", queue_id, 12)
        place = next(store.read("orders", 2, 20)).physical_offset
    shutil.copytree(folder / "store", folder / "damaged")
    with open(next((folder / "damaged" / "commitlog").iterdir()), "r+b") as log:
        log.seek(place + 100)
        byte = log.read(1)[0]
        log.seek(place + 100)
        log.write(bytes([byte ^ 1]))


def printed(command: str, columns: int) -> str:
    """What the command prints in this folder."""
    with terminal(columns) as shown, contextlib.suppress(SystemExit):
        app(shlex.split(command), standalone_mode=False)
    return fixed(shown.text())


def watched(columns: int) -> str:
    """The screen of `stats --watch` in this folder, three seconds after the look before."""
    with flightlog.open_read_only("store") as view, terminal(columns) as shown:
        now = sample(view)
        ends = {topic: end - 3 * (end // 20) for topic, end in now.ends.items()}
        before = Sample(now.at_s - 3, ends, now.physical_offset - 20_000, dict.fromkeys(now.consumed, 0))
        found = replace(rates(view, before, now), at_ms=START_MS + 240 * 60_000)
        console = Console(highlight=False, height=24)
        console.print(screen(found, console.height))
    return fixed(shown.text())


def fixed(text: str) -> str:
    """Without what differs from run to run."""
    for pattern, shown in FIXED:
        found = re.search(pattern, text)
        if found is not None:
            text = f"{text[: found.start(2)]}{shown(len(found[2]))}{text[found.end(2) :]}"
    return text


def drawing(command: str, output: str, columns: int) -> str:
    """The picture of a terminal with the command and what it printed."""
    decoded = AnsiDecoder().decode(f"\x1b[1m$ flightlog {command}\x1b[0m\n{output}")
    lines = [part for line in decoded for part in line.divide(range(columns, len(line), columns))]  # as terminals do
    names: dict[Style, str] = {}
    drawn = [f'<text y="{MARGIN + BASELINE + LINE * row}">{_row(line, names)}</text>' for row, line in enumerate(lines)]
    width, height = round(columns * CHARACTER + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            "<style>",
            "text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre }",
            *_rules(names, DEFAULT_TERMINAL_THEME),
            "@media (prefers-color-scheme: dark) {",
            *_rules(names, SVG_EXPORT_THEME),
            "}",
            "</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="6"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _row(line: Text, names: dict[Style, str]) -> str:
    """A line in pieces of one style each; `names` gets the styles that are new. A piece has its place and its length,
    so that it is where it belongs in any font."""
    parts, column = [], 0
    for segment in line.render(CONSOLE):
        text = segment.text.rstrip("\n")
        begin, shown = column + len(text) - len(text.lstrip()), text.strip()
        column += len(text)
        if shown:
            name = names.setdefault(segment.style or Style(), f"s{len(names)}")
            place = f'x="{MARGIN + begin * CHARACTER:.4g}" textLength="{len(shown) * CHARACTER:.4g}"'
            parts.append(f'<tspan class="{name}" {place}>{escape(shown)}</tspan>')
    return "".join(parts)


def _rules(names: dict[Style, str], theme: TerminalTheme) -> Iterator[str]:
    yield f".paper {{ fill: {theme.background_color.hex} }}"
    for style, name in names.items():
        color = theme.foreground_color
        if style.color is not None and not style.color.is_default:
            color = style.color.get_truecolor(theme)
        if style.dim:
            color = blend_rgb(color, theme.background_color, 0.4)
        yield f".{name} {{ fill: {color.hex}{'; font-weight: bold' if style.bold else ''} }}"


CONSOLE = Console(file=io.StringIO(), width=max(WIDTHS), color_system="truecolor")


def drawings() -> dict[str, str]:
    """Name of the file -> its text."""
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch.object(RealDisk, "allocated_size", lambda _, path: path.stat().st_size),
        mock.patch.object(RealDisk, "free_size", lambda _, path: FREE_SIZE),
        mock.patch.object(verify, "seconds_text", lambda _: "4 ms"),
    ):
        make_stores(Path(folder))
        for columns in WIDTHS:
            for name, command in SCREENS.items():
                found[f"{name}-{columns}.svg"] = drawing(command, printed(command, columns), columns)
            found[f"stats-{columns}.svg"] = drawing("stats store --watch", watched(columns), columns)
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
