"""One pass over the commit log that counts what a broker, its proxy or its clients do not take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..engine.read_only import ReadOnlyStore
from ..store.format.compression import CompressionType
from ..store.format.frame import BORN_HOST_AT, MAGIC_V2, STORE_TIME, Rows
from ..store.format.host import HOST_V4_SIZE, HOST_V6_SIZE, Host, decode_host
from ..store.format.sys_flag import (
    BORN_HOST_V6,
    COMPRESSED,
    COMPRESSION_MASK,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from ..store.topic import is_system_topic

NEW_COMPRESSIONS = (CompressionType.LZ4.flags, CompressionType.ZSTD.flags)
"""Those that RocketMQ has since 5.0."""


@dataclass(slots=True)
class LogSurvey:
    """What was counted, from the first record to the end of the view."""

    records: int = 0
    empty_bodies: Counter[str] = field(default_factory=Counter)
    """Topic -> messages with a body of no bytes. Not those of RocketMQ's own topics, nor half messages."""
    first_empty: int | None = None
    """Physical offset of the first of them."""
    store_hosts: Counter[Host] = field(default_factory=Counter)
    """Store host -> records."""
    long_topics: int = 0
    """Records whose topic has more than 127 bytes (V2), which RocketMQ 4.9 does not know."""
    new_compressions: int = 0
    """Bodies in LZ4 or Zstandard, which clients of 4.9 do not know."""
    damaged: list[int] = field(default_factory=list)
    """Physical offsets where no record is and one was expected."""


def survey_log(view: ReadOnlyStore) -> LogSurvey:
    """Go through the log by read calls, past damage; bodies are not checked, `verify` does. Raises DiskError."""
    survey, reader = LogSurvey(), view.log_reader
    for segment, position, stop in reader.segments_between(view.min_physical_offset, view.end_physical_offset):
        for scan in reader.scans_past_damage(segment, position, stop):
            for piece, rows in scan:
                _count(survey, piece, rows)
            if not scan.is_whole:
                survey.damaged.append(segment.base + scan.position)
    return survey


def _count(survey: LogSurvey, piece: bytes | memoryview, rows: Rows) -> None:
    survey.records += len(rows)
    survey.long_topics += int(np.count_nonzero(rows["magic"] == MAGIC_V2))
    kinds = rows["sys_flag"] & (COMPRESSED | COMPRESSION_MASK)
    survey.new_compressions += int(np.count_nonzero(np.isin(kinds, NEW_COMPRESSIONS)))
    data = np.frombuffer(piece, np.uint8)
    is_v6 = (rows["sys_flag"] & STORE_HOST_V6) != 0
    starts = rows["position"] + BORN_HOST_AT + STORE_TIME.size
    starts += np.where(rows["sys_flag"] & BORN_HOST_V6, HOST_V6_SIZE, HOST_V4_SIZE)
    _count_hosts(survey, data, starts[~is_v6], HOST_V4_SIZE)
    _count_hosts(survey, data, starts[is_v6], HOST_V6_SIZE)
    kind = rows["sys_flag"] & TRANSACTION_MASK
    empty = rows[(rows["body_size"] == 0) & (kind != TRANSACTION_PREPARED) & (kind != TRANSACTION_ROLLBACK)]
    for row in empty:
        at = int(row["topic_position"])
        topic = bytes(piece[at : at + int(row["topic_size"])]).decode("utf-8", "backslashreplace")
        if not is_system_topic(topic):
            survey.empty_bodies[topic] += 1
            if survey.first_empty is None:
                survey.first_empty = int(row["physical_offset"])


def _count_hosts(survey: LogSurvey, data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> None:
    if not len(starts):
        return
    raw = np.ascontiguousarray(data[starts[:, None] + np.arange(size)]).view(f"V{size}").ravel()
    hosts, counts = np.unique(raw, return_counts=True)
    for host, count in zip(hosts, counts, strict=True):
        survey.store_hosts[decode_host(host.tobytes())] += int(count)
