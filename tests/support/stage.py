"""A store on a disk whose power can be cut, and the promises that it must keep whatever happens to it.

    stage = Stage(folder)
    store = stage.open()           # sync flush; no round of the flush service comes of itself
    stage.put(store, 700)          # noted: has to be there from now on
    stage.die(store)               # as SIGKILL would
    stage.cut()                    # nothing is left but what was synced
    stage.end()                    # opens it, checks every promise, closes and verifies it

A promise that is not kept is a `BrokenPromiseError`: no assert of the store's own, and no slip of a test, is taken for
one.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flightlog
from flightlog import FlushMode, Message, PutResult, PutStatus, ReadOnlyStore, Store, StoreSettings
from flightlog.store.disk.disk import MappedPart, RealFile
from flightlog.store.segments.segment import segment_name
from flightlog.store.state.progress import progress_path
from flightlog.testing.power_disk import Died, PowerDisk, PowerFile
from flightlog.tests.support import inside
from flightlog.tests.support.openings import HeldClock

NEVER_MS = 3_600_000
SEGMENT_SIZE = 16 << 10
SECTOR_SIZE = 512
Place = tuple[str, int, int]
"""Topic, queue id, queue offset."""


class BrokenPromiseError(AssertionError):
    """The store did not keep its word."""


def promise(is_kept: object, text: str) -> None:
    if not is_kept:
        raise BrokenPromiseError(text)


def _look_away(operation: str, path: Path) -> None:
    pass


class StageFile(PowerFile):
    """Tells before and after what it does."""

    def __init__(self, disk: StageDisk, file: RealFile) -> None:
        super().__init__(disk, file, True, file.inode if isinstance(file, PowerFile) else None)
        self._stage_disk = disk

    def write(self, position: int, data: bytes | memoryview) -> None:
        self._stage_disk.on("write", self.path)
        super().write(position, data)

    def allocate(self, position: int, size: int) -> None:
        self._stage_disk.on("allocate", self.path)
        super().allocate(position, size)

    def sync(self, part: MappedPart | None = None) -> None:
        self._stage_disk.on("sync", self.path)
        super().sync(part)
        self._stage_disk.on("synced", self.path)

    def map_for_append(self) -> Any:
        self._stage_disk.on("map", self.path)
        return super().map_for_append()


class StageDisk(PowerDisk):
    """Lets a test come in between."""

    def __init__(self, root: Path, *, keeps_notes: bool = True) -> None:
        super().__init__(root, keeps_notes=keeps_notes)
        self.on: Callable[[str, Path], None] = _look_away
        """Called with each write, allocation and mapping before it, and with each sync before ("sync") and after it
        ("synced")."""

    def be_well(self) -> None:
        """Nobody comes in between any more, and syncs go well."""
        self.on, self.fails_syncs_of = _look_away, ""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        file = super().open(path, writable=writable, create=create)
        return StageFile(self, file) if writable else file

    def open_unnamed(self, path: Path) -> StageFile | None:
        file = super().open_unnamed(path)
        return None if file is None else StageFile(self, file)

    def lose(self, path: Path, start: int, stop: int) -> None:
        """Lose the sectors in [start, stop) of a file: nothing of them has reached the disk since they were last
        synced. To be followed by a cut that leaves all the rest."""
        now, synced = path.read_bytes(), self.live[path].synced
        start -= start % SECTOR_SIZE
        stop = min(-(-stop // SECTOR_SIZE) * SECTOR_SIZE, len(now))
        with path.open("r+b") as file:
            file.seek(start)
            file.write(synced.ljust(len(now), b"\0")[start:stop])


def _settings(mode: FlushMode, changes: dict[str, Any]) -> StoreSettings:
    usual: dict[str, Any] = {
        "segment_size": SEGMENT_SIZE,
        "queue_file_entries": 100,
        "index_slots": 5,
        "index_entries": 100,
        "flush_interval_ms": NEVER_MS,
        "queue_flush_interval_ms": NEVER_MS,
        "index_flush_interval_ms": NEVER_MS,
    }
    return StoreSettings(flush_mode=mode, **(usual | changes))


class Stage:
    """One store, and what it has promised so far."""

    def __init__(self, folder: Path) -> None:
        self.disk = StageDisk(folder / "store")
        self.root = self.disk.root
        self.clock = HeldClock()
        self.must: dict[Place, tuple[int, bytes]] = {}
        """What has to be there: physical offset and body."""
        self._unsynced: dict[Place, tuple[int, bytes]] = {}
        self._offered: set[bytes] = set()
        self._gone: set[bytes] = set()
        """Bodies that must not come back."""
        self._is_sync = True
        self._open: list[Store] = []

    # -- one life

    def open(self, mode: FlushMode = FlushMode.SYNC, **changes: Any) -> Store:
        self._is_sync = mode is FlushMode.SYNC
        store = flightlog.open(self.root, _settings(mode, changes), disk=self.disk, clock=self.clock)
        if inside.log(store).preparation.is_wanted:
            inside.prepare_service(store).stop()  # appends do it themselves: one order of operations in every run
            inside.log(store).preparation.wake = inside.log(store).prepare
        self._open.append(store)
        return store

    def put(
        self, store: Store, size: int = 100, *, topic: str = "t", queue_id: int = 0, count: int = 1
    ) -> list[PutResult]:
        """Under sync flush what returns has to be there, under async flush only after a `flush`."""
        messages = [self._message(topic, size, queue_id) for _ in range(count)]
        results = store.put_many(messages) if count > 1 else [store.put(messages[0])]
        for message, result in zip(messages, results, strict=True):
            place = (topic, queue_id, result.queue_offset)
            promise(place not in self.must, f"{place} was given away twice")
            if result.status is PutStatus.PUT_OK:
                (self.must if self._is_sync else self._unsynced)[place] = (result.physical_offset, message.body)
        return results

    def _message(self, topic: str, size: int, queue_id: int) -> Message:
        number = len(self._offered)
        body = f"{number} ".encode().ljust(size, b"x")
        self._offered.add(body)
        return Message(topic, body, queue_id=queue_id, keys=f"k{number}")

    def flush(self, store: Store) -> None:
        appended = dict(self._unsynced)
        store.flush()
        self.must |= appended

    def dies(self, operations: int, do: Callable[[], object]) -> bool:
        """Whether the process died over it, after so many changes of the disk; stores that are open died with it."""
        self.disk.die_after = operations
        try:
            do()
        except Died:
            return True
        finally:
            for store in self._open:
                self.die(store)
            self.disk.kill()
        return False

    def die(self, store: Store) -> None:
        """Let go of an open store as the death of its process would: nothing is flushed, nothing is noted."""
        inside.flush_service(store).stop()
        inside.forget_to_end(store)
        store.close()

    def cut(self, *, keeps_all: bool = False) -> None:
        """Nothing is left but what was synced; or everything is, but for what the disk was told to `lose`. The disk is
        well afterwards."""
        self.disk.be_well()
        self.disk.kill()
        self.disk.cut(random.Random(0), chance=1 if keeps_all else 0)

    def remove(self, folder: str) -> None:
        """Somebody removes a folder of the store, past its disk. No cut may follow."""
        shutil.rmtree(self.root / folder)
        self.disk = StageDisk(self.root, keeps_notes=False)

    def write_back(self, path: Path) -> None:
        """The kernel has written this file as it is now, unasked."""
        self.disk.write_back(random.Random(0), whole=path)

    def release(self) -> None:
        for store in self._open:
            self.die(store)

    @property
    def progress_page(self) -> Path:
        return progress_path(self.root)

    def segment(self, base: int = 0) -> Path:
        return self.root / "commitlog" / segment_name(base)

    def queue_file(self, queue_id: int = 0, topic: str = "t") -> Path:
        return self.root / "consumequeue" / topic / str(queue_id) / segment_name(0)

    # -- promises

    promise = staticmethod(promise)

    @property
    def unsynced_bodies(self) -> set[bytes]:
        """Bodies of messages whose put has returned, and that nobody has flushed."""
        return {body for _, body in self._unsynced.values()}

    def check_readable(self, store: Store) -> None:
        """Every put that has returned is read, durable or not."""
        self.check(store)
        missing = self.unsynced_bodies - self.bodies(store)
        promise(not missing, f"{len(missing)} messages that were put are not there")

    def forget_topic(self, topic: str) -> None:
        """It was deleted, for good."""
        for place in [place for place in self.must if place[0] == topic]:
            self._gone.add(self.must.pop(place)[1])

    def bodies(self, store: Store | ReadOnlyStore) -> set[bytes]:
        """What can be read. Every queue must be whole from its first message to its end, and nothing there twice."""
        found: dict[Place, bytes] = {}
        for key, (first, end) in store.queues().items():
            offsets = []
            for message in store.read(*key, first):
                offsets.append(message.queue_offset)
                found[(*key, message.queue_offset)] = message.body
            text = f"queue {key} has {len(offsets)} of the {end - first} messages that it says it has"
            promise(offsets == list(range(first, end)), text)
        bodies = set(found.values())
        promise(len(bodies) == len(found), "a message is there twice")
        promise(bodies <= self._offered, "a message is there that nobody put")
        self._found = found
        return bodies

    def check(self, store: Store | ReadOnlyStore) -> None:
        """Everything that has to be there is, but for what retention took; nothing that was gone has come back."""
        bodies = self.bodies(store)
        log_start = min((int(path.name) for path in self.root.glob("commitlog*/*")), default=0)
        self.must = {place: what for place, what in self.must.items() if what[0] >= log_start}
        lost = [place for place, (_, body) in self.must.items() if self._found.get(place) != body]
        promise(not lost, f"{len(lost)} of {len(self.must)} messages that had to be there are lost: {lost[:3]}")
        promise(not bodies & self._gone, f"{len(bodies & self._gone)} messages that were gone are there again")

    def settle(self, store: Store) -> None:
        """Check a store that was just recovered: what it does not have now must not come back."""
        self.check(store)
        self._gone |= self._offered - self.bodies(store)
        self._unsynced.clear()

    def check_keys(self, store: Store) -> None:
        """Every message that has to be there is found by its key."""
        for place, (_, body) in self.must.items():
            key = f"k{body.split()[0].decode()}"
            found = [message.body for message in store.query(place[0], key).messages]
            promise(found == [body], f"the key of {place} finds {len(found)} messages")

    def end(self, **changes: Any) -> None:
        """Open it once more, check, and close it; then it must be clean."""
        with self.open(FlushMode.SYNC, **changes) as store:
            self.settle(store)
            self.check_keys(store)
        with flightlog.open_read_only(self.root, _settings(FlushMode.SYNC, changes)) as view:
            self.check(view)
            report = view.verify()
        promise(report.is_clean, f"verify: {[*map(str, report.findings)][:3]}")
