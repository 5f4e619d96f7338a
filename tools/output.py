"""Facts and tables on stdout: drawn by rich on a terminal, as plain aligned text into pipes and files."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

TERMINAL_ROWS_MAX = 40
HEAD = re.compile(r"\s*(?:\d+\. |\w+(?: \w+)*  +)?")
"""What a line begins with, and the lines that go on with it do not: blanks, a number, a name in a column."""
GAP = 3
"""Between two columns of a drawn table."""
NAME_MIN, TEXT_MAX = 20, 40
"""So much room a name or a text in the last column has at least, and any other text."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    is_number: bool = False


class Output:
    """Writes to stdout. A terminal gets the head and the tail of a long table; pipes and files get all of it."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._is_below_table = False
        """On a terminal, an empty line comes between a table and a line."""

    def line(self, text: str = "") -> None:
        if self._is_below_table and text:
            print()
        self._is_below_table = False
        print(self._wrapped(text) if self.is_terminal else text)

    def _wrapped(self, text: str) -> str:
        """Broken between words, where a terminal breaks anywhere. Commands are left whole: they are copied."""
        columns = shutil.get_terminal_size().columns
        if len(text) <= columns or text.lstrip().startswith("flightlog "):
            return text
        head = HEAD.match(text)
        indent = " " * (min(head.end(), columns // 2) if head else 0)
        parts = textwrap.wrap(
            *(text, columns), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return "\n".join(parts)

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """One 'name  value' a line."""
        width = max(len(name) for name, _ in facts)
        if not self.is_terminal:
            for name, value in facts:
                print(f"{name:<{width}}  {value}")
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for name, value in facts:
            grid.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
        Console(highlight=False).print(grid)

    def table(self, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """A table under its title. An empty one is left out."""
        if not rows:
            return
        if self.is_terminal:
            self._draw(title, columns, rows)
            self._is_below_table = True
            return
        print(f"\n{title}")
        lines = [[column.title for column in columns], *rows]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for row in lines:
            cells = [
                f"{cell:>{width}}" if column.is_number else f"{cell:<{width}}"
                for cell, width, column in zip(row, widths, columns, strict=True)
            ]
            print("  ".join(cells).rstrip())

    def _draw(self, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        left_out = len(rows) - TERMINAL_ROWS_MAX
        shown = list(rows) if left_out <= 0 else [*rows[: TERMINAL_ROWS_MAX // 2], *rows[-TERMINAL_ROWS_MAX // 2 :]]
        widths = [max(len(column.title), *(len(row[i]) for row in shown)) for i, column in enumerate(columns)]
        for number, places in enumerate(_parts(widths, console.width)):
            self._draw_part(
                console,
                f"{title}, continued" if number else title,
                [columns[i] for i in places],
                [[row[i] for i in places] for row in shown],
            )
        if left_out > 0:
            console.print(Text(f"{left_out:,} rows in the middle left out: a pipe or --json gets all", style="dim"))

    def _draw_part(
        self, console: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]
    ) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.show_edge = False
        for i, column in enumerate(columns):
            # What is longer than its room goes on in the next line. Without a least width rich takes from all columns.
            width = max(len(column.title), *(len(row[i]) for row in rows))
            if column.is_number:
                table.add_column(column.title, justify="right", no_wrap=True, min_width=width)
            else:
                least = min(width, NAME_MIN if i == len(columns) - 1 else TEXT_MAX)
                table.add_column(column.title, overflow="fold", min_width=least)
        for row in rows:
            table.add_row(*[Text(cell) for cell in row])
        console.print()
        console.print(table)


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """The places of the columns of each table into which one that is too wide is split. The last column names the row,
    and is in each of them."""
    last = len(widths) - 1
    needed = [min(width, NAME_MIN) if i == last else min(width, TEXT_MAX) for i, width in enumerate(widths)]
    parts: list[list[int]] = [[]]
    for i in range(last):
        used = sum(needed[place] + GAP for place in parts[-1])
        if parts[-1] and used + needed[i] + GAP + needed[last] > room:
            parts.append([])
        parts[-1].append(i)
    return [[*part, last] for part in parts]
