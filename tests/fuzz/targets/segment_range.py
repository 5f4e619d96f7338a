"""A segment as a task of Spark reads it, in one range: every intact message, in every column, and no other."""

from __future__ import annotations

from flightlog.engine.columns.schema import batch_schema
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.log_planning import LogRange
from flightlog.spark.read.reading import RangeReader
from flightlog.store.errors import DamagedStoreError
from flightlog.store.native import masked_crc32
from flightlog.tests.support import limited_disk, scratch, sound_records

limited = limited_disk
sound = sound_records

SCHEMA = batch_schema(None)


def one(data: bytes) -> None:
    raw = sound.mended(data, 0)
    root = scratch.fill({"commitlog/0": raw})
    path = root / "commitlog/0"
    disk = limited.LimitedDisk(1000 + len(raw), 100 * (len(raw) + 100), len(raw))
    whole = LogRange(StoreLocation.local(root), str(path), 0, len(raw), 0, len(raw), is_cut=False)
    reader = RangeReader(SCHEMA, ReadOptions(include_internal=True, on_corrupt="skip"), disk)
    rows = [row for batch in reader.read(whole) for row in batch.to_pylist()]
    places = [(row["physicalOffset"], row["batchIndex"]) for row in rows]
    assert len(places) == len(set(places)), "each comes once"
    for row in rows:
        assert row["value"] in raw and masked_crc32(row["value"]) == row["bodyCrc"] & 0x7FFFFFFF
    reader = RangeReader(SCHEMA, ReadOptions(on_corrupt="fail"), disk)
    try:
        shown = [row for batch in reader.read(whole) for row in batch.to_pylist()]
    except DamagedStoreError:
        return
    assert [row for row in shown if row not in rows] == []


def seeds() -> list[bytes]:
    return sound.segments()
