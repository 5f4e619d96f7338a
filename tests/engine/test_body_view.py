"""`body_view`: a body where it lies in the log, for as long as the view lives."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import CompressionType, Message, StoreSettings
from flightlog.store.errors import CorruptRecordError, StoreClosedError, UsageError
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings(segment_size=1 << 16, key_index=False, rocketmq_strict=False)
pytestmark = pytest.mark.usefixtures("kernel")


def fill(store: flightlog.Store) -> None:
    store.put_many([Message("t", bytes([i]) * 5000, tags="a") for i in range(40)])


def test_it_is_the_body(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
        store.put(Message("t", b""))
        store.put(Message("t", b"text " * 1000, compress=CompressionType.ZLIB))
        for message in store.read("t"):
            with store.body_view(message) as body:
                assert body == message.body and body.readonly
                assert store.body_view(message.decompressed()) == body, "as stored"
    assert_clean(tmp_path)


def test_it_outlives_close_and_retention(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
        views = [store.body_view(message) for message in store.read("t")]
        inside.maintenance(store).flush_queues()
        for segment in (tmp_path / "commitlog").iterdir():
            os.utime(segment, (0, 0))
        assert store.clean_up(1).segments
        first = next(store.read("t"))
        assert first.queue_offset > 0, "nothing was removed"
    assert [bytes(view) for view in views] == [bytes([i]) * 5000 for i in range(40)]
    with pytest.raises(StoreClosedError):
        store.body_view(first)
    assert_clean(tmp_path)


def test_what_does_not_lie_there_is_refused(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        fill(store)
        store.put_batch([Message("batches", b"one"), Message("batches", b"two")])
        [message, second] = store.get("t", 0, 0, 2).messages
        changes: list[dict[str, int]] = [{"physical_offset": 1}, {"physical_offset": 1 << 40}, {"size": 5}]
        changes += [{"queue_offset": 1}, {"queue_id": 1}, {"body_crc": 1}, {"physical_offset": second.physical_offset}]
        for change in changes:
            with pytest.raises(CorruptRecordError):
                store.body_view(replace(message, **change))  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            store.body_view(next(store.read("batches")))
    path = tmp_path / "commitlog" / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    with flightlog.open_read_only(tmp_path) as view, pytest.raises(CorruptRecordError, match="CRC"):
        view.body_view(message)
