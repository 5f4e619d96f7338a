"""Two readers in processes of their own follow a live writer from its first message to its last: none is wrong, missing
or there twice, across rolls and openings, in both flush modes, and what was read is found by its key, too."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import FlushMode
from flightlog.tests.support.followed_writer import PLACES

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

SUPPORT = Path(__file__).parents[1] / "support"
READERS = 2


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", str(SUPPORT / program), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def keep_together(writer: subprocess.Popen[str], readers: list[subprocess.Popen[str]]) -> None:
    """Let the writer go on whenever each reader has looked once more."""
    assert writer.stdin is not None
    with suppress(BrokenPipeError):  # it has ended by itself, and says why
        for _ in range(PLACES):
            for reader in readers:
                assert reader.stdout is not None
                reader.stdout.readline()
            writer.stdin.write("\n")
            writer.stdin.flush()


def ending(program: subprocess.Popen[str]) -> tuple[str, str]:
    """What else it says until it ends: `communicate` would pass over lines that `readline` has taken beforehand."""
    assert program.stdin is not None and program.stdout is not None and program.stderr is not None
    with suppress(BrokenPipeError):
        program.stdin.close()
    said = program.stdout.read(), program.stderr.read()
    program.wait()
    return said


@pytest.mark.ci
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", FlushMode)
def test_two_readers_follow_a_writer(mode: FlushMode, tmp_path: Path, scale: Scale, assert_clean: AssertClean) -> None:
    count = scale.pick(ci=50_000, full=1_000_000)
    segment_size = scale.pick(ci=256 << 10, full=8 << 20)
    (tmp_path / "commitlog").mkdir()  # readers come before there is a store
    readers = [start("follower.py", tmp_path, count, seed) for seed in range(READERS)]
    programs = [start("followed_writer.py", tmp_path, mode.name, count, segment_size), *readers]
    try:
        keep_together(programs[0], readers)
        said = [ending(program) for program in programs]
    finally:
        for program in programs:
            program.kill()
    for program, (_, errors) in zip(programs, said, strict=True):
        assert program.returncode == 0, errors
    for told, _ in said[1:]:
        seen = json.loads(told.splitlines()[-1])
        print(f"{mode.name}: {seen}")
        assert seen["count"] == count
        assert seen["segments"] >= 15
        assert seen["looks"] >= 20, "a reader that hardly ever looks proves nothing"
        assert seen["queries"] >= 10
    report = assert_clean(tmp_path)
    assert report.records == count
