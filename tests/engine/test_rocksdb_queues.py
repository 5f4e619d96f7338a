"""Stores of which RocketMQ keeps consume queues or settings in RocksDB: refused for writing by name, read from the log.

Found in the field: a view of such a store was empty without a word, verify advised to open it for writing, and the
broker could not read what flightlog then put. The stores are rocketmq-store 5.3.3's, see tests/data/README.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.verify.findings import VerifyReport
from flightlog.store.errors import RocksDbConfigError, RocksDbQueuesError, UnsupportedStoreError
from flightlog.tools.inspecting import inspect

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint

DATA = Path(os.environ.get("FLIGHTLOG_ROCKSDB", Path(__file__).resolve().parents[1] / "data" / "rocksdb"))
COUNT = 120
HOLD_THE_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["closed", "halted"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as tar:
        tar.extractall(tmp_path)
    assert (tmp_path / "store" / "consumequeue" / "CURRENT").exists()
    return tmp_path / "store"


def expected() -> dict[tuple[str, int], list[bytes]]:
    queues: dict[tuple[str, int], list[bytes]] = {}
    for i in range(COUNT):
        queues.setdefault(("parcels" if i % 3 == 2 else "stock", i % 2), []).append(b"message %05d" % i)
    return queues


def read_all(root: Path) -> tuple[dict[tuple[str, int], list[bytes]], VerifyReport]:
    with flightlog.open_read_only(root) as view:
        assert any("RocksDB" in line for line in view.report.damage)
        found = {key: [m.body for m in view.read(*key)] for key in view.queues()}
        view.refresh()
        assert {key: [m.body for m in view.read(*key)] for key in view.queues()} == found
        return found, view.verify()


@pytest.mark.usefixtures("kernel")
def test_a_view_reads_the_log(root: Path, fingerprint: Callable[[Path], Fingerprint]) -> None:
    before = fingerprint(root)
    found, report = read_all(root)
    assert found == expected()
    assert (report.findings, report.lag, report.records) == ([], [], COUNT)
    assert any("in RocksDB" in oddity and "not checked" in oddity for oddity in report.oddities)
    assert any("in RocksDB" in note for note in inspect(root).notes)
    assert fingerprint(root) == before


def test_a_view_beside_the_broker_is_not_empty(root: Path) -> None:
    command = [sys.executable, "-P", "-c", HOLD_THE_LOCK, str(root / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None and broker.stdout.readline() == b"held\n"
        assert read_all(root)[0] == expected()
        assert broker.stdin is not None
        broker.stdin.close()


def test_opening_for_writing_is_refused_by_name(root: Path, fingerprint: Callable[[Path], Fingerprint]) -> None:
    before = fingerprint(root)
    with pytest.raises(RocksDbQueuesError, match="consume queues in RocksDB") as raised:
        flightlog.open(root)
    assert isinstance(raised.value, UnsupportedStoreError) and "storeType=default," in str(raised.value)
    assert fingerprint(root) == before


def test_what_the_error_says_to_do_works(root: Path, assert_clean: AssertClean) -> None:
    shutil.move(root / "consumequeue", root.parent / "moved")
    with flightlog.open(root) as store:
        store.put(Message("stock", b"ours", queue_id=0))
        assert [m.body for m in store.read("stock", 0)] == [*expected()["stock", 0], b"ours"]
    assert_clean(root)


# -- topics, groups and offsets in RocksDB


@pytest.fixture(params=[("topics", "subscriptionGroups", "consumerOffsets"), ("rdb",)])
def configured(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    """A store with queue files, beside what a broker's config managers write; and the names of their folders."""
    path = tmp_path / "plain"
    with flightlog.open(tmp_path / "made", StoreSettings.small()) as store:
        store.put_many([Message("stock", b"%d" % i, queue_id=0) for i in range(10)])
    shutil.copytree(tmp_path / "made", path)  # its holes stay where they are, and do not come as pages are written back
    with tarfile.open(DATA / "config.tar.xz") as tar:
        tar.extractall(tmp_path / "broker")
    for name in request.param:
        kept = "topics" if name == "rdb" else name
        shutil.copytree(tmp_path / "broker" / "config" / kept, path / "config" / name)
    return path, request.param


def test_a_broker_with_its_settings_in_rocksdb_is_not_written_beside(
    configured: tuple[Path, tuple[str, ...]], fingerprint: Callable[[Path], Fingerprint], assert_clean: AssertClean
) -> None:
    path, names = configured
    before = fingerprint(path)
    with pytest.raises(RocksDbConfigError, match="storeType=default and configManagerVersion=v1") as raised:
        flightlog.open(path)
    assert isinstance(raised.value, UnsupportedStoreError)
    assert "found RocksDB in " + ", ".join(f"config/{name}" for name in names) in str(raised.value)
    with flightlog.open_read_only(path) as view:
        assert [m.body for m in view.read("stock", 0)] == [b"%d" % i for i in range(10)]
        assert not view.report.damage and "stock" in view.topics()
        report = view.verify()
    assert report.is_clean and any(f"(config/{names[0]}" in oddity for oddity in report.oddities)
    assert any(f"(config/{names[0]}" in note for note in inspect(path).notes)
    assert fingerprint(path) == before
    for name in names:
        shutil.move(path / "config" / name, path.parent / f"moved-{name}")
    with flightlog.open(path) as store:
        store.put(Message("stock", b"ours", queue_id=0))
    assert_clean(path)
