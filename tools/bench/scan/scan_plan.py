"""What `flightlog bench scan` asks of Spark, what each answer is held against, and what the ratio has to come to."""

from __future__ import annotations

from dataclasses import dataclass

BODY_SIZES = (100, 1024, 10_240)
PARQUET, NOT_PUSHED = "Parquet", "not pushed"
"""Against Spark's own reading of the same rows; against the same answer by a filter that Spark keeps to itself."""

SUBSCRIBE, PUSHED = "subscribe", "pushed"

SHARES = (1, 10, 30)
"""Percent of the messages that each of these topics has, one message here and one there."""
SELECTION_BODY_SIZE = 1024
WINDOW = (0.7, 0.8)
"""Between these parts of a store of two segments lies the window of time."""


@dataclass(frozen=True)
class ScanQuery:
    """A query, the columns that it names, and its targets: times its rival's time, at most."""

    name: str
    text: str
    columns: str
    rival: str
    targets: tuple[float, ...]
    """One for each of BODY_SIZES, or one for all."""
    seconds: float
    """About what it and its rival take of a GiB together, for the estimate."""

    def target(self, body_size: int) -> float:
        """What the ratio must not exceed."""
        return self.targets[0] if len(self.targets) == 1 else self.targets[BODY_SIZES.index(body_size)]


SCANS = (
    ScanQuery("sum", "sum(length(value))", "value", PARQUET, (1.3, 0.85, 0.5), 1.8),
    ScanQuery("all", "all columns, no-op sink", "", PARQUET, (1.2, 0.8, 0.4), 2.8),
    ScanQuery("topics", "groupBy(topic)", "topic", PARQUET, (1.5,), 1.0),
    ScanQuery("count", "count()", "partition", PARQUET, (1.5,), 0.7),
    ScanQuery("write", "write to Parquet", "", PARQUET, (0.9,), 10.0),
)
SELECTIONS = (
    *(
        ScanQuery(f"{way} {share} %", text.format(share), "topic,value", NOT_PUSHED, (target,), 2.0)
        for way, text in (
            (SUBSCRIBE, "subscribe to a topic with {} % of the messages"),
            (PUSHED, "filter by such a topic, {} %, pushed"),
        )
        for share, target in zip(SHARES, (0.2, 0.35, 0.5), strict=True)
    ),
    ScanQuery("window", "a window of time in one of two segments, pushed", "timestamp,value", NOT_PUSHED, (0.5,), 2.0),
)
NAMES = tuple(query.name for query in (*SCANS, *SELECTIONS))
