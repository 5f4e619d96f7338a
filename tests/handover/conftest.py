"""A store as small as its settings say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


@pytest.fixture
def small_store(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Path]:
    """Closed; 100 messages of `orders` with keys, in segments of 1 MiB."""
    path = tmp_path / "small"
    with flightlog.open(path, StoreSettings.small()) as store:
        for number in range(100):
            store.put(Message("orders", b"x" * 100, keys=f"k{number}"))
    yield path
    assert_clean(path)
