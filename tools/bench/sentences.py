"""Two sentences that summarize a comparison of writers."""

from __future__ import annotations

from collections.abc import Sequence

from ..words import figure_text
from .case import MEMCPY, OWN, PURE, PUT, RAW_LOOP, REFERENCES, Outcome


def sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """The cost of a put, of a sync put if measured, and what lowers it; then the comparison with the fastest peer, or
    with the limit. At a rate: one sentence on the latency in each flush mode."""
    puts = [outcome for outcome in outcomes if outcome.case.task == PUT]
    size = max((outcome.case.body_size for outcome in puts), default=0)
    here = [outcome for outcome in puts if outcome.case.body_size == size]
    own = _of(here, OWN) or _of(here, PURE)  # where no kernel was built the reference serves
    found = [_lateness(outcome) for outcome in own if outcome.case.rate is not None and outcome.case.threads == 1]
    if not found:
        found = [_cost_of_sync(own) or _cost_of_a_put(own), _best_rival(here, own) or _limit(here, own)]
    return [sentence for sentence in found if sentence]


def _lateness(outcome: Outcome) -> str:
    half_us, most_us = (figure_text(outcome.latency_ns(percentile) / 1e3) for percentile in (50, 99.9))
    return (
        f"{'Sync' if outcome.case.sync else 'Async'} flush, {outcome.case.rate:,} messages a second: half of the puts "
        f"have returned {half_us} µs after they were due, 99.9 % after {most_us} µs."
    )


def _cost_of_a_put(own: Sequence[Outcome]) -> str:
    plain = _one_by_one(own, sync=False)
    helps = [o for o in own if o is not plain]
    if plain is None or not helps:
        return ""
    costs = ", ".join(f"{_us(o)} µs in {_kind(o)}" for o in helps)
    return (
        f"A message costs you {_us(plain)} µs here, put one by one, until it can be found by its queue and its key; "
        f"{costs}."
    )


def _cost_of_sync(own: Sequence[Outcome]) -> str:
    plain, waiting = _one_by_one(own, sync=False), _one_by_one(own, sync=True)
    if plain is None or waiting is None:
        return ""
    text = (
        f"Sync costs you {_times(waiting, plain)} here, because each put waits {_us(waiting)} µs for the device to "
        "confirm it"
    )
    helps = [o for o in own if o.case.sync and o is not waiting]
    if not helps:
        return text + "."
    kinds = [f"{f'{o.case.threads} threads' if o.case.threads > 1 else _kind(o)} bring it" for o in helps]
    costs = ", ".join(f"{kind} to {_times(o, plain)}" for kind, o in zip(kinds, helps, strict=True))
    return f"{text}; {costs} of an async put."


def _limit(here: Sequence[Outcome], own: Sequence[Outcome]) -> str:
    """How close a put is to the limit of the device, or of memory."""
    waiting, loop = _one_by_one(own, sync=True), _one_by_one(_of(here, RAW_LOOP), sync=True)
    if waiting is not None and loop is not None:
        part = figure_text(100 * loop.per_message_s / waiting.per_message_s)
        return (
            f"The device alone takes {_us(loop)} µs to write such a record and confirm it: {part} % of what a sync put "
            "takes."
        )
    plain, copied = _one_by_one(own, sync=False), next((o for o in here if o.case.who == MEMCPY), None)
    if plain is None or copied is None:
        return ""
    text = f"To copy its bytes alone takes {_us(copied)} µs: a put costs {_times(plain, copied)} that"
    pure = _one_by_one(_of(here, PURE), sync=False)
    if pure is None or pure is plain:
        return f"{text}."
    return f"{text}, and without the C kernel {_times(pure, copied)}."


def _best_rival(here: Sequence[Outcome], own: Sequence[Outcome]) -> str:
    found = []
    for outcome in own:
        case = outcome.case
        rivals = [
            o
            for o in here
            if o.case.who not in (*REFERENCES, OWN, PURE)
            and (o.case.sync, o.case.threads, o.case.batch > 1) == (case.sync, 1, case.batch > 1)
        ]
        if rivals and not case.columns and case.threads == 1:
            best = min(rivals, key=lambda o: o.per_message_s)
            found.append(f"{case.mode}, {_times(best, outcome)} {best.case.who}")
    return f"Beside the fastest peer this store writes: {'; '.join(found)}." if found else ""


def _of(outcomes: Sequence[Outcome], who: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.case.who == who]


def _one_by_one(outcomes: Sequence[Outcome], *, sync: bool) -> Outcome | None:
    wanted = (sync, 1, 1)
    return next((o for o in outcomes if (o.case.sync, o.case.batch, o.case.threads) == wanted), None)


def _us(outcome: Outcome) -> str:
    return figure_text(outcome.per_message_s * 1e6)


def _times(slow: Outcome, fast: Outcome) -> str:
    return f"{figure_text(slow.per_message_s / fast.per_message_s)}x"


def _kind(outcome: Outcome) -> str:
    return f"{'columns' if outcome.case.columns else 'batches'} of {outcome.case.batch:,}"
