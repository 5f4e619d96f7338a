"""Files for fuzz targets: one folder in memory for the life of a process, filled anew for each input.

A target that needs several files out of one input splits it: `join` puts them into one for the seeds, `split` takes
them out again, whatever the input is.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

IN_MEMORY = Path("/dev/shm")
LENGTH_SIZE = 2
MOST = (1 << 8 * LENGTH_SIZE) - 1


@cache
def scratch_folder() -> Path:
    """The folder of this process."""
    made = tempfile.mkdtemp(prefix="flightlog-fuzz-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def fill(files: Mapping[str, bytes], lengths: Mapping[str, int] | None = None) -> Path:
    """The folder with these files and nothing else; `lengths` cuts some of them or lengthens them by a hole."""
    root = scratch_folder()
    for entry in root.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
            if lengths and name in lengths:
                file.truncate(lengths[name])
    return root


def split(data: bytes, count: int) -> list[bytes]:
    """`count` parts: each but the last one is preceded by its length, of two bytes."""
    parts = []
    for _ in range(count - 1):
        end = LENGTH_SIZE + int.from_bytes(data[:LENGTH_SIZE], "big")
        parts.append(data[LENGTH_SIZE:end])
        data = data[end:]
    return [*parts, data]


def join(*parts: bytes) -> bytes:
    """One input of several parts."""
    heads: Sequence[bytes] = [len(part).to_bytes(LENGTH_SIZE, "big") + part for part in parts[:-1]]
    return b"".join(heads) + parts[-1]
