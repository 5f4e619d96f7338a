"""Keys of the index, as columns.

One rule for a live store, for recovery and for the read-only view: a record whose transaction type is none, prepared or
commit is found by its UNIQ_KEY, if it has one, and then by each token of its KEYS; the key that is hashed is
`topic#key`, the topic being the record's own. `native.list_rows` makes them.

Source: `IndexService.buildIndex` of Apache RocketMQ 5.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class KeyEntries:
    """Keys in the order of the log: one element of each array a key."""

    key_hash: NDArray[np.int32]
    """As `index_file.key_hash`: 31 bits."""
    physical_offset: NDArray[np.int64]
    """Physical offset of the record, in bytes; never descending."""
    store_timestamp_ms: NDArray[np.int64]
    """Store time of the record."""

    def __len__(self) -> int:
        return len(self.key_hash)

    def part(self, start: int, stop: int) -> KeyEntries:
        """Keys [start, stop), not copied."""
        return KeyEntries(
            self.key_hash[start:stop], self.physical_offset[start:stop], self.store_timestamp_ms[start:stop]
        )

    def copy(self) -> KeyEntries:
        """The same keys, in no more memory than they need."""
        return KeyEntries(self.key_hash.copy(), self.physical_offset.copy(), self.store_timestamp_ms.copy())


class LastPut(NamedTuple):
    """How far the keys of a log have been put somewhere, so that putting some of them again adds none twice."""

    physical_offset: int = -1
    """Physical offset of the last record that a key was put of; -1 before any."""
    key_count: int = 0
    """How many of its keys were put."""

    def unknown(self, keys: KeyEntries) -> KeyEntries:
        """Return those of the keys, given in the order of the log, that follow. A record's keys come all together,
        always in one order."""
        offsets = keys.physical_offset
        if offsets[0] > self.physical_offset:
            return keys
        first = int(np.searchsorted(offsets, self.physical_offset))
        same = int(np.searchsorted(offsets, self.physical_offset, side="right")) - first
        return keys.part(first + min(same, self.key_count), len(keys))

    def then(self, keys: KeyEntries) -> LastPut:
        """Once these were put, too."""
        last, count = int(keys.physical_offset[-1]), len(keys)
        if count > 1:
            count -= int(np.searchsorted(keys.physical_offset, last))
        return LastPut(last, count + self.key_count if last == self.physical_offset else count)
