"""The properties of many records at once, without an object a record: all texts are looked at as one array.

    … 02 K E Y S 01 a 20 b 02 T A G S 01 x 02 │ 02 U N I Q _ K E Y 01 …
      └ a pair begins behind every 02, and a record's first pair as if behind one

What comes out is what pure_listing.py finds record by record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..format import property_names as props
from ..format.frame import Rows
from .pure_hashes import Bytes, places

PAIR_END, SEPARATOR = ord(props.VALUE_END), ord(props.KEY_SEPARATOR)


def _name(text: str) -> Bytes:
    return np.frombuffer((text + props.NAME_END).encode(), np.uint8)


UNIQ_KEY_NAME, KEYS_NAME, TAGS_NAME = _name(props.UNIQ_KEY), _name(props.KEYS), _name(props.TAGS)
LIGHT_OFFSETS_NAME = _name(props.MULTI_QUEUE_OFFSET)
LONGEST_NAME = max(map(len, (UNIQ_KEY_NAME, KEYS_NAME, TAGS_NAME, LIGHT_OFFSETS_NAME)))

Places = NDArray[np.int64]


class Texts(NamedTuple):
    """Texts in an array of bytes, and the record that each belongs to."""

    starts: Places
    stops: Places
    owners: Places

    def of(self, chosen: NDArray[Any]) -> Texts:
        """Some of them, or all in another order."""
        return Texts(self.starts[chosen], self.stops[chosen], self.owners[chosen])


class Properties:
    """The properties texts of records, one behind the other."""

    def __init__(self, buffer: Bytes, rows: Rows) -> None:
        # The byte before a record's properties becomes the 02 before its first pair.
        lengths = rows["properties_size"].astype(np.int64) + 1
        self._record_starts = np.cumsum(lengths) - lengths
        self.text = text = np.zeros(int(lengths.sum()) + LONGEST_NAME + 1, np.uint8)
        at = places(rows["properties_position"] - 1, lengths)
        at[self._record_starts] = 0  # there may be no byte before
        if len(at):
            text[: len(at)] = buffer[at]
        text[self._record_starts] = PAIR_END
        text[-LONGEST_NAME - 1] = PAIR_END
        self._borders = np.flatnonzero(text == PAIR_END)

    def named(self, name: Bytes) -> Texts:
        """Every pair of this name: its value, which may be empty."""
        text, borders = self.text, self._borders
        pair = np.arange(len(borders) - 1)  # behind the last border nothing follows
        for i, letter in enumerate(name):
            pair = pair[text[borders[pair] + 1 + i] == letter]
        starts, stops = borders[pair] + 1 + len(name), borders[pair + 1]
        return Texts(starts, stops, np.searchsorted(self._record_starts, borders[pair], side="right") - 1)

    def values(self, name: Bytes) -> Texts:
        """Of each record that has this property: its value. Readers drop an empty one; of two the later wins."""
        found = self.named(name)
        found = found.of(found.stops > found.starts)
        owners = found.owners
        return found.of(np.append(owners[1:] != owners[:-1], True)[: len(owners)])

    def keys(self) -> Texts:
        """Each record's UNIQ_KEY, then the tokens of its KEYS, record by record."""
        uniq_keys, tokens = self.values(UNIQ_KEY_NAME), self._tokens(self.values(KEYS_NAME))
        both = Texts(*(np.concatenate(columns) for columns in zip(uniq_keys, tokens, strict=True)))
        is_token = np.repeat([False, True], [len(uniq_keys.starts), len(tokens.starts)])
        return both.of(np.lexsort((both.starts, is_token, both.owners)))

    def _tokens(self, values: Texts) -> Texts:
        """What stands between single spaces, without what is empty."""
        starts, stops, owners = values
        separators = np.flatnonzero(self.text == SEPARATOR)
        which = np.searchsorted(starts, separators, side="right") - 1
        inside = which >= 0
        inside[inside] = separators[inside] < stops[which[inside]]
        separators, which = separators[inside], which[inside]
        # Ranges that do not overlap, in order: sorted starts and sorted stops belong together.
        tokens = Texts(
            np.sort(np.concatenate((starts, separators + 1))),
            np.sort(np.concatenate((stops, separators))),
            np.sort(np.concatenate((owners, owners[which]))),
        )
        return tokens.of(tokens.stops > tokens.starts)
