"""What `make load-test` with `--done` leaves out: what passed at the same commit, run in the same way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flightlog.tests.load.done import Done, UncommittedChangesError, commit_of

ONE, OTHER = ("tests/a.py", 1), ("tests/a.py", 2)


def test_a_later_run_leaves_out_what_passed(tmp_path: Path) -> None:
    first = Done(tmp_path / "done", "c1", "not ci")
    assert ONE not in first
    first.add(*ONE)
    assert ONE in first and OTHER not in first
    later = Done(tmp_path / "done", "c1", "not ci")
    assert ONE in later and OTHER not in later


@pytest.mark.parametrize(("commit", "kind"), [("c2", "not ci"), ("c1", "ci")])
def test_what_passed_elsewhere_does_not_count(tmp_path: Path, commit: str, kind: str) -> None:
    Done(tmp_path / "done", "c1", "not ci").add(*ONE)
    other = Done(tmp_path / "done", commit, kind)
    assert ONE not in other
    other.add(*OTHER)
    assert OTHER not in Done(tmp_path / "done", "c1", "not ci")


def test_a_changed_checkout_is_no_commit(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD").strip()
    (tmp_path / "new").write_text("untracked files do not count")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD").strip()
    (tmp_path / "file").write_text("2")
    with pytest.raises(UncommittedChangesError, match="1 files differ from the commit, the first is file"):
        commit_of(tmp_path)
