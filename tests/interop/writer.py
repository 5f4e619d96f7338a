"""A flightlog writer to be killed: puts mixed messages from four threads until the process dies.

    writer.py STORE FLUSH_MODE SEED IPV6

A line of output, one write to a pipe, for each put or put_many that returned: the thread, the number of its first
message, and what was answered. The messages are `mixed_messages` of `SEED * 100 + thread`, so nobody has to repeat
them.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from itertools import islice

import flightlog
from flightlog.tests.interop import mixed

THREADS = 4
PUTS_A_THREAD = 20_000  # a writer that nobody kills ends by itself, and the test fails


def main() -> None:
    path, mode, seed, is_ipv6 = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "true"
    settings = mixed.small_settings(
        flush_mode=flightlog.FlushMode[mode],
        store_host=("2001:db8::1" if is_ipv6 else "127.0.0.1", 10911),
        flush_interval_ms=20,
        queue_flush_interval_ms=50,
        sync_flush_timeout_ms=240_000,
    )
    store = flightlog.open(path, settings)

    def work(thread: int) -> None:
        thread_seed = seed * 100 + thread
        messages = islice(mixed.mixed_messages(thread_seed), PUTS_A_THREAD)
        number = 0
        for taken, results in mixed.put_mixed(store, messages, random.Random(thread_seed)):
            answers = [[r.queue_offset, r.physical_offset, r.size, r.store_timestamp_ms] for r in results]
            line = json.dumps([thread, number, answers], separators=(",", ":")).encode() + b"\n"
            assert os.write(1, line) == len(line) <= 4096  # as much as the kernel keeps whole
            number += len(taken)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
