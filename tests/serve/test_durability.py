"""Servers that die under load: what their clients were answered holds. Under sync flush, also after a power cut."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings
from flightlog.produce.message_type import FIFO
from flightlog.store.topic import MESSAGE_TYPE
from flightlog.testing import AheadClock, PowerDisk, kill, serve
from flightlog.tests.support.rocketmq_server import PATIENCE_S
from flightlog.tests.support.served_load import ORDERED, TOPIC, Load

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings.small(flush_mode=FlushMode.SYNC, segment_size=1 << 20)
LIVES, SENDS, ACKS = 3, 60, 20
PROGRAM = """
import logging, sys
from pathlib import Path
from flightlog import FlushMode, StoreSettings
from flightlog.serve.program import ServeOptions, run
logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO)
settings = StoreSettings.small(flush_mode=FlushMode.SYNC, segment_size=1 << 20)
run(ServeOptions((Path(sys.argv[1]),), port=0, topics=("orders:2",), groups=("ledger:fifo",), settings=settings))
"""


@pytest.mark.ci
def test_a_killed_server_keeps_what_it_answered(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, load = tmp_path / "store", Load()
    for _ in range(LIVES):
        command = [sys.executable, "-P", "-c", PROGRAM, str(path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                port = next(found[1] for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
                load.run_until(f"127.0.0.1:{port}", SENDS, ACKS, lambda: process.send_signal(signal.SIGKILL))
            finally:
                process.kill()
                process.communicate(timeout=PATIENCE_S)
    clock = AheadClock()
    with flightlog.open(path, SETTINGS, clock=clock) as store:
        load.check(store, clock)
    assert_clean(path)


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_leaves_what_was_answered(tmp_path: Path, assert_clean: AssertClean, seed: int) -> None:
    path, load, dice = tmp_path / "store", Load(), random.Random(seed)
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
