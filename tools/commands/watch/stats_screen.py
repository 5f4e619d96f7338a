"""How `flightlog stats` shows a look: as text, as one line, or on a screen that is drawn anew each time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...output import Column, Output
from ...rates import GroupRate, StoreRates, TopicRate
from ...records.fields import iso_time
from ...words import figure_text, printable, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

TOPIC_COLUMNS = (Column("a second", True), Column("messages", True), Column("topic"))
GROUP_COLUMNS = (Column("lag", True), Column("a second", True), Column("group"))
FIXED_LINES = 10
"""Fixed lines of the screen: facts, titles, heads, rules, and the lines between."""


def show(found: StoreRates, output: Output) -> None:
    """Facts and tables."""
    output.facts(_facts(found))
    output.table("Topics", TOPIC_COLUMNS, [_topic_row(each) for each in found.topics])
    output.table("Consumer groups", GROUP_COLUMNS, [_group_row(each) for each in found.groups])


def line_of(found: StoreRates) -> str:
    """All of it in one line: the rates of topics without messages in between are left out."""
    topics = [f"{printable(each.topic)} {figure_text(each.per_s)}/s" for each in found.topics if each.per_s]
    groups = [f"{printable(each.group)} {each.lag:,} behind" for each in found.groups]
    rest = [f"{name} {value}" for name, value in _facts(found)[3:]]
    head = f"{figure_text(found.messages_per_s)} messages/s, {size_text(int(found.size_per_s))}/s"
    return "; ".join([f"{iso_time(found.at_ms)} {head}", *topics, *groups, *rest])


def watch_on_screen(looks: Iterable[StoreRates]) -> None:
    """Until the looks end, or Ctrl-C. The terminal is then as it was before."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for found in looks:
            live.update(screen(found, console.height), refresh=True)


def screen(found: StoreRates, height: int) -> RenderableType:
    """So many rows of each table as there is room for, and how many more there are."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(found):
        facts.add_row(Text(name, style="dim"), Text(value))
    room = max(height - FIXED_LINES - len(_facts(found)), 2)
    groups = min(len(found.groups), max(room // 2, room - len(found.topics)))
    return Group(
        facts,
        _table("Topics", TOPIC_COLUMNS, [_topic_row(each) for each in found.topics], room - groups),
        _table("Consumer groups", GROUP_COLUMNS, [_group_row(each) for each in found.groups], groups),
        Text("Ctrl-C ends it", style="dim"),
    )


def _table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return Text()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        width = max(12, len(column.title)) if column.is_number else None
        table.add_column(column.title, justify="right" if column.is_number else "left", no_wrap=True, min_width=width)
    for row in rows[:room]:
        table.add_row(*[Text(cell) for cell in row])
    left_out = len(rows) - room
    more = f"  ({left_out:,} more: --json has all)" if left_out > 0 else ""
    return Group(Text(), Text.assemble((title, "bold"), (more, "dim")), table)


def _facts(found: StoreRates) -> list[tuple[str, str]]:
    sizes, lag = found.statistics.sizes, found.statistics.lag
    return [
        ("time", iso_time(found.at_ms)),
        ("messages a second", f"{figure_text(found.messages_per_s)} over {found.interval_s:.1f} s"),
        ("bytes a second", size_text(int(found.size_per_s))),
        ("log", size_text(sizes.log_size)),
        ("not yet durable", _size_text(lag.flush_size)),
        ("not yet dispatched", _size_text(lag.dispatch_size)),
        ("disk free", size_text(sizes.disk_free_size)),
    ]


def _size_text(size: int | None) -> str:
    return "not known: only flightlog notes it" if size is None else size_text(size)


def _topic_row(each: TopicRate) -> list[str]:
    return [figure_text(each.per_s), f"{each.messages:,}", printable(each.topic)]


def _group_row(each: GroupRate) -> list[str]:
    return [f"{each.lag:,}", "" if each.per_s is None else figure_text(each.per_s), printable(each.group)]
