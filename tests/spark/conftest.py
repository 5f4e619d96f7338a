"""What the tests of the Spark room share: one session for all of them, a way to read a store through it, and how every
test that wrote a store ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flightlog.engine.verify.findings import VerifyReport
    from flightlog.tests.support.stream_driver import StreamDriver

    AssertClean = Callable[[Path], VerifyReport]
    Load = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores; its times are shown in UTC."""
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = flightlog.spark.session("flightlog tests", master="local[2]", conf=conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def load(spark: SparkSession) -> Load:
    """`load(path, splitBytes=4096)` is the DataFrame over a store."""

    def read(path: Path | str, **options: Any) -> DataFrame:
        return spark.read.format("flightlog").options(**options).load(str(path))

    return read


@pytest.fixture(scope="session")
def stream() -> type[StreamDriver]:
    """`stream(path, subscribe="orders")` is a query that has been started."""
    from flightlog.tests.support.stream_driver import StreamDriver  # needs pyspark

    return StreamDriver


@pytest.fixture(params=["admission", "plain"])
def dialect(request: pytest.FixtureRequest) -> str:
    """How Spark asks: as 4.2 and later do, or as 4.0 and 4.1."""
    name: str = request.param
    return name
