"""The columns that come from properties, for many messages at once.

All property texts are parsed as one run of bytes, in which numpy finds the separators. The rules are those of
`store/format/properties.py`: a pair needs a name and a value, the last pair may lack its end, and of two equal names
the later one counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...store.format import property_names as props
from .gathering import as_text, bytes_of, gather, spread
from .schema import ARROW_TYPES

NAME_END = ord(props.NAME_END)
VALUE_END = ord(props.VALUE_END)
KEY_SEPARATOR = ord(props.KEY_SEPARATOR)

WORD = np.dtype("<u4")

Integers = NDArray[Any]


class PropertyColumns:
    """The property pairs of many messages.

    Invariant: pairs are in the order of the messages, and within a message in the order of its text.
    """

    def __init__(self, texts: Any) -> None:
        """`texts` is a binary array without nulls, with the property text of each message."""
        self._count = len(texts)
        self._data, bounds = bytes_of(as_text(texts))
        self._buffer = self._data
        self._message, self._name_start, self._name_stop, self._value_stop = _find_pairs(self._data, bounds)

    def value(self, name: str) -> Any:
        """The value of a property in each message, null if absent: a string array."""
        pair = self._pair_of(name.encode())
        is_there = pair >= 0
        return spread(self._values(pair[is_there]), is_there)

    @cached_property
    def keys(self) -> Any:
        """The index keys of each message: an array of lists of strings, empty for a message without keys."""
        pair = self._pair_of(props.KEYS.encode())
        is_there = pair >= 0
        values = self._values(pair[is_there])
        if not (bytes_of(values)[0] == KEY_SEPARATOR).any():  # most have one key; no value is empty
            count = np.cumsum(is_there, dtype=np.int32)
            offsets = pa.array(np.concatenate([np.zeros(1, np.int32), count]))
            return pa.ListArray.from_arrays(offsets, values, type=ARROW_TYPES["array<string>"])
        texts = spread(values, is_there).fill_null("")
        parts = pc.split_pattern(texts, pattern=props.KEY_SEPARATOR)
        kept = pc.greater(pc.binary_length(parts.values), 0)
        kept_before = np.concatenate([[0], np.cumsum(kept.to_numpy(zero_copy_only=False))])
        offsets = pa.array(kept_before[parts.offsets.to_numpy()], pa.int32())
        return pa.ListArray.from_arrays(offsets, parts.values.filter(kept), type=ARROW_TYPES["array<string>"])

    def first_key(self) -> Any:
        """The first index key of each message, null without one: a binary array."""
        offsets = self.keys.offsets.to_numpy()
        if len(self.keys.values) == self._count and (offsets[:-1] != offsets[1:]).all():  # one key in every message
            return self.keys.values.cast(pa.binary())
        firsts = pa.array(offsets[:-1], pa.int32(), mask=offsets[:-1] == offsets[1:])
        return self.keys.values.take(firsts).cast(pa.binary())

    def mapping(self) -> Any:
        """All pairs of each message: a map array."""
        names = self._texts(self._name_start, self._name_stop)
        kept = self._last_of_equal_names(names)
        message = self._message if kept is None else self._message[kept]
        offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(np.bincount(message, minlength=self._count), out=offsets[1:])
        if kept is None:
            values = self._texts(self._name_stop + 1, self._value_stop)
        else:
            names, values = names.take(pa.array(kept)), self._values(kept)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, values)

    def _last_of_equal_names(self, names: Any) -> Integers | None:
        """The pairs that no later pair of the same message and name replaces; None if these are all."""
        encoded = names.dictionary_encode()
        identity = self._message * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        if (identity[1:] > identity[:-1]).all():  # usual: all messages have their properties in the same order
            return None
        order = np.argsort(identity, kind="stable")
        replaced = order[:-1][np.diff(identity[order]) == 0]
        return np.delete(np.arange(len(names)), replaced)

    def _pair_of(self, name: bytes) -> Integers:
        """The last pair of this name in each message, or -1."""
        hits = np.flatnonzero(self._name_stop - self._name_start == len(name))
        for i in range(0, len(name), WORD.itemsize):
            part = name[i : i + WORD.itemsize]
            if len(part) == WORD.itemsize:
                hits = hits[self._words[self._name_start[hits] + i] == np.frombuffer(part, WORD)[0]]
            else:
                for j, byte in enumerate(part, i):
                    hits = hits[self._data[self._name_start[hits] + j] == byte]
        pair = np.full(self._count, -1, np.int64)
        pair[self._message[hits]] = hits  # ascending, so the last one stays
        return pair

    @cached_property
    def _words(self) -> Integers:
        """The four bytes from each byte on, to compare names four bytes at a time."""
        count = max(len(self._data) - WORD.itemsize + 1, 0)
        return np.ndarray((count,), WORD, np.ascontiguousarray(self._data), strides=(1,))

    def _values(self, pairs: Integers) -> Any:
        return self._texts(self._name_stop[pairs] + 1, self._value_stop[pairs])

    def _texts(self, starts: Integers, stops: Integers) -> Any:
        return gather(self._buffer, starts, stops - starts).view(pa.string())  # UTF-8 cut at an ASCII byte stays UTF-8


def _find_pairs(data: NDArray[np.uint8], bounds: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """(message, start of the name, end of the name, end of the value) of every valid pair.

    Text i is data[bounds[i] : bounds[i + 1]].
    """
    last_byte = bounds[1:][np.diff(bounds) > 0] - 1
    open_end = last_byte[data[last_byte] != VALUE_END]
    ends = np.flatnonzero(data == VALUE_END)
    if len(open_end):
        # A pair without its end is sorted in by its last byte and ends after it; no other pair ends there.
        last = np.sort(np.concatenate([ends, open_end]), kind="stable")
        stop = last + (data[last] != VALUE_END)
    else:
        last = stop = ends
    message = np.repeat(np.arange(len(bounds) - 1), np.diff(np.searchsorted(last, bounds)))
    start = bounds[message]
    follows = np.flatnonzero(message[1:] == message[:-1]) + 1
    start[follows] = stop[follows - 1] + 1
    name_ends = np.flatnonzero(data == NAME_END)
    # The usual case: every pair has one separator and is valid.
    if len(name_ends) == len(start) and (start < name_ends).all() and (name_ends + 1 < stop).all():
        return message, start, name_ends, stop
    name_ends = np.append(name_ends, len(data) + 1)
    name_stop = name_ends[np.searchsorted(name_ends, start)]
    counts = (start < name_stop) & (name_stop + 1 < stop)
    return message[counts], start[counts], name_stop[counts], stop[counts]
