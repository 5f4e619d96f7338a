"""Which batch of which streaming query was appended last: `flightlog/spark-queries.json` in the store.

The entry of a batch is written when its rows are, and none of them can be seen yet; it holds where the first record is
to be, and its digest. So whoever comes after a kill sees from the log whether the batch was committed: that record,
with its place and time in it, is there, or it is not. `done` is noted behind the commit, and spares the look.

Used under the store's lock alone.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...engine.read_only import open_read_only
from ...store.disk.config_file import ConfigFile
from ...store.disk.disk import RealDisk
from ...store.errors import ConfigFileError, DamagedStoreError
from ...store.log.atomic_append import AtomicRange
from ...store.state.progress import FLIGHTLOG_FOLDER

LEDGER_FILE = "spark-queries.json"


def is_in_log(root: Path, start: int, size: int, digest: str) -> bool | None:
    """Whether the record of `size` bytes at physical offset `start` is the one of this digest; None if retention has
    removed what was there."""
    with open_read_only(root) as view:
        if start < view.min_physical_offset:
            return None
        segment = view.log_reader.segment_at(start)
        if segment is None or start + size > view.end_physical_offset:
            return False
        return digest_of(segment.read(start - segment.base, size)) == digest


def digest_of(record: bytes) -> str:
    return hashlib.sha256(record).hexdigest()


class WriteLedger:
    """The batches of one query, by its id."""

    def __init__(self, root: Path, query: str) -> None:
        self._root, self._query = root, query
        self._file = ConfigFile(RealDisk(), root / FLIGHTLOG_FOLDER / LEDGER_FILE)

    def has(self, batch: int) -> bool:
        """Whether this batch was appended. Raises DamagedStoreError where nobody can tell, and ConfigFileError."""
        entry = (self._file.read() or {}).get(self._query)
        if entry is None:
            return False
        try:
            known, done, place = int(entry["batch"]), bool(entry["done"]), (int(entry["start"]), int(entry["size"]))
            digest = str(entry["digest"])
        except (TypeError, KeyError, ValueError) as e:
            raise ConfigFileError(self._file.path, f"{entry!r} for query {self._query}", "what a write notes") from e
        if batch != known or done:
            return batch <= known  # a batch begins when the one before it is there
        found = is_in_log(self._root, *place, digest)
        if found is None:
            raise DamagedStoreError(
                f"{self._file.path}: batch {batch} of query {self._query} began at physical offset {place[0]}, which "
                "retention has removed since; it is unknown whether it was committed. Set done to true if its "
                "messages were there, or take the entry out if they were not, and start the query again"
            )
        return found

    def note(self, batch: int, appended: AtomicRange, *, done: bool) -> None:
        """Durable when it returns."""
        entry = {
            "batch": batch,
            "done": done,
            "start": appended.start,
            "size": len(appended.first_record),
            "digest": digest_of(appended.first_record),
        }
        self._file.write((self._file.read() or {}) | {self._query: entry})
