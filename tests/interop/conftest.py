"""`rocketmq`: the real RocketMQ store as a fixture, built once a run; see harness.py for what it can do."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.interop.harness import RocketMq


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
