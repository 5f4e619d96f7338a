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
from ..store.disk.disk import RealDisk
from ..store.errors import DiskError
from ..store.settings import StoreSettings
from .faulty_disk import FaultyDisk
from .served_store import SETTINGS, ServedStore, serve
from .stores import open_small, verify_closed


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
    verify_closed(store.path, disk=flightlog_disk)


@pytest.fixture(scope="session")
def rocketmq_settings() -> StoreSettings:
    """The settings of the stores of `rocketmq` and `rocketmq_session`: small files."""
    return SETTINGS


@pytest.fixture
def rocketmq(tmp_path: Path, rocketmq_settings: StoreSettings) -> Iterator[ServedStore]:
    """A server for RocketMQ's 5.x clients, with a fresh store in the folder `rocketmq` of `tmp_path`: connect to
    `rocketmq.address`. See `flightlog.testing.ServedStore`. After the test it is closed, and the store is verified.

    Needs the extra `serve`."""
    with serve(tmp_path / "rocketmq", rocketmq_settings) as served:
        yield served


@pytest.fixture
def rocketmq_store(rocketmq: ServedStore) -> Store:
    """The store of `rocketmq`, in Python; after `rocketmq.restart()` it is `rocketmq.store`."""
    return rocketmq.store


@pytest.fixture(scope="session")
def rocketmq_session(
    tmp_path_factory: pytest.TempPathFactory, rocketmq_settings: StoreSettings
) -> Iterator[ServedStore]:
    """One server for all tests of the session, or of each worker of pytest-xdist. Keep the tests apart by topics and
    groups of their own: `rocketmq_session.new_name("orders")`."""
    with serve(tmp_path_factory.mktemp("rocketmq") / "store", rocketmq_settings) as served:
        yield served
