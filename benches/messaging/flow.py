"""Messages from put to listener: how long one takes, how many a second come through, and a burst that is more than the
consumer can take.

Producer and consumers are threads of one process, as they are for an application that embeds the store: they share one
interpreter, so what the producer takes of it the consumers lack.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benches.messaging.part import Part
from benches.messaging.sqlite_queue import SqliteQueue
from flightlog.consume.consumer import Consumer
from flightlog.consume.consuming_store import Store, open_store
from flightlog.consume.deliver.received import ReceivedMessage
from flightlog.consume.group.initial_offset import StartFrom
from flightlog.store.errors import UsageError
from flightlog.store.message import Message
from flightlog.store.settings import FlushMode, StoreSettings
from flightlog.tools.bench.writers import OWN

TOPIC, GROUP, QUEUES, BODY_SIZE = "bench", "bench", 16, 100
SQLITE = "SQLite table"
STAMP_SIZE = 8
PADDING = bytes(BODY_SIZE - STAMP_SIZE)
LIMIT_S = 120.0
"""How long messages may take to come; beyond it, the figure would mean nothing."""
TICKS_A_SECOND = 100
BURST_RATE, BURST_CONSUMED_RATE = 50_000, 2_000
SAMPLE_S = 0.05


def new_store(folder: Path, mode: FlushMode = FlushMode.ASYNC) -> Store:
    settings = StoreSettings(flush_mode=mode, segment_size=256 << 20, key_index=False, default_queue_count=QUEUES)
    return open_store(folder, settings)


def await_all(is_done: threading.Event, what: Callable[[], str]) -> None:
    if not is_done.wait(LIMIT_S):
        raise UsageError(f"{what()} after {LIMIT_S:g} s: this machine is too slow or too busy to measure it")


def body_of(number: int) -> bytes:
    """A message that says this number."""
    return number.to_bytes(STAMP_SIZE, "big") + PADDING


def number_of(body: bytes) -> int:
    return int.from_bytes(body[:STAMP_SIZE], "big")


def stamped() -> bytes:
    """A message that says when it was made."""
    return body_of(time.perf_counter_ns())


def pace(count: int, rate: int, work: Callable[[], object]) -> None:
    """Do it so often, at times that do not shift where one was late."""
    began_s = time.perf_counter()
    for number in range(count):
        left_s = began_s + number / rate - time.perf_counter()
        if left_s > 0:
            time.sleep(left_s)
        work()


# -- latency


def latency(folder: Path, rate: int, seconds: float) -> Part:
    """One producer, one consumer of one thread, evenly spaced puts; and a SQLite queue at the same."""
    rows, series, count = [], {}, max(int(rate * seconds), 10)
    loads: list[tuple[str, str, Callable[[], np.ndarray]]] = [
        (OWN, "async", lambda: _latencies(folder / "async", FlushMode.ASYNC, rate, count)),
        (OWN, "sync", lambda: _latencies(folder / "sync", FlushMode.SYNC, rate, count)),
        (SQLITE, "async", lambda: _sqlite_latencies(folder / "a.sqlite", False, rate, count)),
        (SQLITE, "sync", lambda: _sqlite_latencies(folder / "s.sqlite", True, rate, count)),
    ]
    for store, mode, measure in loads:
        ms = measure() / 1e6
        p50, p99, most = np.percentile(ms, (50, 99, 100)).tolist()
        rows.append({"queue": store, "flush": mode, "a second": rate, "messages": len(ms)})
        rows[-1] |= {"p50 ms": p50, "p99 ms": p99, "max ms": most}
        series[f"{store}, {mode}"] = np.sort(ms).tolist()
    return Part("latency", f"From put to listener, {BODY_SIZE} bytes", rows, series)


def _latencies(folder: Path, mode: FlushMode, rate: int, count: int) -> np.ndarray:
    latencies_ns, is_done = list[int](), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        latencies_ns.append(time.perf_counter_ns() - number_of(message.body))
        if len(latencies_ns) == count:
            is_done.set()

    with new_store(folder, mode) as store:
        store.create_topic(TOPIC, QUEUES)
        store.put(Message(TOPIC, stamped(), queue_id=0))  # what every first put makes is made
        with Consumer(store, TOPIC, GROUP, listen, threads=1, start=StartFrom.LAST):
            pace(count, rate, lambda: store.put(Message(TOPIC, stamped(), queue_id=None)))
            await_all(is_done, lambda: f"{count - len(latencies_ns):,} of {count:,} messages have not come")
    return np.array(latencies_ns)


def _sqlite_latencies(path: Path, is_sync: bool, rate: int, count: int) -> np.ndarray:
    latencies_ns = list[int]()
    with SqliteQueue(path, is_sync=is_sync) as queue:

        def consume() -> None:
            for _ in range(count):
                with queue.taken() as body:
                    latencies_ns.append(time.perf_counter_ns() - number_of(body))

        consumer = threading.Thread(target=consume)
        consumer.start()
        pace(count, rate, lambda: queue.put(stamped()))
        consumer.join()
    return np.array(latencies_ns)


# -- throughput


def throughput(folder: Path, consumers: tuple[int, ...], count: int) -> Part:
    """A backlog that a group works off, each member with a thread of its own; and a SQLite queue at the same."""
    rows: list[dict[str, Any]] = []
    series: dict[str, Any] = {}
    for batch_size, members in itertools.product((1, 32), consumers):
        took_s = _work_off(folder / f"{batch_size}-{members}", members, count, batch_size)
        name = f"{OWN}, {'one by one' if batch_size == 1 else f'lists of {batch_size}'}"
        rows.append({"queue": name, "consumers": members, "messages": count, "messages/s": count / took_s})
        series.setdefault(name, []).append((members, count / took_s))
    fewer = max(count // 10, 1)
    for members in consumers:
        took_s = _sqlite_work_off(folder / f"{members}.sqlite", members, fewer)
        rows.append({"queue": SQLITE, "consumers": members, "messages": fewer, "messages/s": fewer / took_s})
        series.setdefault(SQLITE, []).append((members, fewer / took_s))
    return Part("throughput", "A backlog that is worked off, acknowledgements included", rows, series)


def fill(store: Store, count: int) -> None:
    for first in range(0, count, 1000):
        numbers = range(first, min(first + 1000, count))
        store.put_many([Message(TOPIC, body_of(n), queue_id=n % QUEUES) for n in numbers])


def _work_off(folder: Path, members: int, count: int, batch_size: int) -> float:
    done, is_done, ended_s = itertools.count(1), threading.Event(), [0.0]

    def take(message: object) -> None:
        if next(done) == count:
            ended_s[0] = time.perf_counter()
            is_done.set()

    def take_list(messages: list[object]) -> None:
        for message in messages:
            take(message)

    listener = take if batch_size == 1 else take_list
    with new_store(folder) as store:
        store.create_topic(TOPIC, QUEUES)
        group = [Consumer(store, TOPIC, GROUP, listener, threads=1, batch_size=batch_size) for _ in range(members)]
        for each in group:
            each.start()
        for each in group:  # everybody has its queues now
            each.pause()
        fill(store, count)
        began_s = time.perf_counter()
        for each in group:
            each.resume()
        await_all(is_done, lambda: f"{members} consumers have not taken {count:,} messages")
        for each in group:
            each.close()
        left = count - sum(store.group_offsets(GROUP, TOPIC).values())
    if left:
        raise AssertionError(f"{left} of {count} messages were taken and not acknowledged")
    return ended_s[0] - began_s


def _sqlite_work_off(path: Path, members: int, count: int) -> float:
    with SqliteQueue(path, is_sync=False) as queue:
        queue.put_many([body_of(n) for n in range(count)])
        shares = [len(range(member, count, members)) for member in range(members)]
        is_begun = threading.Event()

        def consume(share: int) -> None:
            is_begun.wait()
            for _ in range(share):
                with queue.taken():
                    pass

        threads = [threading.Thread(target=consume, args=(share,)) for share in shares]
        for thread in threads:
            thread.start()
        began_s = time.perf_counter()
        is_begun.set()
        for thread in threads:
            thread.join()
        return time.perf_counter() - began_s


# -- a burst


def burst_consumer(store: Store, listen: Callable[[list[ReceivedMessage]], None], batch_size: int) -> Consumer:
    store.create_topic(TOPIC, QUEUES)
    return Consumer(store, TOPIC, GROUP, listen, threads=1, batch_size=batch_size)


def burst(folder: Path, seconds: float) -> Part:
    """Puts of BURST_RATE a second against a consumer that takes BURST_CONSUMED_RATE: what the puts feel of it, how far
    the consumer falls behind, and how long it takes to come back."""
    ticks = max(int(seconds * TICKS_A_SECOND), 1)
    each = BURST_RATE // TICKS_A_SECOND
    count, taken, is_done = ticks * each, list[int](), threading.Event()
    batch_size = BURST_CONSUMED_RATE // TICKS_A_SECOND
    due_s = [0.0]

    def listen(messages: list[ReceivedMessage]) -> None:
        due_s[0] = max(due_s[0] + len(messages) / BURST_CONSUMED_RATE, time.perf_counter() - 1 / TICKS_A_SECOND)
        taken.extend(number_of(message.body) for message in messages)
        if len(taken) >= count:
            is_done.set()
        time.sleep(max(0.0, due_s[0] - time.perf_counter()))

    with new_store(folder) as store, burst_consumer(store, listen, batch_size) as consumer:
        backlog, put_ns = list[tuple[float, int]](), list[int]()
        numbers, has_ended, began_s = itertools.count(), threading.Event(), time.perf_counter()

        def sample() -> None:
            while not has_ended.wait(SAMPLE_S):
                backlog.append((time.perf_counter() - began_s, sum(consumer.lag().values())))

        def put_some() -> None:
            for number in itertools.islice(numbers, each):
                before_ns = time.perf_counter_ns()
                store.put(Message(TOPIC, body_of(number), queue_id=number % QUEUES))
                put_ns.append(time.perf_counter_ns() - before_ns)

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            pace(ticks, TICKS_A_SECOND, put_some)
            put_s = time.perf_counter() - began_s
            await_all(is_done, lambda: f"{count - len(taken):,} of {count:,} messages have not come")
            drained_s = time.perf_counter() - began_s
        finally:
            has_ended.set()
            sampler.join()
    if sorted(taken) != list(range(count)):
        raise AssertionError(f"{count} messages were put, {len(taken)} came, {len(set(taken))} of them different")
    p50, p99 = (np.percentile(put_ns, (50, 99)) / 1e3).tolist()
    rows = [
        {
            "messages": count,
            "put a second": count / put_s,
            "put p50 µs": p50,
            "put p99 µs": p99,
            "most behind": max((behind for _, behind in backlog), default=0),
            "taken a second": count / drained_s,
            "drained after s": drained_s,
        }
    ]
    title = f"A burst of {BURST_RATE:,} a second, a consumer that takes {BURST_CONSUMED_RATE:,}"
    return Part("burst", title, rows, {"behind": [list(sample) for sample in backlog]})
