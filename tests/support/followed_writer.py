"""A writer that others follow: message n goes to queue n % 4 with offset n // 4, and every byte of it follows from n.

Started with the folder of a store, a flush mode, a count and a segment size. It opens the store three times, puts one
by one and in batches, with pauses in which its readers can catch up, and ends when all are put. At PLACES places it
waits for a line, so that it is never ahead of its readers by more than that.
"""

from __future__ import annotations

import random
import sys
import time
import zlib

import flightlog

TOPIC = "followed"
QUEUES = 4
SESSIONS = 3
PAUSE_S = 0.005
PLACES = 100


def body_of(number: int) -> bytes:
    """The number, some bytes, and a checksum over both."""
    body = b"%d " % number * (1 + number % 9)
    return body + zlib.crc32(body).to_bytes(4, "big")


def message_of(number: int) -> flightlog.Message:
    tags = "even" if number % 2 == 0 else None
    return flightlog.Message(TOPIC, body_of(number), tags, f"k{number}", queue_id=number % QUEUES)


def settings_of(mode: str, segment_size: int) -> flightlog.StoreSettings:
    return flightlog.StoreSettings(
        segment_size=segment_size,
        queue_file_entries=1000,
        index_slots=5000,
        index_entries=20_000,
        flush_mode=flightlog.FlushMode[mode],
        flush_interval_ms=5,
        queue_flush_interval_ms=10,
        allocate_step_size=1 << 20,
    )


def main() -> None:
    path, mode, count, segment_size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    dice = random.Random(mode)
    number = place = 0
    for session in range(1, SESSIONS + 1):
        with flightlog.open(path, settings_of(mode, segment_size)) as store:
            while number < count * session // SESSIONS:
                last = min(number + dice.choice((1, 1, 7, 100, 400)), count)
                if last - number == 1:
                    store.put(message_of(number))
                else:
                    store.put_many([message_of(n) for n in range(number, last)])
                number = last
                time.sleep(PAUSE_S)
                if number >= count * (place + 1) // PLACES:
                    place += 1
                    sys.stdin.readline()
    print(f"put {number} messages")


if __name__ == "__main__":
    main()
