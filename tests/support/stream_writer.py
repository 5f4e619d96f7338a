"""A flightlog writer to be followed and killed: numbered messages until its input ends, then a clean close.

Started with the folder of a store, the number of its first message, and messages a second. Prints after every put the
number behind the last message that was acknowledged. Bodies are what `body_of` says.
"""

from __future__ import annotations

import random
import sys
import threading

import flightlog

TOPICS = ("orders", "payments", "заказы")
SEGMENT_SIZE = 256 << 10
PAUSE_S = 0.02


def body_of(number: int) -> bytes:
    return b"%d " % number * (1 + number % 60)


def message_of(number: int) -> flightlog.Message:
    return flightlog.Message(TOPICS[number % 3], body_of(number), queue_id=number % 4, keys=f"k{number}")


def main() -> None:
    path, number, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    settings = flightlog.StoreSettings(
        rocketmq_strict=False,
        segment_size=SEGMENT_SIZE,
        queue_file_entries=1000,
        flush_interval_ms=10,
        queue_flush_interval_ms=20,
    )
    dice = random.Random(number)
    has_ended = threading.Event()

    def await_end() -> None:
        sys.stdin.buffer.read()
        has_ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    with flightlog.open(path, settings) as store:
        while not has_ended.wait(PAUSE_S):
            count = dice.randrange(1, max(int(2 * rate * PAUSE_S), 2))
            store.put_many([message_of(n) for n in range(number, number + count)])
            number += count
            print(number, flush=True)


if __name__ == "__main__":
    main()
