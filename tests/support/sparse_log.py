"""A store of many full-sized segments that takes little disk: a few records in each, a filler behind them, holes.

As a broker leaves it: no seals, no progress page, consume queues that know every record.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from flightlog.index.queue.queue_unit import UNIT_DTYPE
from flightlog.store import native
from flightlog.store.format.frame import MAGIC_V1
from flightlog.store.format.record import encode_blank
from flightlog.store.segments.segment import segment_name
from flightlog.store.state.checkpoint import CHECKPOINT_FILE, Checkpoint

SEGMENT_SIZE = 1 << 30
QUEUE_FILE_ENTRIES = 300_000
HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])
START_MS = 1_700_000_000_000
TOPIC = b"orders"


def make(root: Path, segments: int, records: int, queues: int = 4, body_size: int = 100) -> None:
    """`records` in each of so many segments; record i of all is in queue i modulo `queues`, a second after the one
    before it."""
    (root / "commitlog").mkdir(parents=True)
    places: list[tuple[int, int]] = []
    stored_ms = 0
    for number in range(segments):
        base, raw, at = number * SEGMENT_SIZE, bytearray(records * (body_size + 200)), 0
        for _ in range(records):
            i = len(places)
            body = b"%d" % i * (body_size // 8)
            stored_ms = START_MS + 1000 * i
            size = native.encode_record(
                *(raw, at, MAGIC_V1, i % queues, 0, i // queues, base + at, 0, stored_ms, HOST, stored_ms, HOST, 0, 0),
                *(body, TOPIC, b""),
            )
            places.append((base + at, size))
            at += size
        raw[at:] = encode_blank(SEGMENT_SIZE - at)
        with (root / "commitlog" / segment_name(base)).open("wb") as file:
            file.write(raw)
            os.truncate(file.fileno(), SEGMENT_SIZE)
    (root / CHECKPOINT_FILE).write_bytes(Checkpoint(stored_ms, stored_ms).encode())
    for queue_id in range(queues):
        _make_queue(root / "consumequeue" / TOPIC.decode() / str(queue_id), places[queue_id::queues])


def _make_queue(folder: Path, places: list[tuple[int, int]]) -> None:
    folder.mkdir(parents=True)
    units = np.zeros(len(places), UNIT_DTYPE)
    units["physical_offset"], units["size"] = np.array(places, np.int64).T
    file_size = QUEUE_FILE_ENTRIES * UNIT_DTYPE.itemsize
    for first in range(0, len(places), QUEUE_FILE_ENTRIES):
        with (folder / segment_name(first * UNIT_DTYPE.itemsize)).open("wb") as file:
            file.write(units[first : first + QUEUE_FILE_ENTRIES].tobytes())
            os.truncate(file.fileno(), file_size)
