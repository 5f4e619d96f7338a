"""`flightlog clean`: what killed Spark jobs left staged is listed, and removed only where that is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

WEEK_S = 7 * 24 * 3600


def leave_job(staging: Path, name: str, age_s: float) -> Path:
    job = staging / name
    job.mkdir(parents=True)
    (job / "part-00000-a.arrow").write_bytes(bytes(2048))
    for path in (job / "part-00000-a.arrow", job):
        os.utime(path, (time.time() - age_s,) * 2)
    return job


def test_what_killed_jobs_left_is_listed_and_removed_when_asked(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    staging = clean_store / "flightlog" / "staging"
    finished = cli("clean", clean_store)
    assert (finished.code, finished.out) == (0, "left behind: 0 jobs, 0 bytes\n")
    dead, running = leave_job(staging, "job-dead", WEEK_S), leave_job(staging, "job-running", -WEEK_S)
    (staging / "letters").mkdir()
    (staging / "job-link").symlink_to(tmp_path)
    finished = cli("clean", clean_store)
    assert finished.code == 0 and str(dead) in finished.out and str(running) not in finished.out
    assert "left behind: 1 job, 2" in finished.out and dead.exists(), "nothing is removed without being asked for"
    finished = cli("clean", clean_store, "--write")
    assert finished.code == 0 and "removed: 1 job, 2" in finished.out
    assert not dead.exists()
    assert sorted(path.name for path in staging.iterdir()) == ["job-link", "job-running", "letters"]
    elsewhere = leave_job(tmp_path / "shared", "job-dead", WEEK_S)
    assert cli("clean", clean_store, "--staging", tmp_path / "shared", "--write").code == 0
    assert not elsewhere.exists() and tmp_path.exists()
    with flightlog.open_read_only(clean_store) as view:
        assert view.verify().is_clean


def test_a_folder_that_is_not_there_is_named(cli: Cli, tmp_path: Path) -> None:
    finished = cli("clean", tmp_path / "none")
    assert finished.code == 2 and "none: no such folder; expected the folder of a store" in finished.err
