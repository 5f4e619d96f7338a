"""What `backup` and `copy` share: the argument OUT, progress, and the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ....engine.backup.backup import BackupResult
from ...output import Output
from ...progress_bar import ProgressBar
from ...words import count_text, printable, size_text

NewFolder = Annotated[Path, typer.Argument(help="The folder of the copy.", show_default=False)]


def copying(path: Path) -> ProgressBar:
    """Shows that it goes on: how much will have to be written is not known before."""
    return ProgressBar(f"copying {printable(str(path))}")


def show_copy(done: str, result: BackupResult, *, as_json: bool) -> None:
    if as_json:
        found = {"path": str(result.path), "copied_size": result.copied_size, "segment_count": result.segment_count}
        print(json.dumps(found, indent=2))
        return
    segments = count_text(result.segment_count, "segment")
    Output().line(f"{done}: {size_text(result.copied_size)}, {segments} written, in {printable(str(result.path))}")
