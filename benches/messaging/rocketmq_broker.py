"""RocketMQ's broker and its Java client, a process each, on the loads of the messaging benchmark.

`--rocketmq FOLDER` names a folder with the jars of `org.apache.rocketmq:rocketmq-broker` and `rocketmq-client` and what
they need. A broker for each flush mode and the client are started with the first case that needs them, and stay warm.
"""

from __future__ import annotations

import itertools
import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flightlog.benches.loads import BODY_SIZE
from flightlog.benches.messaging.contenders import queues_for
from flightlog.store.errors import UsageError
from flightlog.store.settings import FlushMode
from flightlog.tools.bench.java_program import JavaProgram
from flightlog.tools.bench.rocketmq import read_latencies

PROGRAM = Path(__file__).with_name("RocketmqMessaging.java")
JARS = ("rocketmq-broker-*.jar", "rocketmq-client-*.jar")
MEMORY = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")
PULL, POP = "PULL", "POP"
WARM_COUNT = 20_000


def why_not(folder: Path | None) -> str | None:
    """Why RocketMQ is left out, in a sentence; None if it is not. Raises UsageError for a folder without its jars."""
    if folder is None:
        return "RocketMQ is left out: --rocketmq FOLDER names a folder with the jars of its broker and client"
    for jar in JARS:
        if not list(folder.glob(jar)):
            raise UsageError(f"--rocketmq {folder}: there is no {jar}; see docs/performance.md")
    if shutil.which("java") is None:
        return "RocketMQ is left out: there is no java on the PATH; install a JDK, 11 or newer"
    return None


class RocketmqMessaging:
    """A context manager: the processes end with it."""

    def __init__(self, jars: Path, folder: Path | None = None, *, warm_count: int = WARM_COUNT) -> None:
        """The stores come into a folder below `folder`, by default the temporary one, which is removed at the end.
        `warm_count`: messages that warm the processes up."""
        self._jars, self._folder, self._warm_count = jars, folder, warm_count
        self._running, self._numbers = ExitStack(), itertools.count()
        self._place: Path | None = None
        self._brokers: dict[FlushMode, JavaProgram] = {}
        self._client: JavaProgram | None = None

    def run(
        self, way: str, mode: FlushMode, members: int, folder: Path, *, count: int, rate: int = 0
    ) -> tuple[np.ndarray, float]:
        """The latencies of `count` messages (ns), and how long it took to receive them (s). Without a rate they are
        there before the clock starts."""
        if mode not in self._brokers:
            self._start(mode)
            self.run(way, mode, 1, folder, count=self._warm_count)
        assert self._client is not None
        topic = f"bench-{next(self._numbers)}"
        order = f"topic {topic} {queues_for(members)} {way}"
        address = self._brokers[mode].ask(order)["address"]
        latencies = folder / "latencies"
        words = [address, topic, members, way, count, rate, BODY_SIZE, latencies]
        seconds: float = self._client.ask(" ".join(["run", *map(str, words)]))["seconds"]
        return read_latencies(latencies), seconds

    def _start(self, mode: FlushMode) -> None:
        if self._place is None:
            self._place = Path(
                self._running.enter_context(TemporaryDirectory(prefix="flightlog-bench-", dir=self._folder))
            )
        if self._client is None:
            self._client = self._program("client")
        flush = f"{mode.name}_FLUSH"
        self._brokers[mode] = self._program("broker", str(self._place / flush), flush)

    def _program(self, *arguments: str) -> JavaProgram:
        program = JavaProgram(self._jars, PROGRAM, MEMORY, *arguments)
        assert self._place is not None
        self._running.enter_context(program.running(self._place))
        return program

    def __enter__(self) -> RocketmqMessaging:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
