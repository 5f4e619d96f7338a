"""What happens in a soak, one writer's life after the other: chosen by dice, so that a seed repeats it."""

from __future__ import annotations

import random
from dataclasses import dataclass

SITES = {
    "roll": 12,
    "allocate": 20,
    "sync": 80,
    "queue": 120,
    "index": 80,
    "progress": 8,
    "seal": 12,
    "checkpoint": 8,
    "abort": 2,
    "rename": 4,
    "remove": 12,
    "boot": 40,
    "close": 30,
}
"""Site (see tests/support/cut_fate.py) -> among how many of its visits one is chosen for an end."""
STEPS_MAX, DIRECTED_STEPS_MAX = 3000, 300
"""Calls of a thread whose end does not come: its site was visited too rarely."""
Kind = tuple[str, bool]
"""How the writer ends, and whether the disk runs full before."""
FIRST: list[Kind] = [("kill", False), ("cut", False), ("close", True), ("close", False)]
"""One of each, so that a short soak has seen everything."""
WEIGHTS: dict[Kind, int] = {
    ("kill", False): 28,
    ("cut", False): 40,
    ("close", False): 10,
    ("close", True): 8,
    ("kill", True): 7,
    ("cut", True): 7,
}
WITHOUT_MOUNT: list[Kind] = [("kill", False), ("close", False)]
"""What can happen in a plain folder."""


@dataclass(frozen=True)
class Episode:
    """One writer's life. Its fields are the writer's order."""

    round: int
    end: str
    """"kill", "cut" or "close"."""
    full: bool
    """Whether another file takes all room of the disk for a while."""
    mode: str
    site: str
    """Where the end comes, at the `nth` visit, before or `after` what is done there; empty: after `delay_ms`."""
    nth: int
    after: bool
    delay_ms: int
    steps: int
    """Calls of each thread, if the end does not come before."""
    is_left: bool
    """Whether the next writer is the one to recover what this one leaves; a copy is looked at meanwhile."""
    flush_interval_ms: int
    prepare_ahead_size: int
    log_size_max: int
    """Above it, segments are cleaned away."""
    crc_property: bool
    lies: bool
    seed: int


def kinds_first(*, can_lose_power: bool) -> list[Kind]:
    """What every soak begins with."""
    return [kind for kind in FIRST if can_lose_power or kind in WITHOUT_MOUNT]


def choose(number: int, dice: random.Random, *, can_lose_power: bool, lies: bool) -> Episode:
    kinds = {kind: weight for kind, weight in WEIGHTS.items() if can_lose_power or kind in WITHOUT_MOUNT}
    first = kinds_first(can_lose_power=can_lose_power)
    end, is_full = first[number] if number < len(first) else dice.choices(list(kinds), list(kinds.values()))[0]
    is_directed = number >= len(first) and end != "close" and not is_full and dice.random() < 0.5
    site = dice.choice(list(SITES)) if is_directed else ""
    return Episode(
        round=number,
        end=end,
        full=is_full,
        mode=dice.choice(("SYNC", "SYNC", "ASYNC")),
        site=site,
        nth=dice.randint(1, SITES.get(site, 1)),
        after=dice.random() < 0.5,
        delay_ms=dice.randint(1, dice.choice((300, 3000))),
        steps=dice.randint(30, 200) if end == "close" else DIRECTED_STEPS_MAX if site else STEPS_MAX,
        is_left=end != "close" and not is_full and dice.random() < 0.3,
        flush_interval_ms=dice.choice((3, 20, 200)),
        prepare_ahead_size=dice.choice((0, 64 << 10)),
        log_size_max=dice.choice((1 << 20, 2 << 20, 4 << 20)),
        crc_property=dice.random() < 0.15,
        lies=lies,
        seed=dice.randrange(1 << 30),
    )
