"""The rules of tests/conftest.py, tried on a toy suite: nothing skips on CI, and `full` runs only when asked for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOY = """
import pytest

def test_plain(scale):
    assert scale.pick(ci=1, full=2) == (2 if scale.full else 1)

@pytest.mark.full
def test_full(scale):
    assert scale.full

def test_skips():
    pytest.skip("no such tool")

@pytest.mark.skipif(True, reason="never here")
def test_is_marked():
    pass

@pytest.mark.xfail(strict=False)
def test_expected_failure():
    assert False

@pytest.mark.xfail(strict=False)
def test_unexpected_success():
    pass

def test_golden(golden):
    golden("nothing-of-this-name")
"""
SKIPPING_MODULE = "import pytest\npytest.skip('whole module', allow_module_level=True)\n"


def outcome(folder: Path, *arguments: str, **environment: str) -> tuple[dict[str, int], str]:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    ci\n    full\n")
    (folder / "test_toy.py").write_text(TOY)
    (folder / "test_module.py").write_text(SKIPPING_MODULE)
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "FLIGHTLOG_FULL")}
    command = [sys.executable, "-P", "-m", "pytest", "--import-mode=importlib", "-p", "no:cacheprovider", *arguments]
    finished = subprocess.run(command, cwd=folder, env={**inherited, **environment}, capture_output=True, text=True)
    closing = finished.stdout.splitlines()[-1]
    return {word.rstrip("s"): int(count) for count, word in re.findall(r"(\d+) (\w+)", closing)}, finished.stdout


@pytest.mark.ci
def test_off_ci_a_skip_is_a_skip(tmp_path: Path) -> None:
    found, _ = outcome(tmp_path)
    assert found == {"passed": 1, "skipped": 4, "deselected": 1, "xfailed": 1, "xpassed": 1}


@pytest.mark.ci
def test_on_ci_every_skip_and_expected_failure_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    found, said = outcome(tmp_path, "--continue-on-collection-errors", CI="true")
    assert found == {"passed": 1, "failed": 4, "error": 2, "deselected": 1}
    for reason in ("no such tool", "never here", "whole module", "nothing-of-this-name.tar.xz is not here"):
        assert reason in said


@pytest.mark.ci
@pytest.mark.parametrize(("arguments", "environment"), [(["--full"], {}), ([], {"FLIGHTLOG_FULL": "1"})])
def test_full_runs_when_asked_for(tmp_path: Path, arguments: list[str], environment: dict[str, str]) -> None:
    found, _ = outcome(tmp_path, *arguments, "-k", "plain or full", **environment)
    assert found["passed"] == 2
