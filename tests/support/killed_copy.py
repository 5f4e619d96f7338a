"""A copy of a live store, as a SIGKILL would leave it."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_as_killed(live: Path, target: Path) -> Path:
    """See the fixture of that name in tests/engine/conftest.py."""
    shutil.copytree(live / "flightlog", target / "flightlog", copy_function=_copy)
    left_out = shutil.ignore_patterns("lock", "flightlog")
    shutil.copytree(live, target, ignore=left_out, copy_function=_copy, dirs_exist_ok=True)
    (target / "lock").write_bytes(b"lock")
    return target


def _copy(source: str, target: str) -> None:
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:  # a state file got its name since the folder was listed
        if not source.endswith((".json", ".tmp")):
            raise
