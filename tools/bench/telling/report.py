"""A run's figures: as a table for people, as an object for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...output import Column, Output
from ...words import figure_text
from ..cases.case import Case
from ..cases.file_workloads import PLAIN, PLAIN_COLD, READ_COLD, SEALS, VERIFY
from ..cases.plan import SYNC_PUT
from ..cases.references import FALLOCATED, MEMCPY, ZEROED
from ..cases.rocketmq_cases import RIVALS
from ..cases.runner import Result
from ..machine.machine import Machine

PERCENTILES = (50.0, 99.0)
COLUMNS = (
    *("name", "kernel", "body_size", "record_size", "messages", "median_s", "per_message_s", "messages_per_s"),
    *("reference", "part_of_reference", "times_rocketmq", "p50_us", "p99_us"),
)
"""Of the CSV file."""
KERNEL_NAMES = {"c": "C", "pure": "pure", None: ""}
NOTES = {
    MEMCPY: "the same bytes into a file mapping whose pages are there already, 256 KiB at a time: the limit",
    "put": "append alone, a call a message, async flush; dispatch is held back",
    "append_columns": "append alone, 8,192 rows a call from numpy arrays, async flush",
    "dispatch": "from the log into the consume queues, in one go",
    "read": "every message as an object, its CRC checked, from the page cache",
    "read_batch": "bodies and queue offsets of every message as Arrow columns, the rest checked as by read",
    "read, all fields": "the same, and every field of it looked at: properties, hosts, times, flags",
    PLAIN_COLD: "the log's files by read calls of 1 MiB, nothing of them in the page cache",
    READ_COLD: "a view opened and every message read as by read, nothing of the store in the page cache",
    PLAIN: "the log's files by read calls of 1 MiB, from the page cache",
    SEALS: "the same bytes against the seals of their segments; the last one, which has none, read plainly",
    VERIFY: "the whole store against itself, from the page cache: seals, records, queues, key index",
    "query": "a message by its key, keys in random order, from the page cache",
    "recover": "open for writing what a writer at default settings left that was killed right after its last put",
    RIVALS["read"]: "the same store, every message decoded; RocketMQ checks no CRC of a body here",
    RIVALS["recover"]: "what its own killed writer left, load() and start() until everything is dispatched",
    "Spark scan": "all columns into Spark's no-op sink, by the clock; planning included",
    FALLOCATED: "pwrite of one record, fdatasync; the file has its blocks by fallocate, as a segment has",
    ZEROED: "the same on a file written full of zeros and synced before: the best case",
    SYNC_PUT: "one thread, each put acknowledged after its own sync; beside the fallocated loop",
}


def find_reference(result: Result, results: Sequence[Result]) -> Result | None:
    """What this result is compared with; None for a reference."""
    return _named(result.case.against, result.case.body_size, results)


def find_rival(result: Result, results: Sequence[Result]) -> Result | None:
    """RocketMQ's result of the same, if there is one."""
    return _named(result.case.rival, result.case.body_size, results)


def _named(name: str | None, body_size: int, results: Sequence[Result]) -> Result | None:
    for other in results:
        if (other.case.name, other.case.body_size) == (name, body_size):
            return other
    return None


def show(results: Sequence[Result], output: Output) -> None:
    """One table a body size, then what the names mean."""
    has_latencies = any(result.latencies_ns for result in results)
    has_rivals = any(result.case.rival for result in results)
    columns = [
        Column("what"),
        Column("kernel"),
        *(Column(name, True) for name in ("thousand/s", "µs each", "spread")),
        Column("of the limit", True),
    ]
    if has_latencies:
        columns += [Column("p50 µs", True), Column("p99 µs", True)]
    if has_rivals:
        columns.append(Column("x RocketMQ", True))
    for body_size in sorted({result.case.body_size for result in results}):
        here = [result for result in results if result.case.body_size == body_size]
        title = f"Bodies of {body_size:,} bytes (records of {here[0].case.record_size:,} bytes)"
        rows = []
        for result in here:
            row = _row(result, results)
            if has_latencies:
                row += [figure_text(result.latency_us(percentile)) for percentile in PERCENTILES]
            if has_rivals:
                rival = find_rival(result, results)
                row.append("" if rival is None else f"{figure_text(result.part_of(rival))}x")
            rows.append(row)
        output.table(title, columns, rows)
    output.line()
    for name in dict.fromkeys(result.case.name for result in results):
        if name in NOTES:
            output.line(f"{name}: {NOTES[name]}")


def _row(result: Result, results: Sequence[Result]) -> list[str]:
    each_us = result.per_message_s * 1e6
    reference = find_reference(result, results)
    return [
        result.case.name,
        KERNEL_NAMES[result.case.kernel],
        figure_text(1e3 / each_us),
        figure_text(each_us),
        f"{result.spread:.0%}",
        "" if reference is None else f"{figure_text(100 * result.part_of(reference))} %",
    ]


def as_object(results: Sequence[Result], machine: Machine, rounds: int) -> dict[str, Any]:
    """What `--json` prints; times in seconds, `part_of_reference` 1.0 = as fast as it."""
    return {
        "machine": asdict(machine),
        "rounds": rounds,
        "results": [
            _result_object(result, find_reference(result, results), find_rival(result, results)) for result in results
        ],
    }


def _result_object(result: Result, reference: Result | None, rival: Result | None) -> dict[str, Any]:
    case: Case = result.case
    latencies = {f"p{p:g}_us": result.latency_us(p) for p in PERCENTILES} if result.latencies_ns else {}
    return latencies | {
        "name": case.name,
        "kernel": case.kernel,
        "body_size": case.body_size,
        "record_size": case.record_size,
        "messages": case.count,
        "seconds": result.seconds,
        "median_s": result.median_s,
        "per_message_s": result.per_message_s,
        "messages_per_s": 1 / result.per_message_s,
        "reference": case.against,
        "part_of_reference": None if reference is None else result.part_of(reference),
        "times_rocketmq": None if rival is None else result.part_of(rival),
        "latencies_us": {str(p): result.latency_us(p) for p in PERCENTILES} if result.latencies_ns else None,
    }
