"""Which records are messages to a reader.

A message has a place in a queue: its transaction type is none or commit. Topics that a broker keeps for itself hold
copies, parked messages and bookkeeping. Retry and dead-letter topics (`%RETRY%`, `%DLQ%`) hold what users sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.columns.gathering import gather
from ...store.format.frame import Rows
from ...store.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE

INTERNAL_TOPICS = (
    b"SCHEDULE_TOPIC_XXXX",  # messages that wait for a delay level
    b"TRANS_CHECK_MAX_TIME_TOPIC",  # transactions that were checked too often
    b"TBW102",  # the template of topics that are made on demand
    b"SELF_TEST_TOPIC",
    b"OFFSET_MOVED_EVENT",
)
INTERNAL_PREFIXES = (b"RMQ_SYS_", b"rmq_sys_")
"""Half messages and their ends, traces, timers, revived pop messages, and what later versions add."""

FIRST_BYTES = sorted({name[0] for name in (*INTERNAL_TOPICS, *INTERNAL_PREFIXES)})
MAY_BE_INTERNAL = np.isin(np.arange(256), FIRST_BYTES)


def is_internal(topic: bytes) -> bool:
    """Whether a broker keeps this topic for itself."""
    return topic in INTERNAL_TOPICS or topic.startswith(INTERNAL_PREFIXES)


def is_message(piece: bytes | memoryview, rows: Rows) -> NDArray[np.bool_]:
    """Which of the rows are messages. Topics are compared only where the first byte leaves it open."""
    transaction = rows["sys_flag"] & TRANSACTION_MASK
    shown: NDArray[Any] = (transaction == TRANSACTION_NONE) | (transaction == TRANSACTION_COMMIT)
    data = np.frombuffer(piece, np.uint8)
    first_byte = data[rows["topic_position"]]  # of an empty topic: what follows it, and that is compared below
    open_question = np.flatnonzero(MAY_BE_INTERNAL[first_byte])
    if len(open_question):
        asked = rows[open_question]
        topics = gather(piece, asked["topic_position"], asked["topic_size"]).dictionary_encode()
        answers = np.array([is_internal(topic) for topic in topics.dictionary.to_pylist()])
        shown[open_question] &= ~answers[topics.indices.to_numpy()]
    return shown
