"""Where the store of a soak lies: on an ext4 of its own, whose power can be cut and which can run full, or where nobody
may mount one, in a plain folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from flightlog.tests.support.mounts import Ext4, boot_anew

IMAGE_SIZE = 64 << 20
PIECE_SIZES = (1 << 20, 4096)


class Folder:
    """A plain folder: writers can be killed, and that is all."""

    can_lose_power = False

    def __init__(self, folder: Path) -> None:
        self.place = folder / "plain"
        self.store = self.place / "store"
        self.place.mkdir()

    def lose_power(self, *, boots_anew: bool) -> None:
        raise NotImplementedError("a plain folder")

    def take_all_room(self) -> None:
        raise NotImplementedError("a plain folder")

    def give_room_back(self) -> None:
        """There was some all the time."""

    def release(self) -> None:
        """Nothing is held."""


class Mounted(Folder):
    """A small ext4 in a file."""

    can_lose_power = True

    def __init__(self, folder: Path) -> None:
        self._disk = Ext4(folder, IMAGE_SIZE)
        self._disk.make()
        self.place = self._disk.__enter__()
        self.store = self.place / "store"
        self._ballast = self.place / "ballast"

    def lose_power(self, *, boots_anew: bool) -> None:
        """The writer has shut the file system down: mount it again, as after a start of the machine, or as a disk that
        was away while the machine stayed on."""
        self._disk.__exit__(None)
        self._disk.__enter__()
        if boots_anew:
            boot_anew(self.store)

    def take_all_room(self) -> None:
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        try:
            size = 0
            for piece_size in PIECE_SIZES:
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(descriptor, size, piece_size)
                        size += piece_size
        finally:
            os.close(descriptor)

    def give_room_back(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def release(self) -> None:
        self._disk.__exit__(AssertionError)  # a view may still hold a file
