"""A store whose log has gone, with what should tell of it: no new log is begun over the old queues."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import CorruptLogError, DamagedStoreError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings(segment_size=8192)


def remains(root: Path) -> dict[str, bytes]:
    """What is there but the lock, which is taken and let go of."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def stored(path: Path, *gone: str) -> dict[str, bytes]:
    with flightlog.open(path, SETTINGS) as store:
        store.put_many([Message("t", b"%d" % i) for i in range(100)])
    for name in gone:
        if (path / name).is_dir():
            shutil.rmtree(path / name)
        else:
            (path / name).unlink()
    return remains(path)


@pytest.mark.parametrize("gone", [("commitlog", "checkpoint"), ("commitlog", "checkpoint", "consumequeue")])
def test_a_log_that_is_gone_with_its_checkpoint(gone: tuple[str, ...], tmp_path: Path) -> None:
    before = stored(tmp_path, *gone)
    for _ in range(2):
        with pytest.raises(DamagedStoreError, match="a progress page that records .* no segment .*Restore"):
            flightlog.open(tmp_path, SETTINGS)
        assert remains(tmp_path) == before, "nothing was changed"


def test_a_log_that_is_gone_with_everything_but_the_queues(tmp_path: Path) -> None:
    before = stored(tmp_path, "commitlog", "checkpoint", "flightlog", "config")
    with pytest.raises(DamagedStoreError, match=r"1 queues that hold messages \(topic 't', queue 0\), but no segment"):
        flightlog.open(tmp_path, SETTINGS)
    assert remains(tmp_path) == before


def test_a_log_of_ours_that_is_gone_alone(tmp_path: Path) -> None:
    stored(tmp_path, "commitlog")
    with pytest.raises(CorruptLogError, match="before what was synced"):
        flightlog.open(tmp_path, SETTINGS)


def test_a_log_of_rocketmq_that_is_gone(golden_copy: Callable[[str], Path]) -> None:
    root = golden_copy("rollover") / "store"
    shutil.rmtree(root / "commitlog")
    before = remains(root)
    with pytest.raises(DamagedStoreError, match="queues that hold messages .*no segment of that log .*commitlog"):
        flightlog.open(root)
    assert remains(root) == before | {"lock": before.get("lock", b"")}


def test_what_is_said_to_do_helps(golden_copy: Callable[[str], Path], assert_clean: AssertClean) -> None:
    """The log is put back; or all but config/ is moved away, and topics stay."""
    root = golden_copy("rollover") / "store"
    (root / "commitlog").rename(root.parent / "aside")
    with pytest.raises(DamagedStoreError, match="Restore the segments"):
        flightlog.open(root)
    shutil.rmtree(root / "commitlog")
    (root.parent / "aside").rename(root / "commitlog")
    with flightlog.open(root) as store:
        store.create_topic("made", 3)
        assert sum(end - start for start, end in store.queues().values()) > 0
    assert_clean(root)
    for path in root.iterdir():
        if path.name not in ("config", "lock"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with flightlog.open(root, SETTINGS) as store:
        assert store.topics()["made"].read_queue_count == 3 and store.queues() == {}
        store.put(Message("t", b"new"))
    assert assert_clean(root).records == 1


def test_a_store_whose_first_session_died_before_its_first_segment(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Its progress page says that no byte was durable: what else is left is worth nothing."""
    with flightlog.open(tmp_path / "new", SETTINGS) as store:
        shutil.copytree(tmp_path / "new", tmp_path / "died")
        store.put_many([Message("t", b"%d" % i) for i in range(100)])
        store.queues()
        shutil.copytree(tmp_path / "new" / "consumequeue", tmp_path / "died" / "consumequeue")
    for segment in (tmp_path / "died" / "commitlog").iterdir():
        segment.unlink()
    with flightlog.open(tmp_path / "died", SETTINGS) as store:
        assert [message.body for message in store.read("t")] == []
        store.put(Message("t", b"first"))
    assert assert_clean(tmp_path / "died").records == 1
