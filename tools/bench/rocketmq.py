"""Apache RocketMQ's own store on the same messages: a Java program that lives as long as the run, so that it is warm.

`--versus rocketmq=FOLDER` names a folder with the jars of `org.apache.rocketmq:rocketmq-store` and what it needs, as
`mvn dependency:copy-dependencies` leaves them. The program is one file of source that `java` itself compiles.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np

from ...store.errors import FlightlogError, UsageError
from ...store.settings import StoreSettings
from .cases.workloads import QUEUES
from .loads.load import Load, Round

MAPPED, POOL = "RocketMQ", "RocketMQ, transient pool"
PROGRAM = Path(__file__).with_name("RocketmqBench.java")
STORE_JAR = "rocketmq-store-*.jar"
WARM_COUNT = 1_000_000
QUICK_WARM_COUNT = 50_000
ROUND_OVERHEAD_S = 4.0
"""Its clean shutdown waits for seconds."""
MEMORY = ("-Xmx4g", "-XX:MaxDirectMemorySize=8g")
OPENED_PACKAGES = ("java.nio", "sun.nio.ch", "jdk.internal.ref")
"""Of Java's own: RocketMQ's transient pool reaches for them."""


class RocketmqEndedError(FlightlogError):
    """The Java program ended; what it said before is on stderr."""


def is_rocketmq(load: Load) -> bool:
    return load.writer in (MAPPED, POOL)


def check_jars(folder: Path) -> None:
    """Raises UsageError without a Java, or where the folder holds no RocketMQ store."""
    if not list(folder.glob(STORE_JAR)):
        raise UsageError(
            f"--versus rocketmq={folder}: no {STORE_JAR} there; `mvn dependency:copy-dependencies` of "
            "org.apache.rocketmq:rocketmq-store:5.3.3 leaves such a folder"
        )
    if shutil.which("java") is None:
        raise UsageError(f"--versus rocketmq={folder}: there is no java on the PATH; install a JDK, 11 or newer")


class RocketmqProcess:
    """The program, as a context; orders and answers are lines of JSON."""

    def __init__(self, jars: Path, folder: Path, warm_count: int) -> None:
        self.jars, self._folder = jars, folder
        home = folder / "java-home"
        home.mkdir()
        opens = [
            f"--add-{how}=java.base/{name}=ALL-UNNAMED" for name in OPENED_PACKAGES for how in ("opens", "exports")
        ]
        places = [f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", "-cp", f"{jars}/*"]
        command = ["java", *MEMORY, *opens, *places, str(PROGRAM)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if warm_count:
            self._ask(f"warm {home / 'warm'} {warm_count}")

    def run(self, place: Path, load: Load, calls: int, first_calls: int, first_threads: int, *, stamps: bool) -> Round:
        """One round of a load, its first calls by threads of their own before the clock starts; latencies come in a
        file."""
        latencies = place / "latencies"
        words = [
            "put",
            str(place / "store"),
            "SYNC_FLUSH" if load.sync else "ASYNC_FLUSH",
            "pool" if load.writer == POOL else "mapped",
            *map(str, (load.body_size, QUEUES, load.batch, load.threads, calls, first_calls, first_threads)),
            str(load.rate or 0),
            str(latencies) if stamps or load.rate else "-",
        ]
        told = self._ask(" ".join(words))
        found = _read_latencies(latencies)
        times = told["drained_ns"] / 1e9, told["put_ns"] / 1e9, found
        return Round(calls * load.batch, *times, device_size=told["device_size"])

    @contextmanager
    def opened(self, store: Path, settings: StoreSettings) -> Iterator[None]:
        """A store that is there: RocketMQ writes to it, as it does wherever it opens."""
        self.open(store, settings)
        try:
            yield
        finally:
            self.close()

    def open(self, store: Path, settings: StoreSettings) -> None:
        """Return when it is recovered, and everything dispatched."""
        self._ask(f"open {store} {settings.segment_size} {settings.queue_file_entries}")

    def fill(self, store: Path, settings: StoreSettings, body_size: int, count: int) -> None:
        """Make a store of so many messages, and leave it open."""
        self._ask(f"fill {store} {settings.segment_size} {settings.queue_file_entries} {body_size} {QUEUES} {count}")

    def kill(self) -> None:
        """As the machine would: whatever is open stays as it is."""
        self._process.kill()

    def close(self) -> None:
        self._ask("close")

    def read(self, a_call: int) -> int:
        """Read and decode every message of the open store; returns how many there are."""
        return self._ask(f"read {QUEUES} {a_call}")["messages"]

    def query(self, count: int) -> np.ndarray:
        """Ask for each of the first `count` keys; returns the latencies (ns, int64)."""
        latencies = self._folder / "latencies"
        found = self._ask(f"query {count} {latencies}")["messages"]
        if found != count:
            raise RuntimeError(f"RocketMQ found {found} of {count} keys")
        return _read_latencies(latencies)

    def _ask(self, order: str) -> dict[str, int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells it
        answer = self._process.stdout.readline()
        if not answer:
            raise RocketmqEndedError(f"RocketMQ's program ended, see above; it was told: {order}")
        found: dict[str, int] = json.loads(answer)
        return found

    def __enter__(self) -> RocketmqProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def _read_latencies(path: Path) -> np.ndarray:
    return np.fromfile(path, ">i8").astype(np.int64) if path.exists() else np.empty(0, np.int64)
