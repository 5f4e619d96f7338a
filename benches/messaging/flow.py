"""From put to listener: latency, throughput, and a burst that exceeds the consumer's rate. Latency and throughput are
compared with a queue in a SQLite table.

Producer and consumers are threads of one process, as in an application that embeds the store. They share the GIL, so
the producer takes time from the consumers.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from flightlog.benches.loads import BODY_SIZE, await_all, body_of, load, number_of, pace, percentiles, stamped
from flightlog.benches.messaging.sqlite_queue import SqliteQueue
from flightlog.consume.consumer import Consumer
from flightlog.consume.deliver.received import ReceivedMessage
from flightlog.consume.group.initial_offset import StartFrom
from flightlog.consume.store import Store, open_store
from flightlog.store.message import Message
from flightlog.store.settings import FlushMode, StoreSettings
from flightlog.tools.bench.case import OWN, Case, Sample
from flightlog.tools.bench.drive import in_threads

TOPIC, GROUP, QUEUES = "bench", "bench", 16
SQLITE = "SQLite table"
LATENCY = f"From put to listener, {BODY_SIZE} bytes"
BACKLOG = "A backlog that is worked off, acknowledgements included"
TICKS_A_SECOND = 100
BURST_RATE, BURST_CONSUMED_RATE = 50_000, 2_000
BURST = f"A burst of {BURST_RATE:,} a second, a consumer that takes {BURST_CONSUMED_RATE:,}"
SAMPLE_S = 0.05


def new_store(folder: Path, mode: FlushMode = FlushMode.ASYNC) -> Store:
    settings = StoreSettings(flush_mode=mode, segment_size=256 << 20, key_index=False, default_queue_count=QUEUES)
    store = open_store(folder / "store", settings)
    store.create_topic(TOPIC, QUEUES)
    return store


def latency_cases(rate: int, seconds: float) -> list[Case]:
    """One producer with evenly spaced puts and one consumer thread; the same with a SQLite queue."""
    count = max(int(rate * seconds), 10)
    return [
        load(f"{who}, {mode.name.lower()}, {rate:,} a second", LATENCY, partial(measure, mode, rate, count))
        for who, measure in ((OWN, latency), (SQLITE, sqlite_latency))
        for mode in FlushMode
    ]


def latency(mode: FlushMode, rate: int, count: int, folder: Path) -> Sample:
    latencies_ns, is_done = list[int](), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        latencies_ns.append(time.perf_counter_ns() - number_of(message.body))
        if len(latencies_ns) == count:
            is_done.set()

    with new_store(folder, mode) as store:
        store.put(Message(TOPIC, stamped(), queue_id=0))  # a first put creates files
        with Consumer(store, TOPIC, GROUP, listen, threads=1, start=StartFrom.LAST):
            pace(count, rate, lambda: store.put(Message(TOPIC, stamped(), queue_id=None)))
            await_all(is_done, lambda: f"{count - len(latencies_ns):,} of {count:,} messages have not come")
    return sample_of(latencies_ns, count / rate)


def sqlite_latency(mode: FlushMode, rate: int, count: int, folder: Path) -> Sample:
    latencies_ns = list[int]()
    with SqliteQueue(folder / "queue.sqlite", is_sync=mode is FlushMode.SYNC) as queue:

        def consume() -> None:
            for _ in range(count):
                with queue.taken() as body:
                    latencies_ns.append(time.perf_counter_ns() - number_of(body))

        in_threads([consume, lambda: pace(count, rate, lambda: queue.put(stamped()))])
    return sample_of(latencies_ns, count / rate)


def sample_of(latencies_ns: Sequence[int], seconds: float, **figures: float) -> Sample:
    """The sample of received messages, with percentiles and a plot of all latencies."""
    ms = np.sort(np.array(latencies_ns) / 1e6)
    told = {"messages": len(ms), **percentiles(ms, "ms"), **figures}
    return Sample(len(ms), seconds, seconds, figures=told, series=ms.tolist())


def throughput_cases(consumers: Sequence[int], count: int) -> list[Case]:
    """A group consumes a backlog, each member in its own thread; the same with a SQLite queue."""
    fewer = max(count // 10, 1)
    kinds: list[tuple[str, Callable[[int, int, Path], Sample], int]] = [
        (f"{OWN}, one by one", partial(work_off, 1), count),
        (f"{OWN}, lists of 32", partial(work_off, 32), count),
        (SQLITE, sqlite_work_off, fewer),
    ]
    return [
        load(f"{kind}, {members} consumers", BACKLOG, partial(measure, members, messages))
        for kind, measure, messages in kinds
        for members in consumers
    ]


def points_of(series: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """A line in the plot for each kind of case, with a point for each case."""
    found: dict[str, list[tuple[float, float]]] = {}
    for who, points in series.items():
        found.setdefault(who.rpartition(", ")[0], []).extend(points)
    return found


def work_off(batch_size: int, members: int, count: int, folder: Path) -> Sample:
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
        group = [Consumer(store, TOPIC, GROUP, listener, threads=1, batch_size=batch_size) for _ in range(members)]
        for each in group:
            each.start()
        for each in group:  # all members have their queues
            each.pause()
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            store.put_many([Message(TOPIC, body_of(n), queue_id=n % QUEUES) for n in numbers])
        began_s = time.perf_counter()
        for each in group:
            each.resume()
        await_all(is_done, lambda: f"{members} consumers have not taken {count:,} messages")
        for each in group:
            each.close()
        left = count - sum(store.group_offsets(GROUP, TOPIC).values())
    if left:
        raise AssertionError(f"{left} of {count} messages were taken and not acknowledged")
    return _throughput(members, count, ended_s[0] - began_s)


def sqlite_work_off(members: int, count: int, folder: Path) -> Sample:
    with SqliteQueue(folder / "queue.sqlite", is_sync=False) as queue:
        queue.put_many([body_of(n) for n in range(count)])

        def consume(share: int) -> None:
            for _ in range(share):
                with queue.taken():
                    pass

        began_s = time.perf_counter()
        in_threads([partial(consume, len(range(member, count, members))) for member in range(members)])
        return _throughput(members, count, time.perf_counter() - began_s)


def _throughput(members: int, count: int, seconds: float) -> Sample:
    rate = count / seconds
    return Sample(count, seconds, seconds, figures={"messages": count, "messages/s": rate}, series=[(members, rate)])


def burst(seconds: float, folder: Path) -> Sample:
    """BURST_RATE puts a second with a consumer limited to BURST_CONSUMED_RATE: the latency of the puts, the highest lag
    of the consumer, and the time until it has caught up."""
    ticks = max(int(seconds * TICKS_A_SECOND), 1)
    each = BURST_RATE // TICKS_A_SECOND
    count, taken, is_done = ticks * each, list[int](), threading.Event()
    due_s = [0.0]

    def listen(messages: list[ReceivedMessage]) -> None:
        due_s[0] = max(due_s[0] + len(messages) / BURST_CONSUMED_RATE, time.perf_counter() - 1 / TICKS_A_SECOND)
        taken.extend(number_of(message.body) for message in messages)
        if len(taken) >= count:
            is_done.set()
        time.sleep(max(0.0, due_s[0] - time.perf_counter()))

    batch_size = BURST_CONSUMED_RATE // TICKS_A_SECOND
    with (
        new_store(folder) as store,
        Consumer(store, TOPIC, GROUP, listen, threads=1, batch_size=batch_size) as consumer,
    ):
        backlog, put_ns = list[tuple[float, int]](), list[int]()
        numbers, has_ended, began_s = itertools.count(), threading.Event(), time.perf_counter()

        def look() -> None:
            while not has_ended.wait(SAMPLE_S):
                backlog.append((time.perf_counter() - began_s, sum(consumer.lag().values())))

        def put_some() -> None:
            for number in itertools.islice(numbers, each):
                before_ns = time.perf_counter_ns()
                store.put(Message(TOPIC, body_of(number), queue_id=number % QUEUES))
                put_ns.append(time.perf_counter_ns() - before_ns)

        def put_and_wait() -> tuple[float, float]:
            try:
                pace(ticks, TICKS_A_SECOND, put_some)
                put_s = time.perf_counter() - began_s
                await_all(is_done, lambda: f"{count - len(taken):,} of {count:,} messages have not come")
                return put_s, time.perf_counter() - began_s
            finally:
                has_ended.set()

        [(put_s, drained_s), _] = in_threads([put_and_wait, look])  # type: ignore[misc]
    if sorted(taken) != list(range(count)):
        raise AssertionError(f"{count} messages were put, {len(taken)} came, {len(set(taken))} of them different")
    figures = {"messages": count, "put a second": count / put_s}
    figures |= percentiles(np.array(put_ns) / 1e3, "µs a put", (50, 99))
    figures |= {"most behind": max((behind for _, behind in backlog), default=0)}
    figures |= {"taken a second": count / drained_s, "worked off after s": drained_s}
    return Sample(count, drained_s, put_s, figures=figures, series=backlog)
