"""`flightlog groups PATH`: the consumer groups of a store, and how far behind they are."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ....consume.group.group_state import GroupState
from ....consume.group.retry_policy import CustomizedRetryPolicy
from ....consume.group.stored_groups import stored_groups
from ....store.disk.disk import RealDisk
from ...output import Column, Output
from ...words import count_text, printable
from ..arguments import AsJson, Settings, StorePath, open_view


def groups(
    path: StorePath,
    system: Annotated[bool, typer.Option("--system", help="Also RocketMQ's own groups.")] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show consumer groups: topics, lag, settings. Takes no lock and changes nothing.

    Offsets are those that the writer saved last, up to 5 s ago.
    """
    with open_view(path, settings) as view:
        found = stored_groups(RealDisk(), path, view.queues(), include_system=system)
    if as_json:
        print(json.dumps([asdict(state) for state in found.values()], indent=2))
        return
    output = Output()
    columns = [Column("lag", True), Column("max attempts", True), Column("retry"), Column("state"), Column("group")]
    columns.append(Column("topics"))
    rows = [
        [
            *(f"{state.lag:,}", f"{state.settings.max_attempts:,}", _retry_text(state)),
            *("enabled" if state.settings.is_enabled else "disabled", printable(state.name)),
            printable(", ".join(state.topics)),
        ]
        for state in found.values()
    ]
    output.table("Consumer groups", columns, rows)
    output.line(f"{count_text(len(found), 'group')}, lag {sum(state.lag for state in found.values()):,}")


def _retry_text(state: GroupState) -> str:
    policy = state.settings.retry_policy
    if isinstance(policy, CustomizedRetryPolicy):
        return "table" if policy != CustomizedRetryPolicy() else "default"
    return f"{policy.initial_ms:,} ms x {policy.multiplier}, max {policy.max_ms:,} ms"
