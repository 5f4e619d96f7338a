"""What the tests of the server share: a served store, and RocketMQ's own Python client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import StoreSettings
from flightlog.serve.http2.certificates import development_tls
from flightlog.tests.support.rocketmq_clients import PythonClients
from flightlog.tests.support.rocketmq_server import ServedStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings.small(transaction_timeout_ms=1, transaction_check_interval_ms=200, default_queue_count=2)


@pytest.fixture
def served(tmp_path: Path, assert_clean: AssertClean) -> Iterator[ServedStore]:
    made = ServedStore(tmp_path / "store", SETTINGS)
    made.start()
    yield made
    made.stop()
    assert_clean(made.path)


@pytest.fixture
def served_with_tls(tmp_path: Path, assert_clean: AssertClean) -> Iterator[ServedStore]:
    made = ServedStore(tmp_path / "store", SETTINGS, development_tls(tmp_path / "tls", ()))
    made.start()
    yield made
    made.stop()
    assert_clean(made.path)


@pytest.fixture
def clients(served: ServedStore) -> Iterator[PythonClients]:
    with ExitStack() as undo:
        yield PythonClients(served, undo)
