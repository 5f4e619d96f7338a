"""A served store for the tests of remoting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


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
