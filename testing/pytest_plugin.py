"""Fixtures for pytest, found by it once flightlog is installed (entry point `pytest11`).

    def test_an_order_is_created(flightlog_store):
        create_order(flightlog_store, 7)
        assert [message.body for message in flightlog_store.read("orders")] == [b"created"]

A fixture of the same name in your conftest.py takes the place of one of these, for instance another disk:

    @pytest.fixture
    def flightlog_disk(tmp_path):
        return PowerDisk(tmp_path / "store")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ..consume.store import Store
from ..engine.read_only import open_read_only
from ..store.disk.disk import RealDisk
from ..store.errors import DiskError
from .faulty_disk import FaultyDisk
from .stores import open_small


@pytest.fixture
def flightlog_disk() -> RealDisk:
    """The disk of `flightlog_store`: a FaultyDisk, which fails and blocks on demand."""
    return FaultyDisk()


@pytest.fixture
def flightlog_store(tmp_path: Path, flightlog_disk: RealDisk) -> Iterator[Store]:
    """An open store with small files in the folder `store` of `tmp_path`.

    After the test the disk is healed and the store closed; a store that was killed or poisoned is recovered. Then it is
    verified: the test fails if the store is not clean. A test that opens the store again closes it again.
    """
    store = open_small(tmp_path / "store", disk=flightlog_disk)
    yield store
    if isinstance(flightlog_disk, FaultyDisk):
        flightlog_disk.heal()
    with suppress(DiskError):  # of a sync that the test made fail
        store.close()
    with open_small(store.path, disk=flightlog_disk):
        pass
    with open_read_only(store.path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
