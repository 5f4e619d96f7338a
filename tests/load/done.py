"""Files that passed a round at one commit, kept so that a later run at the same commit leaves them out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path


class UncommittedChangesError(Exception):
    """What the tests run is no commit, so nothing that passes can be kept for it."""


def commit_of(checkout: Path) -> str:
    """The commit that is checked out. Raises UncommittedChangesError where a tracked file differs from it."""
    changed = _git(checkout, "status", "--porcelain", "--untracked-files=no").splitlines()
    if changed:
        raise UncommittedChangesError(
            f"{checkout}: {len(changed)} files differ from the commit, the first is {changed[0][3:]}; --done counts "
            "what passed at one commit: commit them, or run without it"
        )
    return _git(checkout, "rev-parse", "HEAD").strip()


def _git(checkout: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True).stdout


class Done:
    """A file with a line for every turn that passed, of any commit and any kind of run; those of one of each count.

    `run_kind` says how the tests ran, for example which marker chose them. Lines are appended as turns pass, so a run
    may be stopped at any moment."""

    def __init__(self, file: Path, commit: str, run_kind: str) -> None:
        self._file = file
        self._of = {"commit": commit, "kind": run_kind}
        lines = file.read_text().splitlines() if file.exists() else []
        known = [json.loads(line) for line in lines]
        self._passed = {(line["path"], line["round"]) for line in known if self._of.items() <= line.items()}

    def __contains__(self, turn: tuple[str, int]) -> bool:
        """Whether this file (its path in the checkout) passed in this round."""
        return turn in self._passed

    def add(self, path: str, round_number: int) -> None:
        self._passed.add((path, round_number))
        with self._file.open("a") as file:
            file.write(json.dumps({**self._of, "path": path, "round": round_number}) + "\n")
