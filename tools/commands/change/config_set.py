"""`flightlog config set PATH GROUP`: change the settings of a consumer group."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ....consume.group.group_table import GroupTable
from ....store.arguments import check_group
from ....store.disk.clock import SystemClock
from ....store.disk.disk import RealDisk
from ....store.errors import UsageError
from ...output import Output
from ...words import printable
from ..arguments import AsJson, Group, Settings, StorePath, Write, open_view
from .opening import open_to_change


def config_set(
    path: StorePath,
    group: Group,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--disabled", help="Whether members receive.", show_default=False)
    ] = None,
    broadcast: Annotated[
        bool | None,
        typer.Option("--broadcast/--no-broadcast", help="Whether members may broadcast.", show_default=False),
    ] = None,
    ordered: Annotated[
        bool | None, typer.Option("--ordered/--unordered", help="Whether `receive` pops in order.", show_default=False)
    ] = None,
    retry_queue_count: Annotated[
        int | None, typer.Option(min=0, help="Queues of the retry topic.", show_default=False)
    ] = None,
    retry_max_times: Annotated[
        int | None, typer.Option(help="Redeliveries before a message becomes a dead letter.", show_default=False)
    ] = None,
    consume_timeout_minutes: Annotated[int | None, typer.Option(min=0, show_default=False)] = None,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show what a group's settings would be. Changes them only with --write.

    `topic alter` changes topics. Sizes of files cannot be changed once a store has some; all other settings are the
    program's that opens the store.
    """
    given: dict[str, Any] = {
        "is_enabled": enabled,
        "is_broadcast_enabled": broadcast,
        "is_ordered": ordered,
        "retry_queue_count": retry_queue_count,
        "retry_max_times": retry_max_times,
        "consume_timeout_minutes": consume_timeout_minutes,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise UsageError("config set: found no setting to change, expected one such as --retry-max-times 3")
    with open_view(path, settings):
        table = GroupTable(RealDisk(), path, SystemClock())
        table.load()
        before = asdict(table.settings(check_group(group)))
    if write:
        with open_to_change(path, settings) as store:
            store.update_group(group, **changes)
    if as_json:
        given = {name: {"before": before[name], "after": value} for name, value in changes.items()}
        print(json.dumps({"is_written": write, "group": group, "settings": given}, indent=2))
        return
    output = Output()
    for name, value in changes.items():
        output.line(f"{printable(group)} {name}: {before[name]} -> {value}")
    output.line("set" if write else "to be set. Set it with --write")
