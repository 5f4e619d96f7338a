"""The columns that come from queue entries alone, without reading records.

Only for queues with one entry for each record: an entry of a light queue lacks the record's own queue offset, and an
entry of a batch queue stands for many messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .message_columns import APPEND_TIME
from .schema import BY_NAME

Integers = NDArray[np.int64]


class EntryColumns(NamedTuple):
    """Columns of messages of which only the queue entries are known."""

    topics: Any
    """An Arrow array of text."""
    queue_ids: Integers
    queue_offsets: Integers
    physical_offsets: Integers
    sizes: Integers

    def column(self, name: str) -> Any:
        """The column of this name, one of ENTRY_COLUMNS; equal to the one that `MessageColumns` makes from records."""
        return BUILDERS[name](self)


BUILDERS: dict[str, Callable[[EntryColumns], Any]] = {
    "topic": lambda entries: entries.topics,
    "partition": lambda entries: pa.array(entries.queue_ids, pa.int32()),
    "offset": lambda entries: pa.array(entries.queue_offsets, pa.int64()),
    "timestampType": lambda entries: pa.array(np.full(len(entries.sizes), APPEND_TIME, np.int32)),
    "physicalOffset": lambda entries: pa.array(entries.physical_offsets, pa.int64()),
    "size": lambda entries: pa.array(entries.sizes, pa.int32()),
}
ENTRY_COLUMNS = frozenset(BUILDERS)

assert BUILDERS.keys() <= BY_NAME.keys()
