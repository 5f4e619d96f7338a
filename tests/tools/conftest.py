"""What the tests of the command line share.

- `cli("info", path)`: the command in a process of its own; whatever it says, no traceback may be in it.
- `hiding("typer")`: an environment in which packages look as if they were not installed.
- `clean_store`, `killed_store`, `rocketmq`: stores to look at, each test's own copy.
- `fingerprint`: proof that a folder was not touched.
- `in_memory`: a folder of this test alone on a file system in memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import flightlog
from flightlog.tools.bench.machine.machine import this_machine

IN_MEMORY = Path("/dev/shm")
TIMEOUT_S = 1500  # a benchmark on a machine that may do a lot besides
SPARKS_DAEMON = "pyspark/daemon.py"
"""Its processes may complain of a broken pipe when a session ends under them on a busy machine, all at once. Nothing of
ours is in that."""
DATA = Path(__file__).resolve().parents[1] / "data"
MESSAGES = 900
QUEUES = 3
SETTINGS = flightlog.StoreSettings(segment_size=64 << 10, queue_file_entries=100, flush_interval_ms=20)


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def cli() -> Callable[..., Finished]:
    """Runs `python -m flightlog ARGUMENTS`, or another module or file, and waits for it."""

    def run(
        *arguments: str | Path, module: str = "flightlog", env: Mapping[str, str] | None = None, launcher: str = ""
    ) -> Finished:
        start = ["-c", launcher] if launcher else []
        command = [sys.executable, "-P", *start, *([sys.executable, "-P"] if launcher else [])]
        command += [module] if module.endswith(".py") else ["-m", module]
        finished = subprocess.run(
            [*command, *arguments],
            env={**os.environ, "COLUMNS": "100", **(env or {})},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=TIMEOUT_S,
        )
        said = finished.stdout + finished.stderr
        frames = [line for line in said.splitlines() if line.startswith('  File "') and SPARKS_DAEMON not in line]
        # Spark's workers may be killed in the middle of what they say at the end: a headline without frames is theirs.
        assert not frames and "─ Traceback" not in said, finished.stderr
        return Finished(finished.returncode, finished.stdout, finished.stderr)

    return run


HIDING = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""


@pytest.fixture
def hiding(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """`hiding("typer", "rich")`: the environment of a machine where these packages are not installed."""

    def environment(*hidden: str) -> dict[str, str]:
        folder = tmp_path / "hiding"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(HIDING.format(hidden=set(hidden)))
        return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}

    return environment


def _messages(count: int) -> list[flightlog.Message]:
    return [
        flightlog.Message("orders", b"%06d" % i * 20, tags="create", keys=f"order-{i}", queue_id=i % QUEUES)
        for i in range(count)
    ]


@pytest.fixture(scope="session")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """900 messages in three queues and several segments, closed cleanly. Read it, never write to it."""
    path = tmp_path_factory.mktemp("written") / "store"
    with flightlog.open(path, SETTINGS) as store:
        store.put_many(_messages(MESSAGES))
    return path


@pytest.fixture
def clean_store(written_store: Path, tmp_path: Path) -> Path:
    """A copy of it that the test may damage."""
    return Path(shutil.copytree(written_store, tmp_path / "store"))


KILLED_WRITER = """
import os, signal, sys
import flightlog

store = flightlog.open(sys.argv[1], flightlog.StoreSettings(segment_size=65536, queue_file_entries=100))
for i in range(int(sys.argv[2])):
    store.put(flightlog.Message("orders", b"%06d" % i * 20, tags="create", keys=f"order-{i}", queue_id=i % 3))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed_store(tmp_path: Path) -> Path:
    """900 messages in three queues whose writer was killed right after the last put."""
    path = tmp_path / "killed"
    finished = subprocess.run([sys.executable, "-P", "-c", KILLED_WRITER, str(path), str(MESSAGES)])
    assert finished.returncode == -signal.SIGKILL
    return path


@pytest.fixture
def rocketmq(tmp_path: Path) -> Callable[[str], Path]:
    """`rocketmq("clean")` or `rocketmq("halted")`: what RocketMQ wrote, with its manifest beside `store/`."""

    def unpack(name: str) -> Path:
        folder = tmp_path / name
        with tarfile.open(DATA / f"rocketmq-{name}.tar.xz") as tar:
            tar.extractall(folder)
        return folder

    return unpack


@pytest.fixture(scope="session")
def fingerprint() -> Callable[[Path], dict[str, tuple[int, int, str]]]:
    """Length, time of change and SHA-256 of every file below a folder; of `lock` not the content."""

    def take(folder: Path) -> dict[str, tuple[int, int, str]]:
        found = {}
        for path in sorted(folder.rglob("*")):
            status = path.stat()
            is_read = path.is_file() and path.name != "lock"
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if is_read else ""
            found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns, digest)
        return found

    return take


@pytest.fixture
def in_memory() -> Iterator[Path]:
    if not os.access(IN_MEMORY, os.W_OK) or not this_machine(IN_MEMORY).is_in_memory:
        pytest.skip("no file system in memory that this user may write to")
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield Path(folder)
