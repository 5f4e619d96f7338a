"""Outcomes as JSON and CSV, and a comparison with an earlier run of the same machine."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ....store.errors import UsageError
from ...output import Column, Output
from ...words import figure_text
from ..loads.load import PERCENTILES, WAIT_PERCENTILES, Load, Outcome
from ..machine.machine import Machine
from .telling import reference_of

COLUMNS = (
    *("writer", "mode", "sync", "body_size", "batch", "columns", "threads", "rate", "record_size", "messages"),
    *("returned_s", "per_message_s", "messages_per_s", "spread", "p50_ns", "p99_ns", "p99.9_ns", "max_ns"),
    *("wait_p99_ns", "wait_p99.9_ns"),
    *("device_bytes_per_byte", "part_of_reference"),
)


def as_object(outcomes: Sequence[Outcome], machine: Machine) -> dict[str, Any]:
    """What `--json` prints and `--save` keeps; JSON has no NaN, so what was not measured is null."""
    return {"machine": asdict(machine), "outcomes": [_as_row(outcome, outcomes) for outcome in outcomes]}


def _as_row(outcome: Outcome, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    load, reference = outcome.load, reference_of(outcome, outcomes)
    percentiles = {f"p{percentile:g}_ns": outcome.latency_ns(percentile) for percentile in PERCENTILES}
    waits = {f"wait_p{percentile:g}_ns": outcome.wait_ns(percentile) for percentile in WAIT_PERCENTILES}
    latencies = percentiles | {"max_ns": outcome.latency_ns(100)} | waits
    return {
        **asdict(load),
        "mode": load.mode,
        "record_size": outcome.record_size,
        "messages": outcome.rounds[0].count,
        "drained_s": [round_.drained_s for round_ in outcome.rounds],
        "put_s": [round_.put_s for round_ in outcome.rounds],
        "returned_s": outcome.returned_s,
        "per_message_s": outcome.per_message_s,
        "messages_per_s": 1 / outcome.per_message_s,
        "spread": outcome.spread,
        **{name: told(value) for name, value in latencies.items()},
        "device_bytes_per_byte": outcome.device_bytes_per_byte,
        "part_of_reference": None if reference is None else reference.per_message_s / outcome.per_message_s,
    }


def told(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return None if math.isnan(value) else value


def save_json(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=2) + "\n")


def save_csv(path: Path, rows: Sequence[dict[str, Any]], columns: Sequence[str] = COLUMNS) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def check_files(files: Mapping[str, Path | None]) -> None:
    """Raises UsageError for a file that cannot be written because its folder is not there; by option."""
    for name, path in files.items():
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{name} {path}: there is no folder {path.parent}")


def check_folder(folder: Path | None) -> None:
    """Raises UsageError for a `--folder` to work in that is not there."""
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--folder {folder}: no such folder")


def load_earlier(path: Path, machine: Machine) -> dict[tuple[Any, ...], float]:
    """Seconds a message by load, of a run that `--save` kept. Raises UsageError for what is none, or is of another
    machine: figures of two machines say nothing about a change."""
    try:
        found = json.loads(path.read_text())
        earlier_machine, rows = Machine(**found["machine"]), found["outcomes"]
        earlier = {_identity(row): float(row["per_message_s"]) for row in rows}
    except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError) as e:
        raise UsageError(f"--compare {path}: no run that --save has kept ({e})") from e
    if earlier_machine != machine:
        raise UsageError(f"--compare {path}: measured on another machine ({earlier_machine}), this one is {machine}")
    return earlier


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in Load.__dataclass_fields__)


def show_change(outcomes: Sequence[Outcome], earlier: dict[tuple[Any, ...], float], output: Output) -> None:
    """How fast each load is beside the earlier run; 1.0 is as fast."""
    rows = []
    for outcome in outcomes:
        before_s = earlier.get(_identity(asdict(outcome.load)))
        if before_s is not None:
            rows.append([str(outcome.load), figure_text(before_s * 1e6), figure_text(outcome.per_message_s * 1e6)])
            rows[-1].append(f"{before_s / outcome.per_message_s:.2f}x")
    columns = [Column("load"), Column("µs before", True), Column("µs now", True), Column("as fast", True)]
    output.table("Beside the earlier run", columns, rows)
    if not rows:
        output.line("The earlier run has none of these loads.")
