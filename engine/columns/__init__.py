"""Messages as columns: record batches out of queues, columns into the log.

Arrow is an extra: what needs it is imported by `with_arrow`, on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...store.errors import MissingExtraError


def with_arrow(module: str, needed_for: str) -> Any:
    """A module that imports pyarrow, by its name from this folder on. Raises MissingExtraError where there is none."""
    try:
        return import_module(f".{module}", __name__)
    except ImportError as e:
        if (e.name or "").split(".")[0] != "pyarrow":
            raise
        raise MissingExtraError("arrow", needed_for) from e
