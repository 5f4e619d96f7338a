"""A reader of a backlog. As a program: a process with a read-only view that reads on command."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from flightlog.engine.message_store import MessageStore
from flightlog.engine.read_only import ReadOnlyStore, open_read_only
from flightlog.tools.bench.drive import no_collection
from flightlog.tools.bench.messages import QUEUES, TOPIC

LOOK_EVERY = 256
"""Messages between two checks of the clock."""
READY = "ready"
NICE = 10


def read_for(store: MessageStore | ReadOnlyStore, each: int, seconds: float) -> float:
    """Read the first `each` messages of every queue repeatedly. Returns messages a second."""
    started_s, passed_s, done = time.perf_counter(), 0.0, 0
    messages = again_and_again(store, each)
    while passed_s < seconds:
        for message in islice(messages, LOOK_EVERY):
            done += len(message.body) > 0
        passed_s = time.perf_counter() - started_s
    return done / passed_s


def again_and_again(store: MessageStore | ReadOnlyStore, each: int) -> Iterator[Any]:
    while True:
        for queue_id in range(QUEUES):
            yield from islice(store.read(TOPIC, queue_id), each)


def main() -> None:
    path, each = Path(sys.argv[1]), int(sys.argv[2])
    os.nice(NICE)
    with open_read_only(path) as view:
        print(READY, flush=True)
        for line in sys.stdin:
            with no_collection():
                print(read_for(view, each, float(line)), flush=True)


if __name__ == "__main__":
    main()
