"""RocketMQ's jars by release, as fixtures: what a machine without Java or Maven skips, and CI may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flightlog.tests.cluster.jars import ClusterUnavailableError, jars_of


@pytest.fixture(scope="session")
def jars() -> Callable[[str], Path]:
    """`jars("5.5.0")` is the folder with the jars of this release."""

    def find(version: str) -> Path:
        try:
            folder: Path = jars_of(version)
        except ClusterUnavailableError as e:
            pytest.skip(str(e))
        return folder

    return find
