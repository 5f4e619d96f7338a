"""This store at its defaults: segments of 1 GiB, every service at work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....engine.message_store import MessageStore, open_store
from ....store.message import Message
from ....store.settings import FlushMode, StoreSettings
from ..cases.workloads import TOPIC
from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import TAG, Row
from .session import Session, parts

SETTLE_S = 60


class OwnSession(Session):
    def __init__(self, folder: Path, load: Load) -> None:
        self._load = load
        mode = FlushMode.SYNC if load.sync else FlushMode.ASYNC
        self._store: MessageStore = open_store(folder / "store", StoreSettings(flush_mode=mode))

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        if self._load.columns:
            return [_columns(part) for part in parts(rows, self._load.batch)]
        messages = [Message(TOPIC, row.body, TAG, row.key, queue_id=row.queue_id) for row in rows]
        return messages if self._load.batch == 1 else parts(messages, self._load.batch)

    def puts(self) -> Sequence[Put]:
        return [self._put()] * self._load.threads

    def _put(self) -> Put:
        if self._load.columns:
            append = self._store.append_columns
            return lambda columns: append(TOPIC, columns)
        return self._store.put if self._load.batch == 1 else self._store.put_many

    def drain(self) -> None:
        self._store.queues()  # waits until they are up to date

    def settle(self) -> None:
        self.drain()
        self._store.flush()  # a timer would do it a little later, beside the calls that are timed
        if not self._store._preparing.settled(SETTLE_S):
            raise RuntimeError(f"nothing was prepared for appends within {SETTLE_S} s")

    def close(self) -> None:
        self._store.close()


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    bodies = np.frombuffer(b"".join(row.body for row in rows), np.uint8).reshape(len(rows), -1)
    return {
        "body": bodies,
        "tags": TAG,
        "keys": np.array([row.key for row in rows], "S"),
        "queue_id": np.array([row.queue_id for row in rows]),
    }


def open_session(writer: str, folder: Path, load: Load, size: int) -> OwnSession:
    return OwnSession(folder, load)
