"""A writer whose main thread meets KeyboardInterrupts at random moments, thousands of them, from a real timer's signal.

Arguments: the folder of the store, a flush mode, how many calls to make. Its one line of output, as JSON:

    {"interrupted": 1234, "acknowledged": [[topic, queue id, queue offset, number], …], "offered": 5678}

The body of a message begins with its number, from 0 up.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys

import flightlog

SEGMENT_SIZE = 32 << 10


def main() -> None:
    path, mode, calls = sys.argv[1], flightlog.FlushMode[sys.argv[2]], int(sys.argv[3])
    faulthandler.dump_traceback_later(400, exit=True)  # a lock left behind would hang for ever
    settings = flightlog.StoreSettings(
        segment_size=SEGMENT_SIZE,
        queue_file_entries=100,
        flush_mode=mode,
        flush_interval_ms=3,
        sync_flush_timeout_ms=240_000,
        allocate_step_size=8192,
    )
    # Any thread may take the timer's signal, and the main thread then hears of it later, outside of the call.
    is_armed = False

    def interrupt(*_: object) -> None:
        if is_armed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    dice = random.Random(f"{mode} {calls}")
    acknowledged: list[tuple[str, int, int, int]] = []
    number = interrupted = 0
    reach_s = 0.0002  # adapts until about half of the calls are interrupted
    with flightlog.open(path, settings) as store:
        for call in range(calls):
            count = dice.choice((1, 1, 5, 20))
            sizes = [dice.choice((20, 300, SEGMENT_SIZE // 3)) if dice.random() < 0.1 else 40 for _ in range(count)]
            messages = [
                flightlog.Message(f"topic-{(number + i) % 3}", f"{number + i} ".encode().ljust(size, b"."), tags="t")
                for i, size in enumerate(sizes)
            ]
            results, futures = [], []
            waits = dice.random() < 0.5
            try:
                is_armed = True
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-6, reach_s))
                if count > 1:
                    results = store.put_many(messages)
                elif waits:
                    results = [store.put(messages[0])]
                else:
                    futures.append(store.put_async(messages[0]))
                if results and call % 50 == 0:
                    for _ in store.read(f"topic-{call % 3}", 0, max(0, results[-1].queue_offset - 10)):
                        pass
                is_armed = False
                reach_s *= 0.95
            except KeyboardInterrupt:
                is_armed = False
                interrupted += 1
                reach_s *= 1.05
            results += [future.result(240) for future in futures]
            for i, result in enumerate(results):
                acknowledged.append((result.topic, result.queue_id, result.queue_offset, number + i))
            number += count
        there = sum(len(list(store.read(*key))) for key in store.queues())
        assert there >= len(acknowledged)
    print(json.dumps({"interrupted": interrupted, "acknowledged": acknowledged, "offered": number}))


if __name__ == "__main__":
    main()
