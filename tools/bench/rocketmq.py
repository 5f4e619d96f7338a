"""Apache RocketMQ's own store on the same messages: a Java program that runs as long as the bench, to stay warm.

`--versus rocketmq=FOLDER` names a folder with the jars of `org.apache.rocketmq:rocketmq-store` and what it needs, as
`mvn dependency:copy-dependencies` leaves them. The program is one source file, compiled by `java` itself. It puts the
messages of a case; reads and queries a copy of the files that this store's cases read, because it writes to every store
that it opens; and recovers the store that its own killed writer left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...store.settings import StoreSettings
from .case import MAPPED, NONE, POOL, Case, Sample, Work
from .java_program import JavaProgram, check_jars
from .messages import KEPT, QUEUES
from .reads.reads import QUERY, READ, READ_BATCH, READ_FIELDS, kept_store
from .reads.recover import RECOVER, copied, settings_of
from .writers import first_calls, first_threads, free_memory_for

PROGRAM = Path(__file__).with_name("RocketmqBench.java")
WARM_COUNT, QUICK_WARM_COUNT = 1_000_000, 50_000
ROUND_OVERHEAD_S = 4.0
"""A clean shutdown of RocketMQ waits for seconds."""
MEMORY = ("-Xmx4g", "-XX:MaxDirectMemorySize=8g")
READ_COUNT = 32
"""Messages per call: RocketMQ's limit."""
READ_MANY = f"read, {READ_COUNT} a call"
RIVALS = {READ: READ, READ_FIELDS: READ, READ_BATCH: READ_MANY, QUERY: QUERY, RECOVER: RECOVER}
"""Task of this store -> task of RocketMQ to compare it with."""


def check_store_jars(option: str, folder: Path) -> None:
    """Raises UsageError if there is no Java, or no RocketMQ store in the folder."""
    check_jars(option, folder, ["rocketmq-store"])


class Rocketmq:
    """Cases of the program, which can be made before it runs."""

    def __init__(self, jars: Path) -> None:
        self._jars, self._program = jars, JavaProgram(jars, PROGRAM, MEMORY)
        self._ask = self._program.ask

    @contextmanager
    def running(self, folder: Path, warm_count: int) -> Iterator[None]:
        """Run the program, warmed up by this many puts."""
        with self._program.running(folder) as home:
            if warm_count:
                with TemporaryDirectory(dir=home) as place:
                    self.put(Path(place), self.put_case(calls=warm_count, first_calls=1), stamps=False)
            yield

    def put_case(self, *, pool: bool = False, **fields: Any) -> Case:
        """Puts in one of its two modes; `fields` are those of Case."""
        return Case(POOL if pool else MAPPED, prepare=self._putting, needs_disk=fields.get("sync", False), **fields)

    def cases(self, tasks: Iterable[str], body_size: int, count: int) -> list[Case]:
        """RocketMQ's cases to compare with these tasks of this store."""
        prepares = {READ: self._reading, READ_MANY: self._reading, QUERY: self._asking, RECOVER: self._recovering}
        names = dict.fromkeys(RIVALS[task] for task in tasks if task in RIVALS)
        return [Case(MAPPED, name, body_size, prepare=prepares[name], calls=count) for name in names]

    @contextmanager
    def _putting(self, case: Case, folder: Path) -> Iterator[Work]:
        with TemporaryDirectory(dir=folder) as place:
            free_memory_for(case)
            yield lambda stamps: self.put(Path(place), case, stamps=stamps)

    def put(self, place: Path, case: Case, *, stamps: bool) -> Sample:
        """Run one round; its first calls come from other threads before the clock starts. Latencies come in a file."""
        latencies, first = place / "latencies", (first_calls(case), first_threads(case))
        words = ["put", str(place / "store"), "SYNC_FLUSH" if case.sync else "ASYNC_FLUSH"]
        words.append("pool" if case.who == POOL else "mapped")
        words += map(str, (case.body_size, QUEUES, case.batch, case.threads, case.calls, *first, case.rate or 0))
        found = self._ask(" ".join([*words, str(latencies) if stamps or case.rate else "-"]))
        times = found["drained_ns"] / 1e9, found["put_ns"] / 1e9, read_latencies(latencies)
        return Sample(case.count, *times, device_size=found["device_size"])

    @contextmanager
    def _opened_copy(self, case: Case, folder: Path) -> Iterator[Path]:
        with copied(kept_store(case, folder)) as store:
            self._ask(_open("open", store, KEPT))
            try:
                yield store
            finally:
                self._ask("close")

    @contextmanager
    def _reading(self, case: Case, folder: Path) -> Iterator[Work]:
        with self._opened_copy(case, folder):
            yield lambda stamps: self._read(case, 1 if case.task == READ else READ_COUNT)

    def _read(self, case: Case, a_call: int) -> None:
        found = self._ask(f"read {QUEUES} {a_call}")["messages"]
        if found != case.count:
            raise RuntimeError(f"RocketMQ read {found} messages, expected {case.count}")

    @contextmanager
    def _asking(self, case: Case, folder: Path) -> Iterator[Work]:
        with self._opened_copy(case, folder) as store:
            latencies = store / "latencies"

            def work(stamps: bool) -> np.ndarray:
                found = self._ask(f"query {case.count} {latencies}")["messages"]
                if found != case.count:
                    raise RuntimeError(f"RocketMQ found {found} of {case.count} keys")
                return read_latencies(latencies)

            yield work

    @contextmanager
    def _recovering(self, case: Case, folder: Path) -> Iterator[Work]:
        """load() and start() until everything is dispatched."""
        with copied(self._killed_store(case, folder)) as store:
            order = _open("open", store, settings_of(case.body_size, case.count))

            def work(stamps: bool) -> None:
                self._ask(order)

            yield work
            self._read(case, READ_COUNT)
            self._ask("close")

    def _killed_store(self, case: Case, folder: Path) -> Path:
        path = folder / f"killed-rocketmq-{case.body_size}-{case.count}"
        if not path.exists():
            order = _open("fill", path, settings_of(case.body_size, case.count))
            writer = Rocketmq(self._jars)
            with writer.running(folder, 0):
                writer._ask(f"{order} {case.body_size} {QUEUES} {case.count}")
                writer._program.kill()
        return path


def _open(order: str, store: Path, settings: StoreSettings) -> str:
    return f"{order} {store} {settings.segment_size} {settings.queue_file_entries}"


def read_latencies(path: Path) -> np.ndarray:
    return np.fromfile(path, ">i8").astype(np.int64) if path.exists() else NONE
