"""`many_in_flight.py FOLDER COUNT AT_ONCE`: how much memory messages cost that were received and not acknowledged.

Four members in each of two groups receive the messages of one topic, AT_ONCE at a time, and drop the handles; then some
messages are acknowledged, the store is opened again, and the time of all messages is over at once.
Prints bytes of private memory for each message in flight at every stage, and the seconds of an ack.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import threading
import time
from pathlib import Path

from flightlog import Message, StoreSettings
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore

GROUPS, MEMBERS, QUEUES, ACKS = ("g", "h"), 4, 8, 200
INVISIBLE_MS, LATER_MS = 600_000, 5_000
ANONYMOUS = re.compile(r"^RssAnon:\s+([0-9]+) kB$", re.MULTILINE)


def private() -> int:
    gc.collect()
    found = ANONYMOUS.search(Path("/proc/self/status").read_text())
    assert found is not None, "expected a line RssAnon, as Linux writes it"
    return int(found[1]) * 1024


def received(popped: PoppedStore, group: str, at_once: int) -> int:
    counts: list[int] = []

    def member() -> None:
        count = 0
        while got := popped.receive(at_once, group=group, invisible_ms=INVISIBLE_MS):
            count += len(got)
        counts.append(count)

    members = [threading.Thread(target=member) for _ in range(MEMBERS)]
    for each in members:
        each.start()
    for each in members:
        each.join()
    assert len(counts) == MEMBERS
    return sum(counts)


def ack_seconds(popped: PoppedStore) -> float:
    popped.put(*range(ACKS), queue_id=0)
    handles = [each.handle for _ in range(ACKS) for each in popped.receive(1, group=GROUPS[0])]
    begin_s = time.perf_counter()
    for handle in handles:
        popped.store.ack(handle)
    return (time.perf_counter() - begin_s) / ACKS


def main(root: Path, count: int, at_once: int) -> dict[str, float]:
    popped = PoppedStore(root, settings=StoreSettings(key_index=False))
    popped.store.create_topic("orders", QUEUES)
    figures = {"ack, none in flight, s": ack_seconds(popped)}
    popped.pass_time(1_000)
    for number in range(0, count // len(GROUPS), 1000):
        popped.store.put_many(Message("orders", bytes(100), queue_id=number // 1000 % QUEUES) for _ in range(1000))
    before = private()
    in_flight = sum(received(popped, group, at_once) for group in GROUPS)
    popped.run_timers()
    figures |= {"in flight": in_flight, "in flight, bytes each": (private() - before) / in_flight}
    figures["ack, all in flight, s"] = ack_seconds(popped)
    popped.reopen()
    figures["opened again, bytes each"] = (private() - before) / in_flight
    popped.clock.advance(INVISIBLE_MS + LATER_MS // 5)
    popped.run_timers()
    popped.revive()
    waiting = sum(map(len, inside.revive_queues(popped.store)))
    figures |= {"check points that wait": waiting, "all over at once, bytes each": (private() - before) / in_flight}
    popped.store.close()
    return figures


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
