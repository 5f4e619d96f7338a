"""What the soak's clients were answered, in a file for each of their processes, and whether it holds.

    S GROUP NUMBER                     a send that was answered with OK
    R CONSUMERS NANOSECONDS GROUP NUMBER   a message that came, by the machine's monotonic clock

GROUP is a message group, which one sender fills with numbers from 0 on. CONSUMERS is a consumer group.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


class Ledger:
    """Written by the threads of one process; each line goes to the file at once."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def sent(self, body: bytes) -> None:
        with self._lock:
            self._file.write(f"S {body.decode()}\n")

    def received(self, consumers: str, bodies: Iterable[bytes]) -> None:
        """Record the messages of one answer, in its order."""
        with self._lock:
            now = time.monotonic_ns()
            self._file.writelines(f"R {consumers} {now} {body.decode()}\n" for body in bodies)


class Account:
    """All ledgers of a soak."""

    def __init__(self, folder: Path) -> None:
        self.sent: set[tuple[str, int]] = set()
        self.received: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        """By consumer group: each message with the time at which it first came."""
        self.deliveries = 0
        for path in sorted(folder.glob("*.ledger")):
            for line in path.read_text().splitlines():
                self._read(line.split())

    def _read(self, words: list[str]) -> None:
        match words:
            case ["S", group, number]:
                self.sent.add((group, int(number)))
            case ["R", consumers, at, group, number]:
                self.deliveries += 1
                first = self.received[consumers]
                first[group, int(number)] = min(int(at), first.get((group, int(number)), int(at)))

    def missing(self, consumers: str) -> set[tuple[str, int]]:
        """What was answered with OK and never came to this consumer group."""
        return self.sent - self.received[consumers].keys()

    def out_of_order(self, consumers: str) -> list[tuple[str, int]]:
        """Messages of a message group that first came before the one in front of them."""
        found = []
        last: dict[str, int] = {}
        for (group, number), at in sorted(self.received[consumers].items()):
            if at < last.get(group, 0):
                found.append((group, number))
            last[group] = max(at, last.get(group, 0))
        return found
