"""Where a store lies: a plain folder, or a small ext4 whose power can be cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from flightlog.tests.support import mounts
from flightlog.tests.support.cut_fate import cut_power
from flightlog.tests.support.mounts import Ext4

SIZE = 16 << 30
"""Size of a file system for stores of the default sizes, whose files are mostly holes."""


class Place:
    """A folder for a store, `path`, which is kept when the power is cut as far as it had reached the disk. Processes
    that use it must have ended before `boot`, and before the end of the context."""

    def __init__(self, folder: Path, *, has_power_cuts: bool) -> None:
        """Raises Skipped if power cuts are wanted and nothing can be mounted here."""
        self._ext4: Ext4 | None = None
        self.path = folder / "store"
        if has_power_cuts:
            mounts.needs_root()
            self._ext4 = Ext4(folder, SIZE)
            self.path = self._ext4.place / "store"
            self._ext4.make()

    def __enter__(self) -> Self:
        self._mount()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._ext4 is not None:
            self._ext4.__exit__(kind, error, trace)

    def cut_power(self) -> None:
        """Nothing that is not on the disk by now will ever be, whatever processes go on to write."""
        mounted = os.open(self.path.parent, os.O_RDONLY)
        try:
            cut_power(mounted)
        finally:
            os.close(mounted)

    def boot(self) -> None:
        """What was on the disk when the power was cut, for a machine that boots anew."""
        assert self._ext4 is not None
        self._ext4.__exit__(None)
        self._mount()
        mounts.boot_anew(self.path)

    def _mount(self) -> None:
        if self._ext4 is not None:
            self._ext4.__enter__()
