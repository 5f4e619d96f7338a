"""A consumer whose listener kills its process at certain messages: `python killed_by_message.py STORE`.

It puts what is missing, consumes, and ends once every message was done or is a dead letter. Bodies say what happens:
`fine`, `raises`, `kills`, `hangs`, with a number. What is done is appended to `STORE.done`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import flightlog
from flightlog import Message, ReceivedMessage, StoreSettings

MAX_ATTEMPTS = 3
KINDS = {1234: "kills", 1235: "raises", 2222: "kills", 4000: "raises", 30_000: "hangs", 70_000: "kills"}
SETTINGS = StoreSettings.small(delay_levels=" ".join(["1s"] * 18))


def main(path: Path, count: int, threads: int, is_ordered: bool, timeout_s: float | None) -> None:
    done = os.open(path.with_suffix(".done"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seen = {line for line in path.with_suffix(".done").read_text().split("\n") if line}
    is_over, lock = threading.Event(), threading.Lock()
    with flightlog.open(path, SETTINGS) as store:
        if not store.queues():
            store.put_many(Message("orders", body_of(number), queue_id=number % 4) for number in range(count))

        def check() -> None:
            if len(seen) + len({letter.body for letter in store.dead_letters("g")}) >= count:
                is_over.set()

        def listener(message: ReceivedMessage) -> None:
            kind = message.body.split()[0]
            if kind == b"kills":
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == b"raises":
                raise ValueError("not to my taste")
            if kind == b"hangs":
                is_over.wait()
                return
            with lock:
                seen.add(message.body.decode())
                os.write(done, message.body + b"\n")
                check()

        def on_dead_letter(message: ReceivedMessage) -> None:
            with lock:
                check()

        with flightlog.Consumer(
            *(store, "orders", "g", listener),
            threads=threads,
            ordered=is_ordered,
            max_attempts=MAX_ATTEMPTS,
            consume_timeout_s=timeout_s,
            on_dead_letter=on_dead_letter,
        ):
            check()
            is_over.wait()


def body_of(number: int) -> bytes:
    return f"{KINDS.get(number, 'fine')} {number}".encode()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "ordered", float(sys.argv[5]) or None)
