"""Messages as columns: record batches read from queues, and columns appended to the log.

pyarrow is an optional dependency: modules that need it are imported by `with_arrow`, on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...store.errors import MissingExtraError


def with_arrow(module: str, needed_for: str) -> Any:
    """Import a module of this folder that needs pyarrow. Raises MissingExtraError if pyarrow is not installed."""
    try:
        return import_module(f".{module}", __name__)
    except ImportError as e:
        if (e.name or "").split(".")[0] != "pyarrow":
            raise
        raise MissingExtraError("arrow", needed_for) from e
