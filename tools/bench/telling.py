"""Outcomes in words and tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..output import Column, Output
from ..words import figure_text
from .load import PERCENTILES, WAIT_PERCENTILES, Outcome
from .rocketmq import MAPPED, POOL
from .writers import FILE, FRESH_PAGES, MEMCPY, NOTHING, OWN, PURE, RAW_LOOP, REFERENCES

NOTES = {
    MEMCPY: "the same bytes into a mapped file whose pages are there already: the limit of memory",
    FRESH_PAGES: "the same into pages that must be faulted in first",
    RAW_LOOP: "pwrite and fdatasync of the same bytes in a file with its blocks allocated, as a segment has them",
    FILE: "Python's buffered file; survives no kill, finds nothing again",
    OWN: "until every message was in its queue and in the key index",
    PURE: "the same without the C kernel",
    NOTHING: "the same loop with nothing to call: what the loop costs, and what the machine gives to others",
    MAPPED: "Apache RocketMQ's own store at its defaults, warm, until its dispatch had caught up",
    POOL: "the same with transientStorePoolEnable",
}


def reference_of(outcome: Outcome, outcomes: Sequence[Outcome]) -> Outcome | None:
    """What it is measured against: memcpy, or under sync the raw loop with as many messages a call, or the most."""
    if outcome.load.writer in REFERENCES:
        return None
    name = RAW_LOOP if outcome.load.sync else MEMCPY
    found = [o for o in outcomes if o.load.writer == name and o.load.body_size == outcome.load.body_size]
    fitting = [o for o in found if o.load.batch <= outcome.load.batch or not outcome.load.sync]
    return max(fitting, key=lambda o: o.load.batch, default=None)


def show(outcomes: Sequence[Outcome], output: Output) -> None:
    """A table for each body size, what the names mean, and the closing sentences."""
    columns = [Column("who"), Column("how")]
    columns += [
        Column(name, True) for name in ("thousand/s", "MB/s", "µs each", "put alone", "spread", "p50 µs", "p99")
    ]
    columns += [Column(name, True) for name in ("p99.9", "max", "device B/B", "of the limit")]
    is_paced = any(outcome.load.rate is not None for outcome in outcomes)
    if is_paced:
        columns += [Column("wait p99", True), Column("p99.9", True)]
    for size in sorted({outcome.load.body_size for outcome in outcomes}):
        here = [outcome for outcome in outcomes if outcome.load.body_size == size]
        title = f"Bodies of {size:,} bytes (records of {here[0].record_size:,} bytes)"
        output.table(title, columns, [_row(outcome, outcomes, is_paced) for outcome in here])
    output.line()
    for name in dict.fromkeys(outcome.load.writer for outcome in outcomes):
        if name in NOTES:
            output.line(f"{name}: {NOTES[name]}")
    output.line(
        "µs each: until everything was in queue and key index; put alone: until the last put had returned; p50 to max: "
        "of one call, in a round of its own; spread: of the rounds; device B/B: bytes that the device took per byte of "
        "record"
    )
    if is_paced:
        output.line(
            "p50 to max count from when a call was due. Of that, wait: how long a call that was due, and had none "
            "before it any more, waited for the interpreter's lock or a core, which another thread or program had"
        )
    output.line()
    for sentence in sentences(outcomes):
        output.line(sentence)


def _row(outcome: Outcome, outcomes: Sequence[Outcome], is_paced: bool) -> list[str]:
    each_s = outcome.per_message_s
    reference = reference_of(outcome, outcomes)
    per_byte = outcome.device_bytes_per_byte
    return [
        outcome.load.writer,
        outcome.load.mode,
        figure_text(1e-3 / each_s),
        figure_text(outcome.record_size / each_s / 1e6),
        figure_text(each_s * 1e6),
        figure_text(outcome.returned_s * 1e6),
        f"{outcome.spread:.0%}",
        *(figure_text(outcome.latency_ns(percentile) / 1e3) for percentile in (*PERCENTILES, 100.0)),
        "" if per_byte is None else figure_text(per_byte),
        "" if reference is None else f"{figure_text(100 * reference.per_message_s / each_s)} %",
        *(figure_text(outcome.wait_ns(percentile) / 1e3) for percentile in WAIT_PERCENTILES if is_paced),
    ]


def sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """Two in plain words: what sync costs and what brings it back, and who is faster."""
    size = max(outcome.load.body_size for outcome in outcomes)
    here = [outcome for outcome in outcomes if outcome.load.body_size == size and outcome.load.rate is None]
    own = [outcome for outcome in here if outcome.load.writer == OWN]
    found = [_cost_of_sync(own), _best_rival(here, own)]
    return [sentence for sentence in found if sentence]


def _cost_of_sync(own: Sequence[Outcome]) -> str:
    plain = next((o for o in own if not o.load.sync and o.load.batch == 1), None)
    waiting = next((o for o in own if o.load.sync and o.load.batch == 1 and o.load.threads == 1), None)
    if plain is None or waiting is None:
        return ""
    times = waiting.per_message_s / plain.per_message_s
    wait_us = figure_text(waiting.per_message_s * 1e6)
    text = (
        f"Sync costs you {figure_text(times)}x here, because each put waits {wait_us} µs for the device to confirm it"
    )
    helps = [o for o in own if o.load.sync and o is not waiting]
    if not helps:
        return text + "."
    told = [f"{_means(o)} to {figure_text(o.per_message_s / plain.per_message_s)}x" for o in helps]
    return f"{text}; {', '.join(told)} of an async put."


def _means(outcome: Outcome) -> str:
    if outcome.load.threads > 1:
        return f"{outcome.load.threads} threads bring it"
    return f"{'columns' if outcome.load.columns else 'batches'} of {outcome.load.batch:,} bring it"


def _best_rival(here: Sequence[Outcome], own: Sequence[Outcome]) -> str:
    told = []
    for outcome in own:
        load = outcome.load
        if load.columns or load.threads > 1:
            continue
        rivals = [
            o
            for o in here
            if o.load.writer not in (*REFERENCES, OWN, PURE)
            and (o.load.sync, o.load.threads, o.load.batch > 1) == (load.sync, 1, load.batch > 1)
        ]
        if rivals:
            best = min(rivals, key=lambda o: o.per_message_s)
            told.append(f"{load.mode}, {figure_text(best.per_message_s / outcome.per_message_s)}x {best.load.writer}")
    return f"Beside the fastest peer this store writes: {'; '.join(told)}." if told else ""
