"""What killed drivers and executors left in a staging folder (see staging.py): finding it, and removing it.

Needs neither pyspark nor pyarrow. A job that still runs has a folder there, too, whose files change as its tasks write.
To remove it does no harm to the store: the job fails, and appends nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...store.disk.disk_errors import disk_errors
from ...store.state.progress import FLIGHTLOG_FOLDER
from ..options.write_options import STAGING_FOLDER

JOB_PREFIX = "job-"


@dataclass(frozen=True, slots=True)
class StagedJob:
    """The folder of one write."""

    path: Path
    size: int
    """Bytes of its files."""
    changed_s: float
    """When anything in it last changed, in seconds of the epoch."""


def default_staging(root: Path) -> Path:
    """The staging folder of a store, where the option stagingPath names no other."""
    return root / FLIGHTLOG_FOLDER / STAGING_FOLDER


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
