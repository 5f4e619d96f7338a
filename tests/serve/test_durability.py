"""Servers that die under load, of plain gRPC and of RocketMQ's own clients: what these were answered holds. Under sync
flush, also after a power cut."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings
from flightlog.produce.message_type import FIFO
from flightlog.store.topic import MESSAGE_TYPE
from flightlog.testing import AheadClock, PowerDisk, kill, serve
from flightlog.tests.support.official_load import OfficialLoad
from flightlog.tests.support.served_load import ORDERED, TOPIC, Load
from flightlog.tests.support.served_process import served_process

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings.small(flush_mode=FlushMode.SYNC, segment_size=1 << 20)
LIVES, SENDS, ACKS = 3, 60, 20


@pytest.mark.ci
@pytest.mark.parametrize("load_type", [Load, OfficialLoad])
def test_a_killed_server_keeps_what_it_answered(
    tmp_path: Path, assert_clean: AssertClean, load_type: type[Load]
) -> None:
    path, load = tmp_path / "store", load_type()
    for _ in range(LIVES):
        with served_process(path) as (process, address):
            load.run_until(address, SENDS, ACKS, lambda: process.send_signal(signal.SIGKILL))
    clock = AheadClock()
    with flightlog.open(path, SETTINGS, clock=clock) as store:
        load.check(store, clock)
    assert_clean(path)


@pytest.mark.ci
@pytest.mark.parametrize(("load_type", "seed"), [(Load, 0), (Load, 1), (Load, 2), (OfficialLoad, 3)])
def test_a_power_cut_leaves_what_was_answered(
    tmp_path: Path, assert_clean: AssertClean, load_type: type[Load], seed: int
) -> None:
    path, load, dice = tmp_path / "store", load_type(), random.Random(seed)
    disk = PowerDisk(path)
    for _ in range(LIVES):
        with flightlog.open(path, SETTINGS, disk=disk) as store:
            if store.topic(TOPIC) is None:
                store.create_topic(TOPIC, 2, attributes={MESSAGE_TYPE: FIFO})
                store.update_group(ORDERED, is_ordered=True)
            with serve(store) as served:
                load.run_until(served.address, SENDS, ACKS, lambda: kill(store))
        disk.cut(dice)
    clock = AheadClock()
    with flightlog.open(path, SETTINGS, disk=disk, clock=clock) as store:
        load.check(store, clock)
    assert_clean(path)
