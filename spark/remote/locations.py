"""Where a store lies, as it travels from the driver to tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...engine.read_only import ReadOnlyStore, open_read_only
from ...store.disk.disk import Disk, RealDisk
from .addresses import Address
from .remote_disk import RemoteDisk
from .storages import storage_of


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """One store of a query. Two of one query differ in `name` and in `uri`."""

    name: str
    """What the column `store` says."""
    path: Path
    """What `disk()` calls the store's folder."""
    uri: str
    """How messages call it."""
    address: Address | None = None
    """How to get there; None for a local or mounted folder."""
    storage_options: str = field(default="", repr=False)
    """JSON for the library that reads there. It may hold a password, so it is never shown."""

    @classmethod
    def local(cls, path: Path) -> StoreLocation:
        """A single store in a local or mounted folder."""
        return cls(path.name, path, str(path))

    def disk(self) -> Disk:
        """What this store's files are read by, in the driver and in tasks. Raises as `storage_of`."""
        if self.address is None:
            return RealDisk()
        return RemoteDisk(storage_of(self.address, self.storage_options), self.address.root, self.path)

    def open(self) -> ReadOnlyStore:
        """A read-only view of the store. Raises StoreNotFoundError."""
        return open_read_only(self.path, disk=self.disk())
