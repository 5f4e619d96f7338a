"""`flightlog.seal`: a store without seals gets them, and then no byte changes unnoticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SIZE = 64 << 10
SETTINGS = StoreSettings(segment_size=SIZE, queue_file_entries=100)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three segments, two of them full, without seals."""
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        store.put_many([Message("t", b"%06d" % n * 30, properties={"region": "eu"}) for n in range(500)])
    shutil.rmtree(path / "flightlog" / "seals")
    (path / "flightlog" / "open-seal").unlink()
    return path


def change_a_property(root: Path, segment: int) -> int:
    """Change a byte that no CRC of RocketMQ covers, and return where."""
    path = sorted((root / "commitlog").iterdir())[segment]
    raw = path.read_bytes()
    at = raw.index(b"region\x01eu") + 7
    path.write_bytes(raw[:at] + b"E" + raw[at + 1 :])
    return segment * SIZE + at


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_a_changed_property_is_found(segment: int, root: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    unsealed = Path(shutil.copytree(root, tmp_path / "unsealed"))
    change_a_property(unsealed, segment)
    assert_clean(unsealed)  # nothing tells
    shown = flightlog.seal(root)
    assert not (root / "flightlog" / "seals").exists() and not (root / "flightlog" / "open-seal").exists()
    before = {path: path.read_bytes() for path in (root / "commitlog").iterdir()}
    report = flightlog.seal(root, write=True)
    assert (shown.sealed, shown.covered_size) == (report.sealed, report.covered_size)
    assert len(report.sealed) == 2 and report.kept == 0 and 0 < report.covered_size < SIZE and not report.left
    assert before == {path: path.read_bytes() for path in (root / "commitlog").iterdir()}
    assert assert_clean(root).sealed_segments == 2
    place = change_a_property(root, segment)
    with flightlog.open_read_only(root) as view:
        assert [f.offset // SIZE for f in view.verify().findings] == [place // SIZE]


def test_again_there_is_nothing_to_do(root: Path, assert_clean: AssertClean) -> None:
    flightlog.seal(root, write=True)
    again = flightlog.seal(root, write=True)
    assert (again.sealed, again.kept, again.covered_size) == ([], 2, 0)
    with flightlog.open(root) as store:
        store.put(Message("t", b"goes on"))
    assert assert_clean(root).sealed_segments == 2


def test_damage_is_not_sealed(root: Path) -> None:
    path = sorted((root / "commitlog").iterdir())[0]
    raw = path.read_bytes()
    at = raw.index(b"000003000003")
    path.write_bytes(raw[:at] + b"!" + raw[at + 1 :])
    report = flightlog.seal(root, write=True)
    assert list(report.left) == [path] and "CRC" in report.left[path] and len(report.sealed) == 1
    assert sorted(os.listdir(root / "flightlog" / "seals")) == [f"{SIZE:020}"]


def test_a_store_of_rocketmq(golden_copy: Callable[[str], Path], assert_clean: AssertClean) -> None:
    root = golden_copy("rollover") / "store"
    report = flightlog.seal(root, write=True)
    assert report.sealed and report.covered_size == 0, "an open segment's seal binds only what flightlog wrote last"
    assert assert_clean(root).sealed_segments == len(report.sealed)
    with flightlog.open(root) as store:
        store.put(Message("new", b"seals that fit stay"))
    assert assert_clean(root).sealed_segments >= len(report.sealed)


KILLED = """
import os, signal, sys
import flightlog

settings = flightlog.StoreSettings(segment_size=65536, queue_file_entries=100, flush_interval_ms=3_600_000)
store = flightlog.open(sys.argv[1], settings)
store.put_many([flightlog.Message("t", bytes(200)) for n in range(300)])
store.flush()
store.put_many([flightlog.Message("t", bytes(200)) for n in range(600)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_not_durable_is_not_sealed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-P", "-c", KILLED, str(tmp_path / "store")])
    report = flightlog.seal(tmp_path / "store")
    with flightlog.open_read_only(tmp_path / "store") as view:
        durable = view.shutdown_state.durable_below
        assert durable < view.end_physical_offset
    assert len(report.sealed) + report.kept <= durable // SIZE


def test_it_is_refused(root: Path, tmp_path: Path) -> None:
    with flightlog.open(root):
        with pytest.raises(flightlog.StoreLockedError):
            flightlog.seal(root, write=True)
        flightlog.seal(root)
    with pytest.raises(flightlog.StoreNotFoundError):
        flightlog.seal(tmp_path / "none", write=True)
    with pytest.raises(flightlog.StoreNotFoundError):
        (tmp_path / "empty").mkdir()
        flightlog.seal(tmp_path / "empty", write=True)
    assert not list((tmp_path / "empty").iterdir())
