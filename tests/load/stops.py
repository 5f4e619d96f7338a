"""Stops of processes at random, as a machine that does much besides gives some of them no time for seconds."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Collection
from dataclasses import dataclass

SHORTEST_S, LONGEST_S = 0.2, 9.0
GAP_MAX_S = 1.0
"""The longest time from one stop to the next, while fewer are stopped than may be."""
TIMES_LONGER = 2
"""How much longer what is stopped may take: a process runs at least as long as it was stopped before it is
stopped again."""


@dataclass(frozen=True, slots=True)
class _Stop:
    began_s: float
    until_s: float


class Stops:
    """Stops children of this process that it has not waited for: so no signal meets another process."""

    def __init__(self, at_a_time: int, seed: int) -> None:
        self._at_a_time, self._dice = at_a_time, random.Random(seed)
        self._stopped: dict[int, _Stop] = {}
        self._again_s: dict[int, float] = {}
        """When each that was let go may be stopped again."""
        self._next_s = 0.0
        self.count = 0

    def step(self, running: Collection[int], now_s: float) -> None:
        """Let go what was stopped long enough, and stop another one if it is time."""
        for known in (self._stopped, self._again_s):
            for pid in known.keys() - set(running):
                del known[pid]
        for pid, stop in list(self._stopped.items()):
            if stop.until_s <= now_s:
                os.kill(pid, signal.SIGCONT)
                del self._stopped[pid]
                self._again_s[pid] = now_s + (now_s - stop.began_s)
        able = [pid for pid in running if pid not in self._stopped and self._again_s.get(pid, now_s) <= now_s]
        if able and len(self._stopped) < self._at_a_time and self._next_s <= now_s:
            stop_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self._dice.random()  # as many below 1.3 s as above
            pid = self._dice.choice(able)
            self._stopped[pid] = _Stop(now_s, now_s + stop_s)  # first: after an interrupt it is let go, too
            os.kill(pid, signal.SIGSTOP)
            self.count += 1
            self._next_s = now_s + self._dice.uniform(0, GAP_MAX_S)

    def end(self, running: Collection[int]) -> None:
        """Let all go."""
        for pid in self._stopped.keys() & set(running):
            with contextlib.suppress(ProcessLookupError):  # waited for as an interrupt came
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()
