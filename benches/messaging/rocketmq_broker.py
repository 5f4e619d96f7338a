"""RocketMQ's broker and its Java client, a process each, on the loads of the messaging benchmark.

`--rocketmq FOLDER` names a folder with the jars of `org.apache.rocketmq:rocketmq-broker` and `rocketmq-client` and what
they need. A broker for each flush mode and the client are started with the first case that needs them, and stay warm.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flightlog.benches.loads import BODY_SIZE
from flightlog.benches.messaging.contenders import queues_for
from flightlog.store.settings import FlushMode
from flightlog.tools.bench.java_program import JavaProgram, check_jars
from flightlog.tools.bench.rocketmq import read_latencies

PROGRAM = Path(__file__).with_name("RocketmqMessaging.java")
JARS = ("rocketmq-broker", "rocketmq-client")
MEMORY = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")
PULL, POP = "PULL", "POP"
WARM_COUNT = 20_000


class RocketmqMessaging:
    """A context manager: the processes end with it."""

    def __init__(self, jars: Path, folder: Path | None = None, *, warm_count: int = WARM_COUNT) -> None:
        """The stores come into a folder below `folder`, by default the temporary one, which is removed at the end.
        `warm_count`: messages that warm the processes up. Raises UsageError if there is no Java, or no such jars."""
        check_jars(f"--rocketmq {jars}", jars, JARS)
        self._jars, self._folder, self._warm_count = jars, folder, warm_count
        self._running, self._numbers = ExitStack(), itertools.count()
        self._programs: dict[FlushMode | None, JavaProgram] = {}

    def run(
        self, way: str, mode: FlushMode, members: int, folder: Path, *, count: int, rate: int = 0
    ) -> tuple[np.ndarray, float]:
        """The latencies of `count` messages (ns), and how long it took to receive them (s). Without a rate they are
        there before the clock starts."""
        if mode not in self._programs:
            self._start(mode)
            self.run(way, mode, 1, folder, count=self._warm_count)
        topic, latencies = f"bench-{next(self._numbers)}", folder / "latencies"
        address = self._programs[mode].ask(f"topic {topic} {queues_for(members)} {way}")["address"]
        words = [address, topic, members, way, count, rate, BODY_SIZE, latencies]
        seconds: float = self._programs[None].ask(" ".join(["run", *map(str, words)]))["seconds"]
        return read_latencies(latencies), seconds

    def _start(self, mode: FlushMode) -> None:
        """Start the broker of a flush mode, and, before the first one, the client, which has none."""
        if not self._programs:
            place = TemporaryDirectory(prefix="flightlog-bench-", dir=self._folder)
            self._place = Path(self._running.enter_context(place))
            self._run(None, "client")
        flush = f"{mode.name}_FLUSH"
        self._run(mode, "broker", str(self._place / flush), flush)

    def _run(self, mode: FlushMode | None, *arguments: str) -> None:
        self._programs[mode] = JavaProgram(self._jars, PROGRAM, MEMORY, *arguments)
        self._running.enter_context(self._programs[mode].running(self._place))

    def __enter__(self) -> RocketmqMessaging:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
