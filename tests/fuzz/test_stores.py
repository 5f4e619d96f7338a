"""Whole stores with damage drawn by lot: flipped, zeroed, cut, spliced, swapped, renamed and missing files.

Each case is read by a view, verified, read as Spark's tasks read it, and opened for writing, which may be refused by
name; then it takes a message, is closed, and is read again. tests/support/damaged_stores.py says what must not happen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.store import native
from flightlog.store.errors import CorruptRecordError
from flightlog.store.state.progress import BOOT, boot_number, progress_path
from flightlog.tests.support import damaged_stores

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "damaged_stores.py"
IN_MEMORY = Path("/dev/shm")
OURS = ("closed", "killed", "running")
FROM_ROCKETMQ = ("rocketmq-halted", "rocketmq-phantoms")
GOLDEN = ("batch-bcq", "cqext", "lmq", "delay-tx")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder in memory: thousands of files are made and removed."""
    made = Path(tempfile.mkdtemp(prefix="flightlog-stores-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def sound(folder: Path, golden: Callable[[str], Path]) -> Callable[[str], Path]:
    """`sound("closed")`: a store without damage. `running` is the one whose writer was killed within this boot of the
    machine, `killed` before it."""

    def get(name: str) -> Path:
        store = folder / name
        if name in OURS and not store.exists():
            with tarfile.open(Path(__file__).with_name("stores.tar.xz")) as archive:
                archive.extractall(folder)
            shutil.copytree(folder / "killed", folder / "running")
            for each, boot in (("running", boot_number()), ("killed", boot_number() ^ 1)):
                with open(progress_path(folder / each), "r+b") as page:
                    page.seek(BOOT * 8)
                    page.write(boot.to_bytes(8, "little"))
        elif name in FROM_ROCKETMQ and not store.exists():
            with tarfile.open(ROOT / "tests" / "data" / f"{name}.tar.xz") as archive:
                archive.extractall(folder / "unpacked" / name)
            (folder / "unpacked" / name / "store").rename(store)
        elif not store.exists():
            shutil.copytree(golden(name) / "store", store)
        return store

    return get


@pytest.mark.ci
@pytest.mark.parametrize("name", [*OURS, *FROM_ROCKETMQ, *GOLDEN])
def test_damage_of_every_kind(name: str, scale: Scale, sound: Callable[[str], Path], folder: Path) -> None:
    count = scale.pick(ci=30 if name in OURS else 12, full=5000)
    seed = os.environ["FLIGHTLOG_SEED"]
    command = [sys.executable, "-P", str(PROGRAM), str(folder / f"cases-{name}"), native.NAME, seed, "0", str(count)]
    tried = subprocess.run([*command, str(sound(name))], capture_output=True, text=True)
    print(tried.stdout)
    assert tried.returncode == 0, tried.stdout + tried.stderr


@pytest.mark.ci
@pytest.mark.parametrize("name", [*OURS, *FROM_ROCKETMQ, *GOLDEN])
def test_what_is_damaged_is_found_mended_and_salvaged(
    name: str, scale: Scale, sound: Callable[[str], Path], folder: Path
) -> None:
    """10,000 cases in a full run."""
    count = scale.pick(ci=14, full=1_112)
    seed = os.environ["FLIGHTLOG_SEED"]
    program = PROGRAM.with_name("mended_stores.py")
    command = [sys.executable, "-P", str(program), str(folder / f"mended-{name}"), native.NAME, seed, "0", str(count)]
    tried = subprocess.run([*command, str(sound(name))], capture_output=True, text=True)
    print(tried.stdout)
    assert tried.returncode == 0, tried.stdout + tried.stderr


@pytest.mark.parametrize("name", OURS)
def test_without_damage_everything_is_there(name: str, sound: Callable[[str], Path], tmp_path: Path) -> None:
    """What the cases are judged by is itself what the store holds."""
    root = Path(shutil.copytree(sound(name), tmp_path / "store"))
    stored = damaged_stores.stored_in(root)
    with flightlog.open_read_only(root) as view:
        report = view.verify()
        read = [m for key in view.queues() for m in view.read(*key)]
    assert {(m.physical_offset, m.batch_index) for m in read} <= stored.keys() and len(read) > 90
    # A writer that may be at work has its queues a little behind, and one that was killed before a reboot.
    assert report.is_clean and bool(report.lag) == (name in ("killed", "running"))
    case = damaged_stores.Case(root, stored)
    case.run()
    told = case.told["findings"], case.told["clean"], case.told["opened"]
    assert told == (0, 2, 1)


def test_an_invented_message_is_seen(sound: Callable[[str], Path], tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound("closed"), tmp_path / "store"))
    stored = damaged_stores.stored_in(root)
    stored[next(iter(stored))] = b"other"
    with pytest.raises(damaged_stores.InventedError):
        damaged_stores.Case(root, stored).run()


def test_a_flipped_bit_in_any_body_is_found(sound: Callable[[str], Path], tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound("closed"), tmp_path / "store"))
    with flightlog.open_read_only(root) as view:
        read = [(key, m) for key in view.queues() for m in view.read(*key) if m.batch_index is None and m.body]
        end = view.end_physical_offset
    assert len(read) > 90
    for number, (key, message) in enumerate(read):
        base = message.physical_offset // 4096 * 4096
        path = root / "commitlog" / f"{base:020d}"
        raw = path.read_bytes()
        at = raw.index(message.body, message.physical_offset - base) + number % len(message.body)
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << number % 8]) + raw[at + 1 :])
        with flightlog.open_read_only(root) as view:
            if message.physical_offset + message.size < end:
                with pytest.raises(CorruptRecordError):
                    list(view.read(*key))
            else:  # nothing follows: the log ends before it, and the view says so
                assert any(str(message.physical_offset) in damage for damage in view.report.damage)
            assert all(m.physical_offset != message.physical_offset for m in view.read(*key, on_corrupt="skip"))
            assert any(f.offset == message.physical_offset for f in view.verify().findings)
        path.write_bytes(raw)
