"""Outcomes in words and tables."""

from __future__ import annotations

from collections.abc import Sequence

from ...output import Column, Output
from ...words import figure_text
from ..loads.load import PERCENTILES, WAIT_PERCENTILES, Outcome
from ..rocketmq import MAPPED, POOL
from ..writers import FILE, FRESH_PAGES, MEMCPY, NOTHING, OWN, PURE, RAW_LOOP, REFERENCES

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
    """Two in plain words: what a put costs, with a sync if there is one, and what brings the cost down; then who is
    faster, or how near the limit that is. At a rate one for each flush mode: how late puts are."""
    size = max(outcome.load.body_size for outcome in outcomes)
    here = [outcome for outcome in outcomes if outcome.load.body_size == size]
    own = [outcome for outcome in here if outcome.load.writer == OWN]
    found = [_lateness(outcome) for outcome in own if outcome.load.rate is not None and outcome.load.threads == 1]
    if not found:
        found = [_cost_of_sync(own) or _cost_of_a_put(own), _best_rival(here, own) or _limit(here, own)]
    return [sentence for sentence in found if sentence]


def _lateness(outcome: Outcome) -> str:
    half_us, most_us = (figure_text(outcome.latency_ns(percentile) / 1e3) for percentile in (50, 99.9))
    return (
        f"{'Sync' if outcome.load.sync else 'Async'} flush, {outcome.load.rate:,} messages a second: half of the puts "
        f"have returned {half_us} µs after they were due, 99.9 % after {most_us} µs."
    )


def _cost_of_a_put(own: Sequence[Outcome]) -> str:
    plain = _one_by_one(own, sync=False)
    helps = [o for o in own if o is not plain]
    if plain is None or not helps:
        return ""
    told = [f"{figure_text(o.per_message_s * 1e6)} µs in {_kind(o)}" for o in helps]
    return (
        f"A message costs you {figure_text(plain.per_message_s * 1e6)} µs here, put one by one, until it can be found "
        f"by its queue and its key; {', '.join(told)}."
    )


def _limit(here: Sequence[Outcome], own: Sequence[Outcome]) -> str:
    """How near a put is to what the device or the memory does at best."""
    waiting, loop = _one_by_one(own, sync=True), next((o for o in here if _is(o, RAW_LOOP, True)), None)
    if waiting is not None and loop is not None:
        return (
            f"The device alone takes {figure_text(loop.per_message_s * 1e6)} µs to write such a record and confirm it: "
            f"{figure_text(100 * loop.per_message_s / waiting.per_message_s)} % of what a sync put takes."
        )
    plain, copied = _one_by_one(own, sync=False), next((o for o in here if o.load.writer == MEMCPY), None)
    if plain is None or copied is None:
        return ""
    times = figure_text(plain.per_message_s / copied.per_message_s)
    text = f"To copy its bytes alone takes {figure_text(copied.per_message_s * 1e6)} µs: a put costs {times}x that"
    pure = next((o for o in here if _is(o, PURE, False)), None)
    if pure is not None:
        text += f", and without the C kernel {figure_text(pure.per_message_s / copied.per_message_s)}x"
    return f"{text}."


def _one_by_one(own: Sequence[Outcome], *, sync: bool) -> Outcome | None:
    return next((o for o in own if _is(o, OWN, sync)), None)


def _is(outcome: Outcome, writer: str, sync: bool) -> bool:
    load = outcome.load
    return (load.writer, load.sync, load.batch, load.threads) == (writer, sync, 1, 1)


def _cost_of_sync(own: Sequence[Outcome]) -> str:
    plain, waiting = _one_by_one(own, sync=False), _one_by_one(own, sync=True)
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
    return f"{_kind(outcome)} bring it"


def _kind(outcome: Outcome) -> str:
    return f"{'columns' if outcome.load.columns else 'batches'} of {outcome.load.batch:,}"


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
