"""Verify the small state files: topics, deleted topics, and everything else in `config/` that must be JSON."""

from __future__ import annotations

from pathlib import Path

from ...store.disk.config_file import CONFIG_FOLDER, MAX_CONFIG_SIZE, parse_config
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError, DiskError, TooManyFilesError
from ...store.state.deleted_topics import read_deleted
from ..topics.topics import read_topics
from .findings import Finding, Remedy, VerifyReport

LOOKS = 2
"""A broker overwrites these files in place: one that is looked at meanwhile may be whole a moment later."""


def check_state_files(disk: Disk, root: Path, report: VerifyReport) -> None:
    """Add findings for state files that cannot be read, and say whether their `.bak` can."""
    known = set()
    for entry in disk.list(root / CONFIG_FOLDER):
        path = root / CONFIG_FOLDER / entry.name
        if entry.is_folder or path.suffix != ".json":
            continue
        problem = _problem(disk, path)
        if problem is None:
            continue
        backup = path.with_name(path.name + ".bak")
        aside: tuple[Path, ...] = (path,)
        if disk.exists(backup) and _problem(disk, backup) is None:
            text = f"{problem}; {backup.name} is whole and is read in its place"
        else:
            text = f"{problem}, and there is no {backup.name} that is whole: what it said is lost"
            aside += (backup,) if disk.exists(backup) else ()
        mend = "restore it from a copy, or delete it: its .bak is then read, or defaults apply"
        report.findings.append(Finding(path, 0, text, mend, Remedy.SET_ASIDE, aside))
        known |= {path, backup}
    try:
        read_topics(disk, root)
        read_deleted(disk, root)
    except ConfigFileError as e:
        if e.path not in known:
            mend = (
                "restore it from a copy, or delete it: topics are then told from the queues, and deleted ones forgotten"
            )
            report.findings.append(Finding(e.path, 0, e.found, mend, Remedy.SET_ASIDE))
    except TooManyFilesError:
        raise  # not a property of the file
    except DiskError as e:
        path_text, _, meaning = str(e).partition(": ")
        report.findings.append(Finding(Path(path_text), 0, meaning, "look after the disk, and restore it from a copy"))


def _problem(disk: Disk, path: Path) -> str | None:
    """Why the file cannot be read; None if it can, or is gone meanwhile. A bad sector is a finding of its own."""
    problem = None
    for _ in range(LOOKS):
        try:
            file = disk.open(path)
        except FileNotFoundError:
            return None
        except DiskError:
            return None
        try:
            if file.size() > MAX_CONFIG_SIZE:
                return f"{file.size()} bytes, a state file has at most {MAX_CONFIG_SIZE}"
            raw = file.read(0, file.size())
        except DiskError:
            return None
        finally:
            file.close()
        if not raw:
            problem = "empty, as a power cut leaves a file that was being written"
            continue
        try:
            parse_config(raw, path)
        except ConfigFileError as e:
            problem = e.found
            continue
        return None
    return problem
