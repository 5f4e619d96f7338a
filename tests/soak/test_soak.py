"""A minute of `make soak`, and whether it would find anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support import mounts

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

RUN = Path(__file__).with_name("run.py")
SEED = os.environ["FLIGHTLOG_SEED"]


@pytest.fixture
def soak(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`soak(minutes, …)` runs it in a process of its own, which leaves what it found in the folder of the test."""

    def run(minutes: float, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", str(RUN), "--minutes", str(minutes), "--seed", SEED, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
        print(done.stdout + done.stderr)
        return done

    return run


def facts(said: str) -> dict[str, int]:
    """The numbers that the lines of a summary begin with."""
    return {
        name: int(number) for name, number in re.findall(r"^(\S+(?: \S+)*) {2,}(?:in )?(\d+)\b", said, re.MULTILINE)
    }


Soak = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.ci
@pytest.mark.timeout(3600)
def test_a_soak_finds_nothing(soak: Soak, scale: Scale) -> None:
    mounts.needs_root()
    done = soak(scale.pick(ci=1, full=30))
    assert done.returncode == 0, done.stderr
    found = facts(done.stdout)
    assert found["findings"] == 0
    for what in ("kills", "power cuts", "full disks", "clean closes", "views"):
        assert found[what] > 0, f"{what}: {found}"
    assert found["same boots"] == (found["power cuts"] + 1) // 2
    assert found["messages refused"] > 0
    assert found["checks of acknowledged messages"] > 100


@pytest.mark.ci
@pytest.mark.timeout(1200)
def test_a_writer_that_acknowledges_before_its_sync_is_found_out(soak: Soak, tmp_path: Path) -> None:
    mounts.needs_root()
    done = soak(3, "--lies")
    assert done.returncode == 1
    how = r"(\d+ acknowledged messages are lost|the store cannot be opened: .* was already synced)"
    assert re.search(rf"FOUND, seed {SEED}: {how}", done.stderr)
    [kept] = tmp_path.glob("flightlog-soak-*")
    assert (kept / "store" / "commitlog").exists() and (kept / "ledger").stat().st_size > 0
    assert f"kept in {kept}" in done.stderr


@pytest.mark.ci
def test_without_a_file_system_of_its_own_it_kills_and_says_so(soak: Soak, tmp_path: Path) -> None:
    done = soak(0, "--plain")
    assert done.returncode == 0, done.stderr
    assert "kills alone, neither power cuts nor full disks" in done.stderr
    found = facts(done.stdout)
    assert found["kills"] == found["clean closes"] == 1 and found["power cuts"] == found["full disks"] == 0
    assert not [*tmp_path.iterdir()], "a soak that found nothing leaves nothing"
