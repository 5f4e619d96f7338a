"""This store at its defaults: segments of 1 GiB, all services running."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....engine.message_store import MessageStore, open_store
from ....store.settings import FlushMode, StoreSettings
from ..case import Case
from ..drive import Put
from ..messages import TAG, TOPIC, Row, parts
from .session import Session

SETTLE_S = 60


class OwnSession(Session):
    def __init__(self, folder: Path, case: Case) -> None:
        super().__init__(case)
        mode = FlushMode.SYNC if case.sync else FlushMode.ASYNC
        self.store: MessageStore = open_store(folder / "store", StoreSettings(flush_mode=mode))

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        if self._case.columns:
            return [_columns(part) for part in parts(rows, self._case.batch)]
        messages = [row.message() for row in rows]
        return messages if self._case.batch == 1 else parts(messages, self._case.batch)

    def put(self, unit: Any) -> object:
        return self.store.append_columns(TOPIC, unit)

    def puts(self) -> Sequence[Put]:
        """The store's own method, without a wrapper."""
        single = self.store.put if self._case.batch == 1 else self.store.put_many
        return [self.put if self._case.columns else single] * self._case.threads

    def drain(self) -> None:
        self.store.queues()  # waits until they are up to date

    def settle(self) -> None:
        self.drain()
        self.store.flush()  # else a timer would flush during the timed calls
        if not self.store.wait_until_prepared(SETTLE_S):
            raise RuntimeError(f"nothing was prepared for appends within {SETTLE_S} s")

    def close(self) -> None:
        self.store.close()


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    bodies = np.frombuffer(b"".join(row.body for row in rows), np.uint8).reshape(len(rows), -1)
    return {
        "body": bodies,
        "tags": TAG,
        "keys": np.array([row.key for row in rows], "S"),
        "queue_id": np.array([row.queue_id for row in rows]),
    }


def open_session(folder: Path, case: Case, size: int) -> OwnSession:
    return OwnSession(folder, case)
