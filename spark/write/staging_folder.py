"""The folders of jobs in a staging folder (see staging.py): created, removed, and found after a job was killed.

The end of a job renames its folder and removes it, so a late task cannot write into it. The first write that begins
after a folder has not changed for STALE_S removes what a killed driver or executor left. Removing the folder of a
running job does not harm the store: the job fails, and appends nothing.

Needs neither pyspark nor pyarrow.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...store.disk.disk_errors import disk_errors

log = logging.getLogger("flightlog.spark")

STALE_S = 24 * 3600
"""A running task writes to its file far more often."""
JOB_PREFIX = "job-"


@dataclass(frozen=True, slots=True)
class StagedJob:
    """The folder of one write."""

    path: Path
    size: int
    """Bytes of its files."""
    changed_s: float
    """Time of the last change in it, in seconds of the epoch."""


def staged_jobs(staging: Path, *, idle_s: float = 0) -> list[StagedJob]:
    """The jobs in a staging folder that have not changed for `idle_s` seconds, oldest first. Raises DiskError."""
    found = []
    latest_s = time.time() - idle_s
    with disk_errors(staging, "looking for what Spark jobs left"):
        for folder in staging.iterdir() if staging.is_dir() else ():
            if not folder.name.startswith(JOB_PREFIX) or folder.is_symlink() or not folder.is_dir():
                continue
            with suppress(FileNotFoundError):  # it ended just now
                job = _looked_at(folder)
                if job.changed_s <= latest_s:
                    found.append(job)
    return sorted(found, key=lambda job: job.changed_s)


def remove_staged_job(job: StagedJob) -> None:
    """Remove the folder of a job. Raises DiskError."""
    with disk_errors(job.path, "removing what a Spark job left"), suppress(FileNotFoundError):
        shutil.rmtree(job.path)


def _looked_at(folder: Path) -> StagedJob:
    size, changed_s = 0, folder.stat().st_mtime
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            size, changed_s = size + status.st_size, max(changed_s, status.st_mtime)
    return StagedJob(folder, size, changed_s)


def make_job_folder(job: Path) -> None:
    """Create the folder for the files of a job's tasks. Raises DiskError."""
    with disk_errors(job, "making the folder of a write"):
        job.mkdir(parents=True)


def remove_job(job: Path) -> None:
    """Remove the files of a job that ended."""
    over = job.with_name(f"{job.name}.over")
    with suppress(FileNotFoundError):
        job.rename(over)
    shutil.rmtree(over, ignore_errors=True)
    if over.exists():
        log.warning("%s: not removed; a later write will remove it", over, extra={"path": str(over)})
    remove_if_empty(job.parent)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    with suppress(OSError):  # it holds something, or is gone
        folder.rmdir()


def remove_stale(staging: Path) -> None:
    """Remove what jobs with a killed driver left."""
    for job in staged_jobs(staging, idle_s=STALE_S):
        log.warning("%s: removed the staged files of a write that never ended", job.path, extra={"path": str(job.path)})
        shutil.rmtree(job.path, ignore_errors=True)
