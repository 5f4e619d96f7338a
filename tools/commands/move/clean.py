"""`flightlog clean PATH`: list and remove the files of killed Spark drivers in a store's staging folder."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from ....spark.options.write_options import default_staging
from ....spark.write.staging_folder import remove_staged_job, staged_jobs
from ....store.errors import StoreNotFoundError
from ...output import Column, Output
from ...records.fields import iso_time
from ...words import count_text, printable, size_text
from ..arguments import AsJson, StorePath, Write

Staging = Annotated[
    Path | None,
    typer.Option(help="The folder that the option stagingPath of the writes names.", show_default="PATH's own"),
]


def clean(
    path: StorePath,
    write: Write = False,
    idle_minutes: Annotated[
        int, typer.Option(min=0, help="Pass over jobs that changed within this time: they may still run.")
    ] = 60,
    staging: Staging = None,
    as_json: AsJson = False,
) -> None:
    """List the rows that killed Spark jobs left staged. Removes them only with --write.

    Nothing of the store itself is touched. A job that still runs fails if its folder is removed, and appends nothing.
    """
    if not path.is_dir():
        raise StoreNotFoundError(f"{path}: no such folder; expected the folder of a store")
    jobs = staged_jobs(default_staging(path) if staging is None else staging, idle_s=60 * idle_minutes)
    for job in jobs if write else ():
        remove_staged_job(job)
    if as_json:
        left = [
            {"path": str(job.path), "size": job.size, "changed_time": iso_time(int(job.changed_s * 1000))}
            for job in jobs
        ]
        print(json.dumps({"is_written": write, "jobs": left}, indent=2))
        return
    output, now_s = Output(), time.time()
    rows = [
        [size_text(job.size), f"{max(now_s - job.changed_s, 0) / 60:,.0f}", printable(str(job.path))] for job in jobs
    ]
    output.table("Staged by jobs", [Column("size", True), Column("minutes idle", True), Column("folder")], rows)
    what = f"{count_text(len(jobs), 'job')}, {size_text(sum(job.size for job in jobs))}"
    if write:
        output.line(f"removed: {what}")
    else:
        output.line(f"left behind: {what}" + (". Remove it with --write" if jobs else ""))
