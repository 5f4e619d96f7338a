"""Follows a store that somebody else is writing, until it is told that the writer has ended.

    follower.py STORE ENDED READ

ENDED is a file that appears once the writer has ended; then one more refresh must show the rest. READ is a file for
the number of messages that were read so far. What was read is told in one line of JSON: `rounds` that found something
new, and for every queue how many messages it had and the SHA-1 that harness.py calls `messages_sha1`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import flightlog
from flightlog.tests.interop.harness import DIGEST_LINE


class Queue:
    """One queue while it is read: each offset once, in order."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.digest = hashlib.sha1()

    def read_on(self, view: flightlog.ReadOnlyStore, topic: str, queue_id: int) -> int:
        before = self.next_offset
        for message in view.read(topic, queue_id, before):
            assert message.queue_offset == self.next_offset, f"{topic} {queue_id}: offset {message.queue_offset}"
            assert (message.topic, message.queue_id) == (topic, queue_id)
            self.next_offset += 1
            body = hashlib.sha1(message.body).digest()
            self.digest.update(DIGEST_LINE.pack(message.queue_offset, message.physical_offset, message.size, body))
        return self.next_offset - before


def main() -> None:
    path, ended, read = map(Path, sys.argv[1:])
    queues: dict[tuple[str, int], Queue] = {}
    rounds = count = 0
    with flightlog.open_read_only(path) as view:
        is_last = False
        while True:
            found = sum(queues.setdefault(key, Queue()).read_on(view, *key) for key in view.queues())
            rounds += found > 0
            count += found
            read.write_text(str(count))
            if is_last:
                break
            is_last = ended.exists()
            if not found and not is_last:
                time.sleep(0.01)
            view.refresh()
    told = [[*key, queue.next_offset, queue.digest.hexdigest()] for key, queue in sorted(queues.items())]
    print(json.dumps({"rounds": rounds, "queues": told}))


if __name__ == "__main__":
    main()
