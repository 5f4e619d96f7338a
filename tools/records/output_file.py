"""Where messages are written: stdout, or a file that is there once it is whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ...store.errors import InvalidArgumentError

PART = ".part"


@contextmanager
def opened_output(path: Path | None) -> Iterator[BinaryIO]:
    """Stdout for None. A file is written beside itself and gets its name, durable, when the block ends well; an error
    or Ctrl-C removes it. Raises InvalidArgumentError for a file that is there: nothing is replaced."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if path.exists():
        raise InvalidArgumentError("--output", path, "a file that is not there yet")
    part = path.with_name(path.name + PART)
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
