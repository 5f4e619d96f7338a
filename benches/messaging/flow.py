"""From put to listener: latency, throughput, and a burst that exceeds the consumer's rate. Latency and throughput are
compared with a queue in a SQLite table, and with RocketMQ's broker and client.

Producer and consumers are threads of one process, as in an application that embeds the store. They share the GIL, so
the producer takes time from the consumers. RocketMQ's client is a process, too; its broker is another one.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flightlog.benches.loads import BODY_SIZE, await_all, body_of, load, number_of, pace, percentiles, stamped
from flightlog.benches.messaging.contenders import (
    GROUP,
    LIST,
    POLL_S,
    QUEUES,
    TOPIC,
    Opened,
    in_sqlite,
    new_store,
    popping,
    pulling,
)
from flightlog.benches.messaging.rocketmq_broker import POP, PULL, RocketmqMessaging
from flightlog.consume.consumer import Consumer
from flightlog.consume.deliver.received import ReceivedMessage
from flightlog.store.message import Message
from flightlog.store.settings import FlushMode
from flightlog.tools.bench import plot
from flightlog.tools.bench.case import MAPPED, OWN, Case, Draw, Sample
from flightlog.tools.bench.drive import in_threads

SQLITE = "SQLite table"
LATENCY = f"From put to listener, {BODY_SIZE} bytes"
BACKLOG = "A backlog that is worked off, acknowledgements included"
MEMBERS = (1, 4, 16, 64)
ONE_BY_ONE, LISTS, POPS = f"{OWN}, one by one", f"{OWN}, lists of {LIST}", f"{OWN}, pop"
WOKEN, POLLED = f"{SQLITE}, woken", f"{SQLITE}, polled each {POLL_S * 1e3:g} ms"
CONTENDERS: Mapping[str, Opened] = {
    ONE_BY_ONE: partial(pulling, 1),
    LISTS: partial(pulling, LIST),
    POPS: popping,
    WOKEN: partial(in_sqlite, None),
    POLLED: partial(in_sqlite, POLL_S),
}
Measure = Callable[[int, Path], Sample]
"""(members, folder) -> sample"""
THEIRS = {f"{MAPPED}, one by one": PULL, f"{MAPPED}, pop": POP}
TICKS_A_SECOND = 100
BURST_RATE, BURST_CONSUMED_RATE = 50_000, 2_000
BURST = f"A burst of {BURST_RATE:,} a second, a consumer that takes {BURST_CONSUMED_RATE:,}"
SAMPLE_S = 0.05


def latency_cases(
    mode: FlushMode, members: Sequence[int], rate: int, seconds: float, rocketmq: RocketmqMessaging | None = None
) -> list[Case]:
    """One producer with evenly spaced puts, and a group of consumers."""
    count = max(int(rate * seconds), 10)
    kinds: dict[str, Measure] = {
        who: partial(latency, opened, mode, rate=rate, count=count)
        for who, opened in CONTENDERS.items()
        if who != LISTS
    }
    if rocketmq is not None:
        for who, way in THEIRS.items():
            kinds[who] = partial(their_latency, rocketmq, way, mode, rate=rate, count=count)
    task = f"{LATENCY}, {rate:,} a second, {mode.name.lower()} flush, ms: p50, and p99 dotted"
    return _cases(kinds, members, task, _draw_percentiles)


def throughput_cases(members: Sequence[int], count: int, rocketmq: RocketmqMessaging | None = None) -> list[Case]:
    """A group consumes a backlog, each member in its own thread; of SQLite's tenth of it."""
    kinds: dict[str, Measure] = {
        who: partial(work_off, CONTENDERS[who], count=count) for who in (ONE_BY_ONE, LISTS, POPS)
    }
    kinds[WOKEN] = partial(work_off, CONTENDERS[WOKEN], count=max(count // 10, 1))
    if rocketmq is not None:
        kinds |= {who: partial(their_work_off, rocketmq, way, count=count) for who, way in THEIRS.items()}
    return _cases(kinds, members, BACKLOG, _draw_throughput)


def _cases(kinds: Mapping[str, Measure], members: Sequence[int], task: str, draw: Draw) -> list[Case]:
    return [
        load(f"{who}, {number} consumers", task, partial(measure, number), draw)
        for number in members
        for who, measure in kinds.items()
    ]


def _draw_percentiles(axes: Any, series: Mapping[str, Sequence[float]]) -> None:
    for percentile, style in ((50, "-"), (99, ":")):
        plot.lines(axes, points_of(series, percentile), "consumers", "ms", style, is_log=True)


def _draw_throughput(axes: Any, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    plot.lines(axes, points_of(series), "consumers", "messages a second", is_log=True)


def latency(opened: Opened, mode: FlushMode, members: int, folder: Path, *, rate: int, count: int) -> Sample:
    latencies_ns, is_done = list[int](), threading.Event()

    def take(bodies: Sequence[bytes]) -> None:
        now_ns = time.perf_counter_ns()
        latencies_ns.extend(now_ns - number_of(body) for body in bodies)
        if len(latencies_ns) == whole:
            is_done.set()

    first = _first_count(count)
    whole = first + count
    with opened(folder, mode, members, take) as rig:
        rig.start()
        pace(whole, rate, lambda: rig.put(stamped()))
        await_all(is_done, lambda: f"{whole - len(latencies_ns):,} of {whole:,} messages have not come")
    return sample_of(latencies_ns[first:], count / rate)


def _first_count(count: int) -> int:
    """Messages that come before those that count: a group's first ones create files."""
    return max(count // 5, 10)


def their_latency(
    rocketmq: RocketmqMessaging, way: str, mode: FlushMode, members: int, folder: Path, *, rate: int, count: int
) -> Sample:
    first = _first_count(count)
    latencies_ns, _ = rocketmq.run(way, mode, members, folder, count=first + count, rate=rate)
    return sample_of(latencies_ns[first:], count / rate)


def sample_of(latencies_ns: Sequence[int] | np.ndarray, seconds: float, **figures: float) -> Sample:
    """The sample of received messages, with percentiles and a plot of all latencies."""
    ms = np.sort(np.array(latencies_ns) / 1e6)
    told = {"messages": len(ms), **percentiles(ms, "ms"), **figures}
    return Sample(len(ms), seconds, seconds, figures=told, series=ms.tolist())


def points_of(series: Mapping[str, Sequence[Any]], percentile: float | None = None) -> dict[str, list[Any]]:
    """A line in the plot for each kind of case, with a point for each case: the one that its series is, or the
    percentile of the values in it, by the number of consumers."""
    found: dict[str, list[Any]] = {}
    for who, values in series.items():
        kind, _, last = who.rpartition(", ")
        points = values if percentile is None else [(int(last.split()[0]), float(np.percentile(values, percentile)))]
        found.setdefault(kind, []).extend(points)
    return found


def work_off(opened: Opened, members: int, folder: Path, *, count: int) -> Sample:
    taken, is_done, ended_s = itertools.count(1), threading.Event(), [0.0]

    def take(bodies: Sequence[bytes]) -> None:
        for _ in bodies:
            if next(taken) == count:
                ended_s[0] = time.perf_counter()
                is_done.set()

    with opened(folder, FlushMode.ASYNC, members, take) as rig:
        for first in range(0, count, 1000):
            rig.put_many([body_of(number) for number in range(first, min(first + 1000, count))])
        began_s = time.perf_counter()
        rig.start()
        await_all(is_done, lambda: f"{members} consumers have not taken {count:,} messages")
    return throughput(members, count, ended_s[0] - began_s)


def their_work_off(rocketmq: RocketmqMessaging, way: str, members: int, folder: Path, *, count: int) -> Sample:
    return throughput(members, count, rocketmq.run(way, FlushMode.ASYNC, members, folder, count=count)[1])


def throughput(members: int, count: int, seconds: float) -> Sample:
    rate = count / seconds
    return Sample(count, seconds, seconds, figures={"messages": count, "messages/s": rate}, series=[(members, rate)])


def burst_case(seconds: float) -> Case:
    return load(OWN, BURST, partial(burst, seconds), _draw_backlog)


def _draw_backlog(axes: Any, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    plot.lines(axes, series, "s since the burst began", "messages behind")


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
