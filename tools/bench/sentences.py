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
    # Where no kernel was built the reference serves.
    own = [o for o in here if o.case.who == OWN] or [o for o in here if o.case.who == PURE]
    found = [_lateness(outcome) for outcome in own if outcome.case.rate is not None and outcome.case.threads == 1]
    if not found:
        found = [_cost(own), _best_rival(here, own) or _limit(here, own)]
    return [sentence for sentence in found if sentence]


def _lateness(outcome: Outcome) -> str:
    half_us, most_us = (figure_text(outcome.latency_ns(percentile) / 1e3) for percentile in (50, 99.9))
    return (
        f"{'Sync' if outcome.case.sync else 'Async'} flush, {outcome.case.rate:,} messages a second: half of the puts "
        f"have returned {half_us} µs after they were due, 99.9 % after {most_us} µs."
    )


def _cost(own: Sequence[Outcome]) -> str:
    plain, waiting = _single(own), _single(own, sync=True)
    helps = [o for o in own if o not in (plain, waiting) and o.case.sync == (waiting is not None)]
    if plain is None or (waiting is None and not helps):
        return ""
    if waiting is None:
        return (
            f"A message costs you {_us(plain)} µs here, put one by one, until it can be found by its queue and its "
            f"key; {', '.join(f'{_us(o)} µs in {_kind(o)}' for o in helps)}."
        )
    text = (
        f"Sync costs you {_times(waiting, plain)} here, because each put waits {_us(waiting)} µs for the device to "
        "confirm it"
    )
    costs = ", ".join(f"{_kind(o)} bring it to {_times(o, plain)}" for o in helps)
    return f"{text}; {costs} of an async put." if helps else f"{text}."


def _limit(here: Sequence[Outcome], own: Sequence[Outcome]) -> str:
    """How close a put is to the limit of the device, or of memory."""
    waiting, loop = _single(own, sync=True), _single(here, RAW_LOOP, sync=True)
    if waiting is not None and loop is not None:
        return (
            f"The device alone takes {_us(loop)} µs to write such a record and confirm it: "
            f"{figure_text(100 * loop.per_message_s / waiting.per_message_s)} % of what a sync put takes."
        )
    plain, copied = _single(own), next((o for o in here if o.case.who == MEMCPY), None)
    if plain is None or copied is None:
        return ""
    pure = _single(here, PURE)
    more = "" if pure is None or pure is plain else f", and without the C kernel {_times(pure, copied)}"
    return f"To copy its bytes alone takes {_us(copied)} µs: a put costs {_times(plain, copied)} that{more}."


def _best_rival(here: Sequence[Outcome], own: Sequence[Outcome]) -> str:
    found = []
    for outcome in (o for o in own if not o.case.columns and o.case.threads == 1):
        wanted = (outcome.case.sync, 1, outcome.case.batch > 1)
        peers = (o for o in here if o.case.who not in (*REFERENCES, OWN, PURE))
        rivals = [o for o in peers if (o.case.sync, o.case.threads, o.case.batch > 1) == wanted]
        if rivals:
            best = min(rivals, key=lambda o: o.per_message_s)
            found.append(f"{outcome.case.mode}, {_times(best, outcome)} {best.case.who}")
    return f"Beside the fastest peer this store writes: {'; '.join(found)}." if found else ""


def _single(outcomes: Sequence[Outcome], who: str | None = None, *, sync: bool = False) -> Outcome | None:
    """One message a call, one thread."""
    found = [o for o in outcomes if who in (None, o.case.who)]
    return next((o for o in found if (o.case.sync, o.case.batch, o.case.threads) == (sync, 1, 1)), None)


def _us(outcome: Outcome) -> str:
    return figure_text(outcome.per_message_s * 1e6)


def _times(slow: Outcome, fast: Outcome) -> str:
    return f"{figure_text(slow.per_message_s / fast.per_message_s)}x"


def _kind(outcome: Outcome) -> str:
    if outcome.case.threads > 1:
        return f"{outcome.case.threads} threads"
    return f"{'columns' if outcome.case.columns else 'batches'} of {outcome.case.batch:,}"
