"""What the tests of consumers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog

if TYPE_CHECKING:
    from flightlog.consume.consuming_store import Store


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the store of this test; it is closed in the end, if the test has not done so, and must be clean."""
    stores: list[Store] = []

    def opener() -> Store:
        stores.append(flightlog.open(tmp_path / "store", flightlog.StoreSettings.small()))
        return stores[-1]

    yield opener
    for store in stores:
        store.close()
    with flightlog.open_read_only(tmp_path / "store") as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
