"""The rules of tests/conftest.py, tried on a toy suite: nothing skips on CI, `full` runs only when asked for, and a
file stays in one process. And what CI runs: `make test` and `make test-long`, which are the whole suite together; every
test runs once, a failure is final, and the slowest are shown."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
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
TOGETHER = """
import os
import pytest

@pytest.fixture(scope="module")
def process():
    return os.getpid()

@pytest.mark.parametrize("number", range(6))
def test_together(number, process, record_property):
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{__name__} {process}\\n")
"""
CRASHING = """
import os, signal
import pytest

def test_together():
    os.kill(os.getpid(), signal.SIGSEGV)

@pytest.mark.parametrize("number", range(20))
def test_together_behind(number):
    pass
"""
SKIPPING_MODULE = "import pytest\npytest.skip('whole module', allow_module_level=True)\n"


ROOT = Path(__file__).parents[2]
RETRIES = re.compile(
    r"\brerun|rerunfailures|\bflaky\b|pytest[-_]retry|--retries|--last-failed|--lf\b|\|\| *(make|pytest)"
)
"""What would run a failed test once more: plugins, their options and marks, and a second start."""
ENDING = frozenset(("HUP", "INT", "QUIT", "TERM"))
"""Signals that a suite may have been started with ignored, and its children with it."""
SENDS = re.compile(
    r"\b(?:send_signal|os\.kill|os\.killpg|pthread_kill|raise_signal)"
    r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"  # brackets in brackets, twice
)


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
    found, said = outcome(tmp_path)
    assert found == {"passed": 1, "skipped": 4, "deselected": 1, "xfailed": 1, "xpassed": 1}
    listed = said[said.index("skipped, by reason") :].splitlines()
    assert "     1 no such tool" in listed


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


@pytest.mark.ci
def test_a_file_stays_in_one_process(tmp_path: Path) -> None:
    """Its fixtures are made once. pytest-xdist loses its groups in silence where it does not know pytest's version."""
    for name in ("test_one.py", "test_other.py"):
        (tmp_path / name).write_text(TOGETHER)
    found, said = outcome(tmp_path, "-n", "2", "--dist", "loadgroup", "-k", "together", SEEN=str(tmp_path / "seen"))
    assert found["passed"] == 12, said
    seen = (tmp_path / "seen").read_text().splitlines()
    assert len(seen) == 12 and len({line.split()[0] for line in set(seen)}) == len(set(seen)) == 2, seen


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_a_crash_ends_the_run(tmp_path: Path) -> None:
    """It once hung until its time was over, and said nothing."""
    (tmp_path / "test_crash.py").write_text(CRASHING)
    for number in range(8):
        (tmp_path / f"test_{number}.py").write_text(TOGETHER)
    processes = shlex.split(recipe("test"))
    processes = processes[processes.index("--dist") : processes.index("-m")]
    _, said = outcome(tmp_path, "-n", "2", *processes, "-k", "together", SEEN=str(tmp_path / "seen"))
    assert re.search(r"\b1 failed\b", said) and "crashed while running 'test_crash.py::test_together" in said, said


def recipe(target: str) -> str:
    """What `make TARGET` would do, variables filled in."""
    if shutil.which("make") is None:
        pytest.skip("make is not here")
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", target, "VENV=.none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    [line] = [line for line in done.stdout.splitlines() if "bin/pytest" in line]
    return line


def test_ci_runs_the_whole_suite_once_and_shows_the_slowest_of_every_run() -> None:
    assert "-m 'not ci'" in recipe("test") and "-m ci" in recipe("test-long")
    targets = {
        word for line in re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), re.M) for word in line.split()
    }
    assert {"check", "test", "test-long", "test-lowest-spark"} <= targets
    for target in ("test", "test-long", "test-lowest-spark"):
        assert "--durations=10" in recipe(target), target


def test_the_files_that_make_names_are_there() -> None:
    for target in ("campaign", "test-lowest-spark"):
        named = re.findall(r"tests/\S+", recipe(target))
        assert named and all((ROOT / name).exists() for name in named), named


def test_nothing_is_retried() -> None:
    """A test that passes the second time is a defect that was seen: it fails the run."""
    for name in ("Makefile", ".ci/run", "pyproject.toml", "tests/conftest.py"):
        assert not RETRIES.search((ROOT / name).read_text()), name
    plugins = {entry.dist.name.lower() for entry in importlib.metadata.entry_points(group="pytest11") if entry.dist}
    assert not [name for name in plugins if RETRIES.search(name)], plugins
    marked = [
        path.name for path in (ROOT / "tests").rglob("test_*.py") if re.search(r"mark\.(flaky|retry)", path.read_text())
    ]
    assert not marked


def signals_sent(text: str) -> set[str]:
    """Names of signals that a program may ignore, for it was started so, and that this code sends: "?" one that only
    a variable knows."""
    found = {"TERM"} if ".terminate()" in text else set[str]()
    for given in SENDS.findall(text):
        names = set(re.findall(r"\bSIG([A-Z0-9]+)", given))
        found |= (names & ENDING) if names or re.search(r"\b\d+$", given) else {"?"}
    return found


def is_deaf(text: str, imported: Sequence[str]) -> bool:
    """Whether it sends such a signal to a child that was not told to listen, or to itself."""
    starts = re.search(r"\b(Popen|subprocess\.run|os\.fork)\(", text)
    if any("default_signals" in each for each in ([text] if starts else [text, *imported])):
        return False
    return any(not re.search(rf"signal\.signal\(signal\.SIG{name}\b", text) for name in signals_sent(text))


def test_a_child_that_a_test_interrupts_listens_to_interrupts() -> None:
    """`tail -f` of a test never ended where a shell had started the suite behind itself: SIGINT was ignored there."""
    tests = ROOT / "tests"
    texts = {path: path.read_text() for path in tests.rglob("*.py") if path != Path(__file__).resolve()}
    deaf = []
    for path, text in texts.items():
        modules = [
            tests.joinpath(*name.split(".")) for name in re.findall(r"^from flightlog\.tests\.(\S+)", text, re.M)
        ]
        if is_deaf(text, [texts.get(module.with_suffix(".py"), "") for module in modules]):
            deaf.append(str(path.relative_to(ROOT)))
    assert not deaf, f"{deaf}: expected preexec_fn=signals.default_signals where they start the child"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("child.send_signal(signal.SIGINT)", True),
        ("os.kill(child.pid, signal.SIGHUP)", True),
        ("os.killpg(os.getpgid(child.pid), signal.SIGTERM)  # all", True),
        ("os.kill(child.pid, number)", True),
        ("child.terminate()", True),
        ("signal.pthread_kill(main, signal.SIGINT)", True),
        ("signal.raise_signal(signal.SIGQUIT)", True),
        ("os.kill(child.pid, signal.SIGKILL), os.killpg(pid, 0), os.kill(pid, 9)", False),
        ("os.kill(pid, signal.SIGSTOP)\nos.kill(pid, signal.SIGCONT)", False),
        ("signal.signal(signal.SIGINT, handler)\nos.kill(pid, signal.SIGINT)", False),
        ("signal.signal(signal.SIGINT, handler)\nos.kill(pid, signal.SIGHUP)", True),
        ("subprocess.Popen(command, preexec_fn=signals.default_signals).terminate()", False),
    ],
)
def test_what_sends_a_signal_that_a_child_may_ignore(text: str, expected: bool) -> None:
    """Only `send_signal` of a name was looked for, and neither `os.kill` nor SIGTERM."""
    assert is_deaf(text, []) == expected


def test_who_starts_a_child_tells_it_to_listen() -> None:
    starter = "subprocess.Popen(command, preexec_fn=signals.default_signals)"
    assert not is_deaf("child.terminate()", [starter])
    assert is_deaf("subprocess.Popen(command).terminate()", [starter])
