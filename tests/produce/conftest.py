"""What the tests of producers share: several stores, each on a disk that fails when told, and a clock that is moved."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import flightlog
from flightlog import Store, StoreSettings
from flightlog.store.errors import DiskError
from flightlog.testing.faulty_disk import FaultyDisk


@dataclass
class ManualClock:
    at_s: float = 1000.0

    def now_ms(self) -> int:
        return round(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s

    def pass_during(self, work: Callable[[], None]) -> None:
        """The time passes, 50 s at a step, while a thread does this."""
        working = threading.Thread(target=work)
        working.start()
        while working.is_alive():
            self.at_s += 50
            working.join(0.01)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Stores:
    """Stores by name, with their disks. Closed, verified and counted at the end."""

    def __init__(self, root: Path, disk_type: type[FaultyDisk]) -> None:
        self._root, self._disk_type = root, disk_type
        self.open: dict[str, Store] = {}
        self.disks: dict[str, FaultyDisk] = {}

    def add(self, name: str, settings: StoreSettings | None = None) -> Store:
        self.disks[name] = self._disk_type()
        settings = settings or StoreSettings.small()
        self.open[name] = flightlog.open(self._root / name, settings, disk=self.disks[name])
        return self.open[name]

    def close(self) -> None:
        for disk in self.disks.values():
            disk.heal()
        for store in self.open.values():
            try:
                store.close()
            except DiskError:  # one that was poisoned
                assert store.is_closed

    def bodies(self) -> Counter[bytes]:
        """Every message of every store, once all are closed and found clean."""
        self.close()
        found: Counter[bytes] = Counter()
        for name in self.open:
            with flightlog.open(self._root / name):  # recovers it where need be
                pass
            with flightlog.open_read_only(self._root / name) as view:
                report = view.verify()
                assert report.is_clean, "\n".join(map(str, report.findings))
                found.update(message.body for key in view.queues() for message in view.read(*key))
        return found


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    found = Stores(tmp_path, FaultyDisk)
    yield found
    found.bodies()
