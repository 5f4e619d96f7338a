"""The Spark queries of `flightlog bench scan`, as cases: through this source and through its rival."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....store.errors import FlightlogError
from ..case import OWN, Case, Sample, Work
from ..machine.process_tree import Usage, usage_below
from .stores import SHARES, ScanStore, share_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET, NOT_PUSHED = "Parquet", "not pushed"
"""Against Spark's own reading of the same rows; against the same answer by a filter that Spark keeps to itself."""
CPU, READ_PART = "CPU s", "% of the log read"


class DifferentAnswersError(FlightlogError):
    """The source and its rival gave different answers, so their times cannot be compared."""


@dataclass(frozen=True)
class ScanQuery:
    """A query, its columns, and the option by which the source skips rows that the filter drops."""

    name: str
    text: str
    columns: str
    rival: str
    share: int | None = None
    """Percent of the messages in the topic that it filters for."""

    @property
    def narrowing(self) -> dict[str, str]:
        if self.name == "queues":
            return {"table": "queues"}
        if self.rival == PARQUET:
            return {}
        is_subscription = self.share is not None and self.name.startswith("subscribe")
        return {"subscribe": share_topic(self.share)} if is_subscription else {"pushDownPredicate": "true"}  # type: ignore[arg-type]


SCANS = (
    ScanQuery("sum", "sum(length(value))", "value", PARQUET),
    ScanQuery("all", "all columns, no-op sink", "", PARQUET),
    ScanQuery("topics", "groupBy(topic)", "topic", PARQUET),
    ScanQuery("count", "count()", "partition", PARQUET),
    ScanQuery("queues", "count() by the table of queues", "", PARQUET),
    ScanQuery("write", "read and write to Parquet", "", PARQUET),
    ScanQuery("append", "write Parquet's rows to a store", "", PARQUET),
)
SELECTIONS = (
    *(
        ScanQuery(f"{way} {share} %", text.format(share), "topic,value", NOT_PUSHED, share)
        for way, text in (
            ("subscribe", "subscribe to a topic with {} % of the messages"),
            ("pushed", "filter by such a topic, {} %, pushed"),
        )
        for share in SHARES
    ),
    ScanQuery("window", "a window of time in one of two segments, pushed", "timestamp,value", NOT_PUSHED),
)
NAMES = tuple(query.name for query in (*SCANS, *SELECTIONS))


class Scanner:
    """Runs queries on one store and its rivals. Queries write into `folder`."""

    def __init__(self, spark: SparkSession, folder: Path, store: ScanStore) -> None:
        self._spark, self._folder, self._store = spark, folder, store
        self._parquet = store.path.with_name(f"{store.path.name}-parquet")
        self._answers: dict[str, Any] = {}

    def make_parquet(self) -> None:
        """Write the same rows as Parquet, with Spark's defaults."""
        self._ours("", {}).write.parquet(str(self._parquet))

    def remove(self) -> None:
        for path in (self._store.path, self._parquet):
            shutil.rmtree(path, ignore_errors=True)

    def cases(self, query: ScanQuery) -> list[Case]:
        """The case of the source, and that of its rival."""

        @contextmanager
        def prepare(case: Case, folder: Path) -> Iterator[Work]:
            yield lambda stamps: self.measure(query, case.who)

        fields: Any = {"body_size": self._store.body_size, "batch": self._store.count, "prepare": prepare}
        return [Case(OWN, query.text, against=query.rival, **fields), Case(query.rival, query.text, **fields)]

    def measure(self, query: ScanQuery, who: str) -> Sample:
        """Run the query once, timed from `spark.read` to the answer. Raises DifferentAnswersError."""
        answer, seconds, usage = self._timed(query, who)
        expected = self._answers.setdefault(query.name, answer)
        if answer != expected:
            raise DifferentAnswersError(f"{self._store.path}: {query.text}: {expected}, now {who} says {answer}")
        figures = {} if math.isnan(usage.cpu_s) else {CPU: usage.cpu_s}
        if who == OWN and query.name != "append" and not math.isnan(usage.read_size):
            figures[READ_PART] = 100 * usage.read_size / self._store.size
        return Sample(self._store.count, seconds, seconds, figures=figures)

    def _timed(self, query: ScanQuery, who: str) -> tuple[Any, float, Usage]:
        before, started_s = usage_below(os.getpid()), time.perf_counter()
        if who == PARQUET or query.name == "append":
            frame = self._spark.read.parquet(str(self._parquet))
        else:
            frame = self._ours(query.columns, query.narrowing if who == OWN else {})
        answer = self._answer(query, frame, who)
        seconds = time.perf_counter() - started_s
        usage = usage_below(os.getpid()) - before
        if query.name in ("write", "append"):
            is_store = query.name == "append" and who == OWN
            answer = self._spark.read.format("flightlog" if is_store else "parquet").load(str(self._written)).count()
            shutil.rmtree(self._written)
        return answer, seconds, usage

    @property
    def _written(self) -> Path:
        return self._folder / "written"

    def _ours(self, columns: str, narrowing: dict[str, str]) -> DataFrame:
        reader = self._spark.read.format("flightlog").options(**narrowing)
        return (reader.option("columns", columns) if columns else reader).load(str(self._store.path))

    def _answer(self, query: ScanQuery, frame: DataFrame, who: str) -> Any:
        from pyspark.sql import functions as f

        lengths = f.sum(f.length("value"))
        match query.name:
            case "sum":
                return frame.agg(lengths).head()
            case "all":
                frame.write.format("noop").mode("overwrite").save()
                return None
            case "topics":
                return sorted(frame.groupBy("topic").count().collect())
            case "count":
                return frame.count()
            case "queues":
                return frame.agg(f.sum("count")).collect()[0][0] if "count" in frame.columns else frame.count()
            case "write":
                frame.write.parquet(str(self._written))
                return None
            case "append":
                frame.write.format("flightlog" if who == OWN else "parquet").mode("append").save(str(self._written))
                return None
            case "window":
                begin, end = (f.timestamp_millis(f.lit(ms)) for ms in self._store.window_ms)
                return frame.where((f.col("timestamp") >= begin) & (f.col("timestamp") < end)).agg(lengths).head()
        assert query.share is not None
        return frame.where(f.col("topic") == share_topic(query.share)).agg(lengths).head()
