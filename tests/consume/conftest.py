"""What the tests of consumers share: stores whose disks fail when told, a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings, Subscription
from flightlog.consume.group_coordinator import GroupCoordinator
from flightlog.store.disk.clock import Clock
from flightlog.store.errors import DiskError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import process
from flightlog.tests.support.clocks import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


class Disks:
    """Stores by name, each on a disk that fails when told. Closed and verified at the end."""

    def __init__(self, root: Path, disk_type: type[FaultyDisk], assert_clean: AssertClean) -> None:
        self._root, self._disk_type, self._assert_clean = root, disk_type, assert_clean
        self.stores: dict[str, Store] = {}
        self.disks: dict[str, FaultyDisk] = {}

    def open(self, *names: str, settings: StoreSettings | None = None) -> dict[str, Store]:
        """Open them, again where they were."""
        for name in names:
            self.disks[name] = self._disk_type()
            self.stores[name] = flightlog.open(
                self._root / name, settings or StoreSettings.small(), disk=self.disks[name]
            )
        return self.stores

    def put(self, name: str, *bodies: object, topic: str = "orders") -> None:
        for body in bodies:
            self.stores[name].put(Message(topic, str(body).encode(), queue_id=None))

    def poison(self, name: str) -> None:
        self.disks[name].fail("sync", "commitlog/", 5)
        with pytest.raises(DiskError):
            self.put(name, "never durable", topic="elsewhere")
            self.stores[name].flush()
        self.disks[name].heal()

    def below(self, folder: str) -> Disks:
        """Others, in a folder here."""
        return Disks(self._root / folder, self._disk_type, self._assert_clean)

    def close(self) -> None:
        for name in self.stores:
            self.close_one(name)
            with flightlog.open(self._root / name):  # recovers it where need be
                pass
            self._assert_clean(self._root / name)

    def close_one(self, name: str) -> None:
        self.disks[name].heal()
        try:
            self.stores[name].close()
        except DiskError:  # one that was poisoned
            assert self.stores[name].is_closed


@pytest.fixture
def disks(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Disks]:
    found = Disks(tmp_path, FaultyDisk, assert_clean)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def no_thread_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test reads as one is closed after it."""
    made: list[GroupCoordinator] = []

    def coordinator(clock: Clock | None, *intervals_s: float) -> GroupCoordinator:
        made.append(GroupCoordinator(clock, *intervals_s))
        return made[-1]

    monkeypatch.setattr("flightlog.consume.stores.GroupCoordinator", coordinator)
    yield
    for each in made:
        each.close()


@pytest.fixture
def clock() -> HeldClock:
    """For what balances: no timer ever comes, so that whatever happens was told at once."""
    return HeldClock()


@pytest.fixture
def bodies() -> Callable[[Subscription], list[bytes]]:
    """What comes until nothing comes any more, each acknowledged."""

    def drain(subscription: Subscription) -> list[bytes]:
        found = []
        while (message := subscription.receive(0)) is not None:
            found.append(message.body)
            assert message.ack()
        return sorted(found)

    return drain


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Until another thread has made it so."""
    wait: Callable[[Callable[[], object]], None] = process.wait_until
    return wait


@pytest.fixture
def opened(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Callable[[], Store]]:
    """Opens the store of this test; it is closed in the end, if the test has not done so, and must be clean."""
    stores: list[Store] = []

    def opener() -> Store:
        stores.append(flightlog.open(tmp_path / "store", flightlog.StoreSettings.small()))
        return stores[-1]

    yield opener
    for store in stores:
        store.close()
    assert_clean(tmp_path / "store")
