"""Where a store lies, as it travels from the driver to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..engine.read_only import ReadOnlyStore, open_read_only
from ..store.disk import Disk, RealDisk


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """One store of a query. Two of one query differ in `name` and in `uri`."""

    name: str
    """What the column `store` says."""
    path: Path
    """What `disk()` calls the store's folder."""
    uri: str
    """How messages call it."""

    @classmethod
    def local(cls, path: Path) -> StoreLocation:
        """A single store in a local or mounted folder."""
        return cls(path.name, path, str(path))

    def disk(self) -> Disk:
        """What this store's files are read by, in the driver and in tasks."""
        return RealDisk()

    def open(self) -> ReadOnlyStore:
        """A read-only view of the store. Raises StoreNotFoundError."""
        return open_read_only(self.path, disk=self.disk())
