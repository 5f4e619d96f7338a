"""The disk under a folder: its name, the bytes it has written, and whether its syncs are plausible."""

from __future__ import annotations

import os
import time
from pathlib import Path

SECTOR_SIZE = 512
SECTORS_WRITTEN = 6
"""Field of the kernel's block/stat file."""
BLOCK_DEVICES = Path("/sys/dev/block")
SYNCS_TRIED = 20
IMPLAUSIBLE_SYNC_S = 10e-6
"""No disk confirms a write faster: the device has a cache that survives a power cut, or it does not sync."""


def device_name(folder: Path) -> str:
    """The name of the device, such as `vda`; empty if the file system has none."""
    place = _device(folder)
    return place.resolve().name if place.exists() else ""


def written_size(folder: Path) -> int | None:
    """Bytes written to the device since boot, by all processes; None if it does not report them."""
    try:
        return int((_device(folder) / "stat").read_text().split()[SECTORS_WRITTEN]) * SECTOR_SIZE
    except (OSError, IndexError, ValueError):
        return None


class Written:
    """Bytes written to the device from now on."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._before = folder, written_size(folder)

    def since(self) -> int | None:
        """None if the device does not report them."""
        after = written_size(self._folder)
        return None if self._before is None or after is None else after - self._before


def sync_time_s(folder: Path) -> float:
    """The fastest of SYNCS_TRIED writes of a block with fdatasync (s)."""
    path = folder / "sync-probe"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        quickest_s = float("inf")
        for number in range(SYNCS_TRIED):
            os.pwrite(descriptor, number.to_bytes(1, "little") * 4096, 0)
            started_s = time.perf_counter()
            os.fdatasync(descriptor)
            quickest_s = min(quickest_s, time.perf_counter() - started_s)
    finally:
        os.close(descriptor)
        path.unlink()
    return quickest_s


def _device(folder: Path) -> Path:
    number = folder.stat().st_dev
    return BLOCK_DEVICES / f"{os.major(number)}:{os.minor(number)}"
