"""Many long polls: their CPU cost while they wait, and the latency of a wake-up."""

from __future__ import annotations

import gc
import random
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from flightlog.benches.loads import LIMIT_S, await_all, load, number_of, pace, stamped
from flightlog.benches.messaging.flow import sample_of
from flightlog.engine.message_store import open_store
from flightlog.engine.services.long_polls import DEFAULT_WAIT_S, MAX_WAIT_S
from flightlog.store.errors import StoreClosedError
from flightlog.store.get_result import GetResult
from flightlog.store.message import Message
from flightlog.store.settings import StoreSettings
from flightlog.tools.bench.case import OWN, Case, Sample
from flightlog.tools.bench.plot import curves

PULLS, QUEUES_A_TOPIC = 10_000, 10
WOKEN = 500
"""Queues that get messages. Each has one message before, because the first message of a queue creates its files."""
WAKES_A_SECOND = 200
SEED = 7


TASK = "Pulls that wait, and how long after its put a message has woken one"


def pulls_case(count: int, seconds: float) -> Case:
    return load(OWN, TASK, partial(pulls, count, seconds), curves("ms"))


class Pullers:
    """Long polls, each on its own queue. The callback of a poll starts the next one."""

    def __init__(self, folder: Path, count: int, first_end_s: float) -> None:
        self.store = open_store(folder, StoreSettings(key_index=False))
        self.count, self.latencies_ns, self.renewed = count, list[int](), 0
        self.store.put_many([self._message(number) for number in range(min(WOKEN, count))])
        dice = random.Random(SEED)
        for number in range(count):  # spread the timeouts, so that they do not all end together
            wait_s = dice.uniform(first_end_s, min(first_end_s + DEFAULT_WAIT_S, MAX_WAIT_S))
            self._pull(number, int(number < WOKEN), wait_s)

    def queue(self, number: int) -> tuple[str, int]:
        return f"bench-{number // QUEUES_A_TOPIC}", number % QUEUES_A_TOPIC

    def _pull(self, number: int, queue_offset: int, wait_s: float = DEFAULT_WAIT_S) -> None:
        answer = self.store.pull(*self.queue(number), queue_offset, wait_s=wait_s)
        answer.add_done_callback(lambda answer: self._go_on(number, answer))

    def _go_on(self, number: int, answer: Future[GetResult]) -> None:
        now_ns = time.perf_counter_ns()
        try:
            found = answer.result(0)
            self._pull(number, found.next_queue_offset)
        except StoreClosedError:
            return
        self.latencies_ns += (now_ns - number_of(message.body) for message in found.messages)
        self.renewed += not found.messages

    def cpu_share(self, seconds: float) -> tuple[float, float]:
        """CPU share of this process, and restarted polls a second, over a duration."""
        renewed, cpu_s, began_s = self.renewed, time.process_time(), time.perf_counter()
        time.sleep(seconds)
        took_s = time.perf_counter() - began_s
        return (time.process_time() - cpu_s) / took_s, (self.renewed - renewed) / took_s

    def put(self, number: int) -> None:
        self.store.put(self._message(number))

    def _message(self, number: int) -> Message:
        topic, queue_id = self.queue(number)
        return Message(topic, stamped(), queue_id=queue_id)


def pulls(count: int, seconds: float, folder: Path) -> Sample:
    """Long polls on as many queues: the CPU of the process while none ends, and while each times out after
    DEFAULT_WAIT_S and is restarted; then the latency of waking them one by one, and all polls of a queue at once."""
    settling_s = min(1.0, seconds)
    pullers = Pullers(folder / "apart", count, seconds + 2 * settling_s)
    with pullers.store as store:
        store.flush()
        gc.collect()
        time.sleep(settling_s)  # let the last flushes finish
        waiting, _ = pullers.cpu_share(seconds)
        time.sleep(2 * settling_s)
        renewing, renewals = pullers.cpu_share(seconds)
        dice, wakes = random.Random(SEED), max(int(WAKES_A_SECOND * seconds), 10)
        pace(wakes, WAKES_A_SECOND, lambda: pullers.put(dice.randrange(min(WOKEN, count))))
        await_all(lambda: len(pullers.latencies_ns) >= wakes, lambda: f"of {wakes} messages some woke no pull")
    figures = {"pulls that wait": count, "% CPU": 100 * waiting, "% CPU renewed": 100 * renewing}
    figures |= {"renewals a second": renewals, "all of one queue ms": _all_at_once(folder, count)}
    return sample_of(pullers.latencies_ns, seconds, **figures)


def _all_at_once(folder: Path, count: int) -> float:
    """The time from a put until the last of `count` polls of the queue is answered."""
    ended_ns = list[int]()
    with open_store(folder / "together", StoreSettings(key_index=False)) as store:
        waiting = [store.pull("bench", 0, 0, wait_s=MAX_WAIT_S) for _ in range(count)]
        for answer in waiting:
            answer.add_done_callback(lambda answer: ended_ns.append(time.perf_counter_ns()))
        began_ns = time.perf_counter_ns()
        store.put(Message("bench", stamped()))
        for answer in waiting:
            answer.result(LIMIT_S)
    return (max(ended_ns) - began_ns) / 1e6
