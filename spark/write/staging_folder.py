"""The folders of jobs in a staging folder (see staging.py): made, removed, and found where a killed job left them.

The end of a job removes its folder: under another name, so that no task which is late can put anything into it. What a
killed driver or executor left is removed by the first write that begins after it has not changed for STALE_S. A job
that still runs has a folder there, too, whose files change as its tasks write. To remove it does no harm to the store:
the job fails, and appends nothing.

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
"""A task that works writes to its file far more often."""
JOB_PREFIX = "job-"


@dataclass(frozen=True, slots=True)
class StagedJob:
    """The folder of one write."""

    path: Path
    size: int
    """Bytes of its files."""
    changed_s: float
    """When anything in it last changed, in seconds of the epoch."""


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
    """Where the tasks of a job write. Raises DiskError."""
    with disk_errors(job, "making the folder of a write"):
        job.mkdir(parents=True)


def remove_job(job: Path) -> None:
    """Remove the files of a job that is over, however it ended."""
    over = job.with_name(f"{job.name}.over")
    with suppress(FileNotFoundError):
        job.rename(over)
    shutil.rmtree(over, ignore_errors=True)
    if over.exists():
        log.warning("%s: not removed; a later write will", over, extra={"path": str(over)})
    remove_if_empty(job.parent)


def remove_if_empty(folder: Path) -> None:
    """A folder that holds nothing goes."""
    with suppress(OSError):  # it holds something, or is gone
        folder.rmdir()


def remove_stale(staging: Path) -> None:
    """Remove what jobs left whose driver was killed."""
    for job in staged_jobs(staging, idle_s=STALE_S):
        log.warning("%s: removed; a write that never ended left it", job.path, extra={"path": str(job.path)})
        shutil.rmtree(job.path, ignore_errors=True)
