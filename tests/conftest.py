"""What every test may ask for, and the rules that hold for all of them.

- `scale`: the sizes of a run; `--full` or FLIGHTLOG_FULL=1 asks for the real ones and for the tests marked `full`.
- `golden`, `golden_copy`: stores that Apache RocketMQ itself wrote, unpacked from FLIGHTLOG_GOLDEN.
- `copy_store`: any store copied, holes kept.
- `assert_clean`: how every test that wrote a store ends.
- `told`: what flightlog has logged in the test.
- `kernel`: the test runs once over the C kernel and once over its pure reference.
- Helpers are modules in tests/support/, imported as `flightlog.tests.support`; some are programs, run as children.
- On CI (CI=true) nothing may skip: a missing tool, archive or kernel fails the run, and so does an expected failure.
- Random tests repeat themselves, unless `--full` or FLIGHTLOG_RANDOM=1 asks for new seeds. The seed stands in the
  header of a run.
- `make test` leaves out the tests marked `ci`, which take long; `make test-long` runs them. CI runs both.
- Several processes may run the tests (`-n 2 --dist loadgroup --no-loadscope-reorder`): a file stays in one of them, but
  for its `ci` tests, and so do all tests that use one of the expensive fixtures in `SHARED`. What takes longest is
  first, so that no process is left alone with it at the end.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import random
import resource
import shutil
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import hypothesis
import pytest

if TYPE_CHECKING:
    from flightlog.engine.verify.findings import VerifyReport

    AssertClean = Callable[[Path], VerifyReport]
    Told = Callable[[], list[logging.LogRecord]]

ROOT = Path(__file__).resolve().parents[1]
ON_CI = os.environ.get("CI", "").lower() in ("1", "true")
GOLDEN = Path(os.environ.get("FLIGHTLOG_GOLDEN") or ROOT / "tests" / "data" / "golden")
COPY_CHUNK_SIZE = 1 << 20
PROCESSES_MAX = 5
SHARED = ("spark", "asked")
"""Fixtures of a session that take long: what uses them runs in one process."""
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Spark's drivers take half as much CPU where no query runs long enough to be compiled for speed."""
SEED = "FLIGHTLOG_SEED"
"""The environment variable that holds the seed of a run: all its processes have the same. Set, it repeats the run."""

hypothesis.settings.register_profile("new", deadline=None, print_blob=True)
hypothesis.settings.register_profile("repeats", deadline=None, print_blob=True, derandomize=True, database=None)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a test runs: every size stands twice where it is used, `scale.pick(ci=2_000, full=300_000)`."""

    full: bool

    def pick(self, *, ci: T, full: T) -> T:
        return full if self.full else ci


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="real sizes, and the tests marked `full`")


def _is_full(config: pytest.Config) -> bool:
    return bool(config.getoption("--full")) or os.environ.get("FLIGHTLOG_FULL", "") not in ("", "0")


def pytest_configure(config: pytest.Config) -> None:
    # Tests crash processes on purpose; their children inherit this, so that none leaves a memory image behind.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED_JAVA)
    # What archives are unpacked by. Python 3.11 knows filters from 3.11.4 on, Debian 12 has 3.11.2.
    if hasattr(tarfile, "data_filter"):
        tarfile.TarFile.extraction_filter = staticmethod(tarfile.data_filter)
    wants_new = _is_full(config) or os.environ.get("FLIGHTLOG_RANDOM", "") not in ("", "0")
    hypothesis.settings.load_profile("new" if wants_new else "repeats")
    if not wants_new:
        _draw_no_constants_of_the_code()
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(1, 1 << 31)) if wants_new else "0")


def _draw_no_constants_of_the_code() -> None:
    """Hypothesis draws constants that it finds in whatever modules of the project are loaded by then: with them, the
    examples of a test hang on the tests that ran before it in the same process, and on where the package lies."""
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_get_local_constants"):  # before 6.131 it looked for none
        from hypothesis.internal.constants_ast import Constants

        none = Constants()
        providers._get_local_constants = lambda: none


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are cores: tests wait for disks, and for programs that end slowly. Those marked `ci` wait for
    clocks and for other programs more than half of their time: three more."""
    more = 3 if config.getoption("markexpr") == "ci" else 2
    return min(len(os.sched_getaffinity(0)) + more, PROCESSES_MAX)


def pytest_report_header(config: pytest.Config) -> list[str]:
    sizes = "full" if _is_full(config) else "ci"
    return [
        f"sizes: {sizes}; golden stores: {GOLDEN}; {'CI: a skip is a failure' if ON_CI else 'skips allowed'}",
        f"seed: {SEED}={os.environ[SEED]}",
    ]


def _group(item: pytest.Item) -> str | None:
    for fixture in SHARED:
        if fixture in getattr(item, "fixturenames", ()):
            return fixture
    return None if item.get_closest_marker("ci") else item.location[0]


def _place(item: pytest.Item) -> tuple[int, float]:
    """Where in a run of several processes: what shares a session of Spark, then by how long a test may take."""
    group = _group(item)
    if group in SHARED:
        return SHARED.index(group), 0
    limit = item.get_closest_marker("timeout")
    return len(SHARED), -float(limit.args[0]) if limit and limit.args else 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `full` are not part of an ordinary run: deselected and counted, not skipped."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if group := _group(item):
                item.add_marker(pytest.mark.xdist_group(group))
        if hasattr(config, "workerinput"):
            items.sort(key=_place)
    if _is_full(config):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def _fail_where_nothing_may_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    expected_failure = hasattr(report, "wasxfail")
    if not ON_CI or not (report.skipped or expected_failure):
        return
    if expected_failure:
        reason = f"expected failure: {report.wasxfail}"
        del report.wasxfail
    else:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} did not run on CI, where every test must: {reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_where_nothing_may_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_where_nothing_may_skip(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What did not run, and why: the last thing that a run on a machine without Java, compiler or root says."""
    reasons = Counter(
        (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        terminalreporter.section("skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:6,} {reason}")


@pytest.fixture(scope="session")
def scale(pytestconfig: pytest.Config) -> Scale:
    return Scale(full=_is_full(pytestconfig))


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`golden("rollover")` is the unpacked folder of that set, shared by the whole run: read it, never write to it."""
    unpacked = tmp_path_factory.mktemp("golden")

    def unpack(name: str) -> Path:
        archive = GOLDEN / f"{name}.tar.xz"
        if not archive.is_file():
            pytest.skip(f"{archive} is not here; FLIGHTLOG_GOLDEN names the folder of the golden stores")
        if not (unpacked / name).exists():
            with tarfile.open(archive) as tar:
                tar.extractall(unpacked)
        return unpacked / name

    return unpack


@pytest.fixture(scope="session")
def copy_store() -> Callable[[Path, Path], Path]:
    """`copy_store(path, target)` makes the folder `target`, holes kept, and returns it."""

    def copy(path: Path, target: Path) -> Path:
        return Path(shutil.copytree(path, target, copy_function=_copy_with_holes))

    return copy


@pytest.fixture
def golden_copy(
    golden: Callable[[str], Path], copy_store: Callable[[Path, Path], Path], tmp_path: Path
) -> Callable[[str], Path]:
    """`golden_copy("abort")` is a copy of that set for this test alone."""

    def copy(name: str) -> Path:
        return copy_store(golden(name), tmp_path / name)

    return copy


def _copy_with_holes(source: str, target: str) -> None:
    """A store of default sizes looks like gigabytes and takes megabytes; its copy must too."""
    with open(source, "rb") as reader, open(target, "wb") as writer:
        size = os.fstat(reader.fileno()).st_size
        writer.truncate(size)
        position = 0
        while position < size:
            try:
                position = os.lseek(reader.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # only a hole is left
            end = os.lseek(reader.fileno(), position, os.SEEK_HOLE)
            while position < end:
                chunk = os.pread(reader.fileno(), min(COPY_CHUNK_SIZE, end - position), position)
                position += os.pwrite(writer.fileno(), chunk, position)
    shutil.copystat(source, target)


@pytest.fixture(params=["c", "pure"])
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the kernel that does the work during this test: "c" or "pure"."""
    from flightlog.store import native

    name: str = request.param
    if name not in native.available():
        pytest.skip("the C kernel is not built here")
    before = native.NAME
    native.use(name)
    yield name
    native.use(before)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Iterator[Told]:
    """Returns what flightlog has logged in this test, of stores in its folder; threads and stores that other tests of
    the process have left log, too."""
    gc.collect()  # what other tests left would say here that it goes
    others = set(threading.enumerate()) - {threading.current_thread()}

    def is_of_this_test(record: logging.LogRecord) -> bool:
        """Asked in the thread that logs."""
        path = str(record.__dict__.get("path", tmp_path))
        return threading.current_thread() not in others and path.startswith(str(tmp_path))

    caplog.handler.addFilter(is_of_this_test)
    yield lambda: [record for record in caplog.records if record.name.startswith("flightlog")]
    caplog.handler.removeFilter(is_of_this_test)


@pytest.fixture(scope="session")
def assert_clean() -> AssertClean:
    """Verify a store that nobody has open, and return the report for more questions."""
    import flightlog
    from flightlog.tests.support.own_files import rows_in

    def check(path: Path) -> VerifyReport:
        rows_in(path)
        with flightlog.open_read_only(path) as view:
            report = view.verify()
        assert report.is_clean, "\n".join(map(str, report.findings))
        return report

    return check
