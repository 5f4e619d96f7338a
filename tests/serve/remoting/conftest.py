"""A served store for the tests of remoting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.serve.remoting.admin import relayed
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is asked may take its time."""
    monkeypatch.setattr(relayed, "ANSWER_S", PATIENCE_S)


@pytest.fixture
def served(tmp_path: Path, assert_clean: AssertClean) -> Iterator[RemotingStore]:
    made = RemotingStore(tmp_path / "store", SETTINGS)
    yield made
    made.stop()
    assert_clean(made.path)


@pytest.fixture
def client(served: RemotingStore) -> Iterator[RemotingClient]:
    with RemotingClient(served.port) as made:
        yield made
