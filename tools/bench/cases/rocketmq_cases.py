"""What RocketMQ's own store does with the very files that this store's cases read and ask: a copy, because RocketMQ
writes to what it opens. And how it recovers what a killed writer of its own left, see killed.py.

    RocketMQ read         every message of every queue, decoded, one a call or 32; it checks no CRC of a body
    RocketMQ query        a message by its key, decoded
    RocketMQ recover      open what a killed writer left, until everything is dispatched
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from ..rocketmq import RocketmqProcess
from .case import Case, Prepare, Work
from .killed import copied, recover_rocketmq
from .workloads import ASYNC, kept_store, record_size

BATCH = 32
"""Its own limit of messages a call."""
RIVALS = {
    "read": "RocketMQ read",
    "read, all fields": "RocketMQ read",
    "read_batch": f"RocketMQ read, {BATCH} a call",
    "query": "RocketMQ query",
    "recover": "RocketMQ recover",
}
"""A case of this store -> the one of RocketMQ that it is compared with."""


def rocketmq_cases(process: RocketmqProcess, subject_cases: Iterable[str], body_size: int, count: int) -> list[Case]:
    """The rivals of these cases, one body size."""
    prepares: dict[str, Prepare] = {
        RIVALS["read"]: partial(_read, process, 1),
        RIVALS["read_batch"]: partial(_read, process, BATCH),
        RIVALS["query"]: partial(_query, process),
        RIVALS["recover"]: partial(recover_rocketmq, process),
    }
    size = record_size(body_size)
    names = dict.fromkeys(RIVALS[name] for name in subject_cases if name in RIVALS)
    return [Case(name, body_size, size, count, prepares[name], writes=name == RIVALS["recover"]) for name in names]


@contextmanager
def _read(process: RocketmqProcess, a_call: int, folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with copied(kept_store(folder, body_size, count)) as store, process.opened(store, ASYNC):

        def work() -> None:
            found = process.read(a_call)
            if found != count:
                raise RuntimeError(f"RocketMQ read {found} messages, expected {count}")

        yield work


@contextmanager
def _query(process: RocketmqProcess, folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with copied(kept_store(folder, body_size, count)) as store, process.opened(store, ASYNC):

        def work() -> np.ndarray:
            return process.query(count)

        yield work
