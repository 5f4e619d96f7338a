"""The real RocketMQ as fixtures.

- `rocketmq`: its store, built once a run; harness.py says what it can do.
- `rocketmq49`: the store of RocketMQ 4.9.8, with a part of that.
- `live_rocketmq`: a RocketMQ that holds a store open and puts when it is told to; see live.py.
- mixed.py: messages of every kind, and checks that both sides read what was put.
- `kill_writer`: a flightlog writer that is killed in the middle of its puts; see killing.py.
- `asked`: stores with RocketMQ's answers, asked once a run; see asking.py, grid.py,
  cases.py. `both_ways`: such a store in flightlog.
- `interop_seed`: the seed that stores of a run are made from; a test that fails says which it was.
"""

from __future__ import annotations

import functools
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.tests.interop import cases, harness, killing, live
from flightlog.tests.interop.cases import Asked
from flightlog.tests.interop.grid import Grid
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.interop.live import LiveRocketMq

if TYPE_CHECKING:
    from flightlog import ReadOnlyStore, Store
    from flightlog.tests.conftest import Scale

PARKED = flightlog.StoreSettings(deliver_delayed=False)
"""What RocketMQ wrote to wait goes on waiting."""

DATA = Path(__file__).resolve().parents[1] / "data"
SEEDED = {"asked", "interop_seed"}


@pytest.fixture(scope="session")
def rocketmq() -> RocketMq:
    """Skips where Java, Maven or Maven's repository is missing; on CI a skip is a failure."""
    try:
        store: RocketMq = harness.RocketMq()
    except harness.InteropUnavailableError as error:
        pytest.skip(str(error))
    return store


@pytest.fixture(scope="session")
def rocketmq49() -> RocketMq:
    """RocketMQ 4.9.8's store; skips as `rocketmq`."""
    try:
        store: RocketMq = harness.RocketMq(harness.JAVA_49_FOLDER)
    except harness.InteropUnavailableError as error:
        pytest.skip(str(error))
    return store


@pytest.fixture(scope="session")
def live_rocketmq(rocketmq: RocketMq) -> Callable[..., AbstractContextManager[LiveRocketMq]]:
    """`with live_rocketmq(path, seed=1, count=500, pause_ms=2, **SMALL) as live: live.put(100)`."""

    def start(path: Path, **options: Any) -> AbstractContextManager[LiveRocketMq]:
        arguments = {"path": path, **harness.java_options(options)}
        running: AbstractContextManager[LiveRocketMq] = live.live(rocketmq, harness.java_environment(), arguments)
        return running

    return start


@pytest.fixture(scope="session")
def kill_writer() -> Callable[..., list[Line]]:
    """`kill_writer(path, seed=1, acknowledged=500)` returns what must be there afterwards."""
    return killing.kill_writer


@pytest.fixture(scope="session")
def interop_seed() -> int:
    seed: int = cases.run_seed()
    return seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and SEEDED & set(getattr(item, "fixturenames", ())):
        report.sections.append(("seed of this run", f"FLIGHTLOG_SEED={cases.run_seed()}"))
    return report


@pytest.fixture(scope="session")
def asked(
    rocketmq: RocketMq,
    golden: Callable[[str], Path],
    copy_store: Callable[[Path, Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
    scale: Scale,
) -> dict[str, Asked]:
    """By name: fresh stores, golden sets and the small stores of tests/data, each with what RocketMQ answered."""
    folder = tmp_path_factory.mktemp("asked")
    found = cases.write_fresh(rocketmq, folder)
    found += [cases.golden_case(name, golden(name)) for name in cases.GOLDEN]
    for name in cases.COMMITTED:
        with tarfile.open(DATA / f"{name}.tar.xz") as tar:
            tar.extractall(folder / name)
        found.append(cases.golden_case(name, folder / name))

    def copy(path: Path, name: str) -> Path:
        return copy_store(path, folder / f"{name}-of-rocketmq")

    make_grid = functools.partial(Grid, seed=cases.run_seed(), budget=scale.pick(ci=1200, full=20_000))
    answered: dict[str, Asked] = cases.ask(rocketmq, found, make_grid, copy)
    return answered


@pytest.fixture
def both_ways(
    copy_store: Callable[[Path, Path], Path], tmp_path: Path
) -> Callable[[Asked], AbstractContextManager[list[Store | ReadOnlyStore]]]:
    """`with both_ways(asked["abort"]) as stores:` a view, and a copy opened for writing, which verifies afterwards."""

    @contextmanager
    def opened(found: Asked) -> Iterator[list[Store | ReadOnlyStore]]:
        path = copy_store(found.case.path, tmp_path / found.case.name)
        with flightlog.open_read_only(found.case.path) as view, flightlog.open(path, PARKED) as store:
            yield [view, store]
        with flightlog.open_read_only(path) as view:
            report = view.verify()
        assert report.is_clean, "\n".join(map(str, report.findings))

    return opened
