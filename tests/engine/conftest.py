"""What the tests of the engine share.

- `clock`: time that a test holds, steps and turns back; `disk`: one that fails when a test says so.
- `nothing_stays`: no thread outlives the test; `interrupt_at`: what interrupts a call somewhere.
- `golden_set`: what RocketMQ wrote into a golden store, and what it read from it, as Python objects.
- `fingerprint`, `watch_opens`: proof that a folder was not touched.
- `copy_as_killed`: what a killed writer would have left behind, while the real one lives on.
- `numbered`, `closed`, `killed`: stores of ours whose messages say which they are.
"""

from __future__ import annotations

import gc
import hashlib
import ipaddress
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, killed_copy, process, unwrapped
from flightlog.tests.support.interrupts import InterruptAt

if TYPE_CHECKING:
    from flightlog import Message, ReadOnlyStore, Store, StoredMessage, StoreSettings
    from flightlog.engine.verify.findings import VerifyReport

    AssertClean = Callable[[Path], VerifyReport]
    Fingerprint = dict[str, tuple[int, int, str]]
    WatchOpens = Callable[[], AbstractContextManager[list[tuple[str, int]]]]

LATER_MS = 1_900_000_000_000
"""A time after that of every golden store, whatever the machine's clock says."""

Key = tuple[str, int]
"""Topic and queue id."""


@dataclass
class ManualClock:
    """A clock that moves only when a test moves it; `step_ms` makes it move at every look."""

    at_ms: int = LATER_MS
    step_ms: int = 0

    def now_ms(self) -> int:
        self.at_ms += self.step_ms
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    """A real disk that a test lets fail, hold or fill up."""
    found: FaultyDisk = FaultyDisk()
    yield found
    found.heal()


@pytest.fixture
def nothing_stays() -> Iterator[None]:
    """No thread outlives the test."""
    threads = process.threads()
    yield
    gc.collect()
    process.wait_until(lambda: process.threads() <= threads)


@pytest.fixture
def interrupt_at() -> type[InterruptAt]:
    return InterruptAt


@dataclass
class GoldenSet:
    """One golden store: the files, what was put (`manifest`), and what RocketMQ read from a copy (`java`)."""

    root: Path
    manifest: list[dict[str, Any]] = field(init=False)
    java: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        lines = [line for name in ("manifest-1.jsonl", "manifest.jsonl") for line in self._lines(name)]
        self.manifest = lines
        self.java = self._lines("java-read.jsonl")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def store(self) -> Path:
        """The files as RocketMQ left them."""
        return self.root / "store"

    @property
    def after_java(self) -> Path:
        """A copy of them that RocketMQ opened, recovered and closed once more."""
        return self.root / "store-after-java-open"

    @cached_property
    def put(self) -> list[dict[str, Any]]:
        """The messages that RocketMQ stored, in the order of the log."""
        stored = [line for line in self.manifest if line["type"] == "msg" and line["status"] == "PUT_OK"]
        return sorted(stored, key=lambda line: cast(int, line["commitLogOffset"]))

    @cached_property
    def java_read(self) -> dict[tuple[str, int, int], dict[str, Any]]:
        """What RocketMQ read from the queues: (queue's topic, queue id, queue offset) -> message."""
        return {(m["cqTopic"], m["cqQueueId"], m["cqOffset"]): m for m in self.java if m["type"] == "msg"}

    @cached_property
    def java_bounds(self) -> dict[Key, tuple[int, int]]:
        """Bounds of the queues as RocketMQ read them; queues that hold nothing and never did are left out."""
        lines = [line for line in self.java if line["type"] == "queue"]
        return {(q["topic"], q["queueId"]): (q["min"], q["max"]) for q in lines if q["max"] > 0}

    @cached_property
    def put_bounds(self) -> dict[Key, tuple[int, int]]:
        """Bounds of the ordinary queues as the process that wrote the store saw them at its end."""
        (summary,) = [line for line in self._lines("manifest.jsonl") if line["type"] == "summary"]
        lines = [line for line in summary["queues"] if line["cqType"] == "SimpleCQ"]
        return {(q["topic"], q["queueId"]): (q["min"], q["max"]) for q in lines if q["max"] > 0}

    def note(self, name: str) -> dict[str, int]:
        """`torn.json`, `crcflip.json` or `cqlag.json`."""
        found: dict[str, int] = json.loads((self.root / name).read_text())
        return found

    def spec(self, name: str) -> int:
        """A size of the set: `cl`, `cqBytes`, ..."""
        return cast(int, self.manifest[0][name])


@pytest.fixture(scope="session")
def golden_type() -> type[GoldenSet]:
    """`golden_type(folder)`: any other set with a manifest."""
    return GoldenSet


@pytest.fixture(scope="session")
def golden_set(golden: Callable[[str], Path]) -> Callable[[str], GoldenSet]:
    """`golden_set("abort")`: shared and read-only, as `golden` is."""
    known: dict[str, GoldenSet] = {}

    def get(name: str) -> GoldenSet:
        if name not in known:
            known[name] = GoldenSet(golden(name))
        return known[name]

    return get


DESCRIBED = (
    *("commitLogOffset", "size", "magic", "topic", "queueId", "queueOffset", "flag", "sysFlag", "bornTimestamp"),
    *("bornHost", "storeTimestamp", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyLen", "bodyCRC"),
    *("bodySha1", "keys", "tags", "uniqKey", "msgId", "properties"),
)
"""The fields of a manifest's message that tell what is stored."""


def _describe(message: StoredMessage) -> dict[str, Any]:
    properties = message.properties
    values = (
        *(message.physical_offset, message.size, f"0x{message.magic & 0xFFFFFFFF:08x}", message.topic),
        *(message.queue_id, message.queue_offset, message.flag, message.sys_flag, message.born_timestamp_ms),
        *(str(message.born_host), message.store_timestamp_ms, str(message.store_host), message.reconsume_times),
        *(message.prepared_transaction_offset, len(message.body), message.body_crc),
        *(hashlib.sha1(message.body).hexdigest(), properties.get("KEYS"), message.tags, message.uniq_key),
        *(message.message_id, properties),
    )
    return dict(zip(DESCRIBED, values, strict=True))


@pytest.fixture(scope="session")
def describe() -> Callable[[StoredMessage], dict[str, Any]]:
    """A message in the words of a manifest."""
    return _describe


def _plain_host(text: str) -> str:
    """Java writes every group of an IPv6 address, Python the shortest form: what a record holds is the same."""
    address, port = text.rsplit(":", 1)
    if not address.startswith("["):
        return text
    return f"[{ipaddress.ip_address(address.strip('[]'))}]:{port}"


def _described(line: dict[str, Any]) -> dict[str, Any]:
    hosts = {name: _plain_host(line[name]) for name in ("bornHost", "storeHost")}
    return {name: line[name] for name in DESCRIBED} | hosts


@pytest.fixture(scope="session")
def described() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Turns a line of a manifest into what `describe` returns for a message."""
    return _described


@pytest.fixture(scope="session")
def records_of() -> Callable[..., list[StoredMessage]]:
    """`records_of(view, messages)`: their records, after a look at whether inner batches came unwrapped and whole."""
    return unwrapped.records_of


@pytest.fixture(scope="session")
def read_all() -> Callable[..., dict[Key, list[StoredMessage]]]:
    """Every message of every queue of an open store."""

    def read(store: ReadOnlyStore, **how: Any) -> dict[Key, list[StoredMessage]]:
        return {key: list(store.read(*key, **how)) for key in store.queues()}

    return read


def _digest(path: Path) -> str:
    """SHA-256 over the places and bytes of a file's data: a store of default sizes is mostly holes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        descriptor, size, position = file.fileno(), os.fstat(file.fileno()).st_size, 0
        while position < size:
            try:
                position = os.lseek(descriptor, position, os.SEEK_DATA)
            except OSError:
                break  # only a hole is left
            end = os.lseek(descriptor, position, os.SEEK_HOLE)
            digest.update(f"{position} {end} ".encode())
            while position < end:
                piece = os.pread(descriptor, min(1 << 20, end - position), position)
                digest.update(piece)
                position += len(piece)
    return digest.hexdigest()


def _fingerprint(folder: Path) -> Fingerprint:
    found: Fingerprint = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.stat()
        is_read = path.is_file() and path.name != "lock"  # whoever opens `lock` may drop a lock
        digest = _digest(path) if is_read else ""
        found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns, digest)
    return found


@pytest.fixture(scope="session")
def fingerprint() -> Callable[[Path], Fingerprint]:
    """Length, time of change and SHA-256 of every file; of `lock` not the content. Compare two of them."""
    return _fingerprint


_watchers: list[list[tuple[str, int]]] = []


def _note_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watchers:
        path, _, flags = arguments
        for watcher in _watchers:
            watcher.append((os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path), flags))


@pytest.fixture(scope="session")
def watch_opens() -> WatchOpens:
    """`with watch_opens() as opened:` lists (path, flags) of every open that this process makes meanwhile."""
    sys.addaudithook(_note_open)  # stays for the life of the process, as audit hooks do

    @contextmanager
    def watch() -> Iterator[list[tuple[str, int]]]:
        opened: list[tuple[str, int]] = []
        _watchers.append(opened)
        try:
            yield opened
        finally:
            _watchers.remove(opened)

    return watch


@pytest.fixture(scope="session")
def copy_as_killed() -> Callable[[Path, Path], Path]:
    """`copy_as_killed(live, target)`: the files as they are now. Within one boot that is what a SIGKILL leaves.

    The progress page comes first: beside a flush service at work, what it says must not be newer than what is copied.
    A state file that the service renames between the listing and the copy is left out, as if it had not been written.
    """

    copy: Callable[[Path, Path], Path] = killed_copy.copy_as_killed
    return copy


class Numbered:
    """Messages 0, 1, 2, ... over six queues of three topics; every seventeenth is prepared: no queue lists it."""

    SEGMENT_SIZE = 4096

    def __init__(self, check_clean: AssertClean) -> None:
        from flightlog import StoreSettings

        self._assert_clean = check_clean
        # The service thread never comes round: what is dispatched and synced is what the test asks for.
        self.settings: StoreSettings = StoreSettings(
            segment_size=self.SEGMENT_SIZE, queue_file_entries=10, flush_interval_ms=3_600_000
        )

    def messages(self, start: int, stop: int) -> list[Message]:
        from flightlog import Message

        return [
            Message(f"t{i % 3}", b"%05d" % i + bytes(i % 200), "A", queue_id=i % 2, sys_flag=4 if i % 17 == 16 else 0)
            for i in range(start, stop)
        ]

    @staticmethod
    def listed(count: int) -> list[int]:
        """Which of the first `count` messages stand in a queue."""
        return [i for i in range(count) if i % 17 != 16]

    @staticmethod
    def read(store: Store | ReadOnlyStore, **how: Any) -> list[int]:
        """What the queues list, in the order of the log."""
        found = sorted((m for key in store.queues() for m in store.read(*key, **how)), key=lambda m: m.physical_offset)
        return [int(m.body[:5]) for m in found]

    def check_goes_on(self, root: Path, count: int) -> None:
        """All are there, further ones follow them, and after a clean close nothing needs to be scanned."""
        import flightlog

        with flightlog.open(root, self.settings) as store:
            assert self.read(store) == self.listed(count)
            store.put_many(self.messages(count, count + 30))
        self._assert_clean(root)
        with flightlog.open(root, self.settings) as store:
            assert self.read(store) == self.listed(count + 30)
            assert store.recovery_report.last_writer.name == "FLIGHTLOG_CLOSED"
            assert store.recovery_report.records_scanned == 0
        self._assert_clean(root)

    @staticmethod
    def reboot(root: Path) -> None:
        """The page cache is gone: the progress page is of another boot."""
        from flightlog.store.disk.disk import RealDisk
        from flightlog.store.state.progress import BOOT, progress_path, read_progress

        raw = bytearray(progress_path(root).read_bytes())
        raw[BOOT * 8] ^= 1
        progress_path(root).write_bytes(raw)
        progress = read_progress(RealDisk(), root)
        assert progress is not None and not progress.is_of_this_boot

    def offsets(self, root: Path) -> list[int]:
        """The physical offset of every record, listed or not."""
        import flightlog

        with flightlog.open_read_only(root) as view:
            return [
                int(place)
                for segment, first, stop in view.log_reader.segments_between(0, view.end_physical_offset)
                for _, rows in view.log_reader.scan(segment, first, stop, check_crc=True)
                for place in rows["physical_offset"].tolist()
            ]


@pytest.fixture(scope="session")
def numbered(assert_clean: AssertClean) -> Numbered:
    return Numbered(assert_clean)


@pytest.fixture
def closed(numbered: Numbered, tmp_path: Path) -> Path:
    """200 messages, cleanly closed."""
    import flightlog

    with flightlog.open(tmp_path / "store", numbered.settings) as store:
        store.put_many(numbered.messages(0, 200))
    return tmp_path / "store"


@pytest.fixture
def killed(numbered: Numbered, tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path]) -> Path:
    """200 messages: 50 in synced queues, 50 more synced, 50 more dispatched, and 50 in the page cache alone."""
    import flightlog

    with flightlog.open(tmp_path / "live", numbered.settings) as store:
        store.put_many(numbered.messages(0, 50))
        inside.maintenance(store).flush_queues()
        store.put_many(numbered.messages(50, 100))
        store.flush()
        store.put_many(numbered.messages(100, 150))
        store.queues()
        store.put_many(numbered.messages(150, 200))
        return copy_as_killed(tmp_path / "live", tmp_path / "store")
