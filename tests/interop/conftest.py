"""The real RocketMQ as fixtures.

- `rocketmq`: its store, built once a run; harness.py says what it can do, `interop` is that module.
- `live_rocketmq`: a RocketMQ that holds a store open and puts when it is told to; see live.py.
- `mixed`: messages of every kind, and checks that both sides read what was put; see mixed.py.
- `kill_writer`: a flightlog writer that is killed in the middle of its puts; see killing.py.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.interop.harness import Line, RocketMq
    from tests.interop.live import LiveRocketMq


def _load(name: str) -> ModuleType:
    """A module beside this file: tests run with --import-mode=importlib, where nobody's folder is on the path."""
    full_name = f"flightlog_interop_{name}"
    if full_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(full_name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module  # dataclasses look their module up while it is executed
        spec.loader.exec_module(module)
    return sys.modules[full_name]


@pytest.fixture(scope="session")
def interop() -> ModuleType:
    """harness.py itself: its errors and digest functions."""
    return _load("harness")


@pytest.fixture(scope="session")
def rocketmq(interop: ModuleType) -> RocketMq:
    """Skips where Java, Maven or Maven's repository is missing; on CI a skip is a failure."""
    try:
        store: RocketMq = interop.RocketMq()
    except interop.InteropUnavailableError as error:
        pytest.skip(str(error))
    return store


@pytest.fixture(scope="session")
def live_rocketmq(rocketmq: RocketMq, interop: ModuleType) -> Callable[..., AbstractContextManager[LiveRocketMq]]:
    """`with live_rocketmq(path, seed=1, count=500, pause_ms=2, **SMALL) as live: live.put(100)`."""

    def start(path: Path, **options: Any) -> AbstractContextManager[LiveRocketMq]:
        arguments = {"path": path, **interop.java_options(options)}
        running: AbstractContextManager[LiveRocketMq] = _load("live").live(
            rocketmq, interop.java_environment(), arguments
        )
        return running

    return start


@pytest.fixture(scope="session")
def mixed() -> ModuleType:
    """mixed.py: messages to put, and `check_flightlog` and `check_rocketmq`."""
    return _load("mixed")


@pytest.fixture(scope="session")
def kill_writer(mixed: ModuleType) -> Callable[..., list[Line]]:
    """`kill_writer(path, seed=1, acknowledged=500)` returns what must be there afterwards."""
    return functools.partial(_load("killing").kill_writer, mixed)
