"""A reader beside followed_writer.py, from its first message to its last; says "looked" after each of its
first looks that found something, and at the end what it saw, as JSON.

Started with the folder of a store, a count and a seed. Every message is compared with what its place says that it is:
a wrong, missing or repeated one ends the program with an error.
"""

from __future__ import annotations

import json
import random
import sys
import time

import flightlog
from flightlog.tests.support import followed_writer

writer = followed_writer
TOPIC: str = writer.TOPIC
QUEUES: int = writer.QUEUES
STALLED_S = 240


class Follower:
    def __init__(self, view: flightlog.ReadOnlyStore, dice: random.Random) -> None:
        self._view, self._dice = view, dice
        self._next = dict.fromkeys(range(QUEUES), 0)
        """Queue id -> offset of the first message that was not read yet."""
        self.count = self.looks = self.queries = 0

    def look(self) -> bool:
        """Read what has come; whether that was anything."""
        self._view.refresh()
        before = self.count
        bounds = self._view.queues()
        for queue_id, start in self._next.items():
            first, end = bounds.get((TOPIC, queue_id), (0, 0))
            assert first == 0 and end >= start, f"queue {queue_id} had {start} messages, now it has {end}"
            for message in self._view.read(TOPIC, queue_id, start):
                assert message.queue_offset == start, f"{message.queue_offset} follows {start - 1}"
                self._check(message, start * QUEUES + queue_id)
                start += 1
            assert start == end, f"queue {queue_id} was read up to {start}, not {end}"
            self.count += start - self._next[queue_id]
            self._next[queue_id] = start
        if self.count > before:
            self.looks += 1
            self._ask()
        return self.count > before

    @staticmethod
    def _check(message: flightlog.StoredMessage, number: int) -> None:
        found = (message.queue_id, message.body, message.keys, message.tags)
        expected = (number % QUEUES, writer.body_of(number), [f"k{number}"], None if number % 2 else "even")
        assert found == expected, f"message {number} is {found}"

    def _ask(self) -> None:
        """Now and then by other ways: an old and a new message by key, one that is not there, one by place."""
        if self._dice.random() < 0.7:
            return
        view, queue_id = self._view, self._dice.randrange(QUEUES)
        end = self._next[queue_id]
        for offset in {self._dice.randrange(end), end - 1} if end else ():
            number = offset * QUEUES + queue_id
            [message] = view.query(TOPIC, f"k{number}").messages
            assert (message.queue_id, message.queue_offset) == (queue_id, offset)
            self._check(message, number)
            found = view.get(TOPIC, queue_id, offset, 1)
            assert (found.status, found.next_queue_offset) == (flightlog.GetStatus.FOUND, offset + 1)
            self._check(found.messages[0], number)
            self.queries += 1
        assert view.query(TOPIC, f"k{end * QUEUES + queue_id}").messages == []
        assert view.get(TOPIC, queue_id, end).status in (
            flightlog.GetStatus.OFFSET_OVERFLOW_ONE,
            flightlog.GetStatus.NO_MESSAGE_IN_QUEUE,
        )


def main() -> None:
    path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    last_news_s = started_s = time.monotonic()
    with flightlog.open_read_only(path) as view:
        follower = Follower(view, random.Random(seed))
        while follower.count < count:
            if follower.look():
                last_news_s = time.monotonic()
                if follower.looks <= writer.PLACES:
                    print("looked", flush=True)
            elif time.monotonic() - last_news_s > STALLED_S:
                raise TimeoutError(f"nothing new for {STALLED_S} s after {follower.count} messages")
        assert follower.count == count and not follower.look()
        segments = len(view.segments)
    took_s = round(time.monotonic() - started_s, 1)
    said = {"count": follower.count, "looks": follower.looks, "queries": follower.queries, "segments": segments}
    print(json.dumps(said | {"took_s": took_s}))


if __name__ == "__main__":
    main()
