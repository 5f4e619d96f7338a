"""Which Spark is here.

4.0 reads and writes in batches and streams, 4.1 hands filters over, 4.2 lets a stream limit its batches. Before 4.0 a
source could not be written in Python.
"""

from __future__ import annotations

from ..store.errors import MissingExtraError

VERSION_MIN = (4, 0)


def require_spark(needed_for: str) -> None:
    """Raises MissingExtraError, in one line, where pyspark (4.0 or newer) or pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401 (the source hands Spark Arrow batches)
        import pyspark
    except ModuleNotFoundError as error:
        if error.name not in ("pyarrow", "pyspark"):
            raise
        raise MissingExtraError("spark", f"{needed_for} (no module {error.name} here)") from error
    lowest = ".".join(map(str, VERSION_MIN))
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < VERSION_MIN:
        raise MissingExtraError("spark", f"{needed_for} (pyspark {lowest} or newer; {pyspark.__version__} is here)")
