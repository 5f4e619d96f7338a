"""Queues in one process that are compared: this store's two ways of consuming, and a SQLite table.

Each is a context manager: it makes an empty queue below `folder` and its members, each with its own thread, and yields
a Rig. `take` is called with the bodies that a member receives at once; they are acknowledged when it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from flightlog.benches.messaging.sqlite_queue import SqliteQueue
from flightlog.consume.consumer import Consumer
from flightlog.consume.deliver.received import ReceivedMessage
from flightlog.consume.group.initial_offset import StartFrom
from flightlog.consume.store import Store, open_store
from flightlog.store.message import Message
from flightlog.store.settings import FlushMode, StoreSettings

TOPIC, GROUP, QUEUES = "bench", "bench", 16
LIST = 32
"""Messages at once; RocketMQ's limit of a pop."""
WAIT_S, POLL_S = 0.5, 0.01
"""Wait of a pop, and poll interval of a consumer of the SQLite table."""
END = b"end"

Take = Callable[[Sequence[bytes]], None]


class Rig(NamedTuple):
    put: Callable[[bytes], object]
    put_many: Callable[[Sequence[bytes]], object]
    start: Callable[[], None]
    """Have the members receive. Until then they are idle, the queues shared out."""


Opened = Callable[[Path, FlushMode, int, Take], AbstractContextManager[Rig]]
"""(folder, flush mode, members, take)"""


def queues_for(members: int) -> int:
    """A pulling member has one queue at least."""
    return max(QUEUES, members)


def new_store(folder: Path, mode: FlushMode = FlushMode.ASYNC, queues: int = QUEUES) -> Store:
    settings = StoreSettings(flush_mode=mode, segment_size=256 << 20, key_index=False, default_queue_count=queues)
    store = open_store(folder / "store", settings)
    store.create_topic(TOPIC, queues)
    return store


def _put_first(store: Store, queues: int) -> None:
    """A queue's first message creates its file."""
    store.put_many([Message(TOPIC, END, queue_id=number) for number in range(queues)])


def _rig(store: Store, start: Callable[[], None], queues: int) -> Rig:
    def put_many(bodies: Sequence[bytes]) -> None:
        store.put_many([Message(TOPIC, body, queue_id=number % queues) for number, body in enumerate(bodies)])

    return Rig(lambda body: store.put(Message(TOPIC, body, queue_id=None)), put_many, start)


@contextmanager
def pulling(batch_size: int, folder: Path, mode: FlushMode, members: int, take: Take) -> Iterator[Rig]:
    """Consumers, which share the queues out."""
    queues = queues_for(members)

    def take_one(message: ReceivedMessage) -> None:
        take((message.body,))

    def take_list(messages: list[ReceivedMessage]) -> None:
        take([message.body for message in messages])

    listener: Callable[..., None] = take_one if batch_size == 1 else take_list
    with new_store(folder, mode, queues) as store:
        _put_first(store, queues)
        options = {"threads": 1, "batch_size": batch_size, "start": StartFrom.LAST}
        group = [Consumer(store, TOPIC, GROUP, listener, **options) for _ in range(members)]  # type: ignore[arg-type]
        with ExitStack() as closing:
            for each in group:
                closing.enter_context(each)
            for each in group:
                each.pause()

            def start() -> None:
                for each in group:
                    each.resume()

            yield _rig(store, start, queues)
        _check_acknowledged(store)


def _check_acknowledged(store: Store) -> None:
    left = sum(store.lag(GROUP).values())
    if left:
        raise AssertionError(f"{left} messages were taken and not acknowledged")


@contextmanager
def popping(folder: Path, mode: FlushMode, members: int, take: Take) -> Iterator[Rig]:
    """Threads that pop LIST messages at once from all queues, and acknowledge them with one call."""
    queues, has_ended = queues_for(members), threading.Event()
    with new_store(folder, mode, queues) as store:

        def work() -> None:
            while not has_ended.is_set():
                popped = store.receive(GROUP, TOPIC, LIST, wait_s=WAIT_S)
                if popped:
                    take([message.body for message in popped])
                    store.ack(*(message.handle for message in popped))

        _put_first(store, queues)
        while popped := store.receive(GROUP, TOPIC):  # until the group has its offsets
            store.ack(*(message.handle for message in popped))
        with _in_threads(members, work, has_ended.set) as start:
            yield _rig(store, start, queues)


@contextmanager
def in_sqlite(poll_s: float | None, folder: Path, mode: FlushMode, members: int, take: Take) -> Iterator[Rig]:
    """Threads that take from one SQLite table: every `poll_s` seconds, or woken by a semaphore."""
    with SqliteQueue(folder / "queue.sqlite", is_sync=mode is FlushMode.SYNC, poll_s=poll_s) as queue:

        def work() -> None:
            while True:
                with queue.taken() as body:
                    if body == END:
                        return
                    take((body,))

        with _in_threads(members, work, lambda: queue.put_many([END] * members)) as start:
            yield Rig(queue.put, queue.put_many, start)


@contextmanager
def _in_threads(count: int, work: Callable[[], None], end: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Threads that work once the yielded function was called, until `end` was. Raises their first error."""
    may_start = threading.Event()

    def wait_and_work() -> None:
        may_start.wait()
        work()

    with ThreadPoolExecutor(count) as pool:
        working = [pool.submit(wait_and_work) for _ in range(count)]
        try:
            yield may_start.set
        finally:
            end()
            may_start.set()
    for each in working:
        each.result()
