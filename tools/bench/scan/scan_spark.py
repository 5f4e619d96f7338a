"""Queries of `flightlog bench scan` through a running Spark session, timed and counted."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....store.errors import FlightlogError
from ..machine.process_tree import Usage, usage_below
from ..telling.saving import told
from .scan_plan import PARQUET, SHARES, SUBSCRIBE, ScanQuery
from .scan_stores import ScanStore, share_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DifferentAnswersError(FlightlogError):
    """The source and its rival disagree: no time of theirs means anything."""


@dataclass(frozen=True)
class ScanRound:
    """One query, answered once."""

    seconds: float
    """By the clock, from `spark.read` to the answer."""
    usage: Usage

    def as_object(self) -> dict[str, float | None]:
        usage = self.usage
        return {"seconds": self.seconds, "cpu_s": told(usage.cpu_s), "read_size": told(usage.read_size)}


class Scanner:
    """Asks the source and its rivals in turn. `folder` takes what queries write."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def make_parquet(self, store: ScanStore) -> Path:
        """The same rows as Spark writes them by default."""
        path = store.path.with_name(f"{store.path.name}-parquet")
        self._ours(store, "").write.parquet(str(path))
        return path

    def round(self, query: ScanQuery, store: ScanStore, parquet: Path | None) -> tuple[ScanRound, ScanRound]:
        """The source's round and its rival's. Raises DifferentAnswersError."""
        answer, ours = self._timed(query, store, None)
        rival_answer, rival = self._timed(query, store, parquet if query.rival == PARQUET else store.path)
        if answer != rival_answer:
            raise DifferentAnswersError(f"{store.path}: {query.text}: {answer}, {query.rival} says {rival_answer}")
        return ours, rival

    def _timed(self, query: ScanQuery, store: ScanStore, rival: Path | None) -> tuple[Any, ScanRound]:
        before, started_s = usage_below(os.getpid()), time.perf_counter()
        if rival is not None and query.rival == PARQUET:
            frame = self._spark.read.parquet(str(rival))
        else:
            frame = self._ours(store, query.columns, {} if rival is not None else _narrowing(query))
        answer = self._answer(query, store, frame)
        seconds = time.perf_counter() - started_s
        found = ScanRound(seconds, usage_below(os.getpid()) - before)
        if query.name == "write":
            answer = self._spark.read.parquet(str(self._written)).count()
            shutil.rmtree(self._written)
        return answer, found

    @property
    def _written(self) -> Path:
        return self._folder / "written"

    def _ours(self, store: ScanStore, columns: str, narrowing: Mapping[str, str] | None = None) -> DataFrame:
        reader = self._spark.read.format("flightlog").options(**(narrowing or {}))
        return (reader.option("columns", columns) if columns else reader).load(str(store.path))

    def _answer(self, query: ScanQuery, store: ScanStore, frame: DataFrame) -> Any:
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
            case "write":
                frame.write.parquet(str(self._written))
                return None
            case "window":
                begin, end = (f.timestamp_millis(f.lit(ms)) for ms in store.window_ms)
                return frame.where((f.col("timestamp") >= begin) & (f.col("timestamp") < end)).agg(lengths).head()
        return frame.where(f.col("topic") == _topic(query)).agg(lengths).head()


def _topic(query: ScanQuery) -> str:
    return share_topic(next(share for share in SHARES if query.name.endswith(f" {share} %")))


def _narrowing(query: ScanQuery) -> dict[str, str]:
    """Options that let the source leave out what the query's filter leaves out."""
    if query.rival == PARQUET:
        return {}
    if query.name.startswith(SUBSCRIBE):
        return {"subscribe": _topic(query)}
    return {"pushDownPredicate": "true"}
