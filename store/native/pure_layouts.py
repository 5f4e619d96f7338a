"""The properties of records that are laid out alike, without a look at single bytes: names, separators and lengths of
values stand in the same columns of all of them, as in what one program writes with keys of one length.

    K E Y S 01 k e y - 0 0 0 1 02 T A G S 01 x 02     the first record's properties say where a value stands,
    K E Y S 01 k e y - 0 0 0 2 02 T A G S 01 x 02     the others' are compared column by column, and those that
    K E Y S 01 k e y - 0 0 0 3 02 T A G S 01 y 02     differ in a column that is no value's are left to others

What comes out is what pure_listing.py finds record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..format import property_names as names
from ..format.frame import Rows
from .pure_hashes import Bytes, Hashes

FEWEST_ALIKE: Final = 128
"""Records of one layout from which it is quicker to look at columns: numpy's calls cost about as much as looking at so
many records byte by byte."""
LAYOUTS_OF_A_SIZE: Final = 4
"""Layouts that are tried where properties have the same size."""
LONGEST_TEXT: Final = 512
"""Bytes of properties up to which this is done: each byte of a value is a call."""

NAME_END, VALUE_END, SEPARATOR = (ord(each) for each in (names.NAME_END, names.VALUE_END, names.KEY_SEPARATOR))
UNIQ_KEY, KEYS, TAGS, LIGHT = (
    name.encode() for name in (names.UNIQ_KEY, names.KEYS, names.TAGS, names.MULTI_QUEUE_OFFSET)
)

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Alike:
    """Records of one layout."""

    row_numbers: Numbers
    """Ascending."""
    keys: list[tuple[Hashes, int]]
    """The hashes of each record's first key and its length, those of its second, …"""
    tags_codes: NDArray[np.int32] | None
    """None: they have no tag."""
    is_light: bool
    """Whether light queues list them."""


@dataclass(frozen=True)
class Layout:
    """Where things stand in a text of properties."""

    keys: list[slice]
    """UNIQ_KEY first, then the tokens of KEYS."""
    tags: slice | None
    is_light: bool
    fixed: Numbers
    """Columns that are the same in all records of this layout: names and separators."""
    free: Numbers
    """The others."""
    plain: Numbers
    """Those of the free ones that are hashed as they are: ASCII."""
    tokens: Numbers
    """Those of the plain ones that are a key's, where a separator would make two of one."""

    @staticmethod
    def of(text: bytes) -> Layout:
        values: dict[bytes, slice] = {}
        is_fixed = np.isin(np.frombuffer(text, np.uint8), (NAME_END, VALUE_END))
        is_light, start = False, 0
        for pair in text.split(b"\x02"):
            name, is_pair, value = pair.partition(b"\x01")
            value_start, stop = start + len(name) + 1, start + len(pair)
            is_fixed[start : value_start if is_pair else stop] = True
            is_light = is_light or (name == LIGHT and bool(is_pair))
            if name and value:
                values[name] = slice(value_start, stop)  # of two the later counts
            start = stop + 1
        keys = [values[UNIQ_KEY]] if UNIQ_KEY in values else []
        tokens = list(_tokens(text, values[KEYS])) if KEYS in values else []
        if KEYS in values:
            at = np.arange(values[KEYS].start, values[KEYS].stop)
            is_fixed[at[np.frombuffer(text, np.uint8)[at] == SEPARATOR]] = True
        keys += tokens
        hashed = [*keys, values[TAGS]] if TAGS in values else keys
        return Layout(
            keys,
            values.get(TAGS),
            is_light,
            np.flatnonzero(is_fixed),
            np.flatnonzero(~is_fixed),
            _columns(hashed),
            _columns(tokens),
        )

    def fits(self, columns: Bytes, first: bytes) -> NDArray[np.bool_]:
        """Which records have this layout, which is that of `first`; `columns` has a row for each byte."""
        fixed = np.frombuffer(first, np.uint8)[self.fixed]
        fits: NDArray[np.bool_] = (columns[self.fixed] == fixed[:, None]).all(axis=0)
        free = columns[self.free]
        fits &= ((free != NAME_END) & (free != VALUE_END)).all(axis=0)
        fits &= (columns[self.plain] < 0x80).all(axis=0)
        fits &= (columns[self.tokens] != SEPARATOR).all(axis=0)
        return fits


def _tokens(text: bytes, value: slice) -> Iterator[slice]:
    start = value.start
    for token in text[value].split(bytes((SEPARATOR,))):
        if token:
            yield slice(start, start + len(token))
        start += len(token) + 1


def _columns(slices: list[slice]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(each.start, each.stop) for each in slices)])


def find_alike(buffer: Bytes, rows: Rows) -> tuple[list[Alike], Numbers]:
    """Records of common layouts, and the numbers of the rows that are left; those without properties are nowhere."""
    found: list[Alike] = []
    left: list[Numbers] = []
    sizes = rows["properties_size"]
    for size in different_sizes(sizes):
        if size == 0:
            continue
        at = np.flatnonzero(sizes == size)
        if size <= LONGEST_TEXT:
            at = _find_in(buffer, rows["properties_position"][at], size, at, found)
        left.append(at)
    return found, np.sort(np.concatenate([np.empty(0, np.int64), *left]))


def different_sizes(sizes: NDArray[Any]) -> list[int]:
    """Each once; mostly there is one."""
    found: list[int] = (sizes[:1] if (sizes == sizes[:1]).all() else np.unique(sizes)).tolist()
    return found


def _find_in(buffer: Bytes, positions: Numbers, size: int, at: Numbers, found: list[Alike]) -> Numbers:
    """Add what is alike among rows `at`, whose properties have the same size; the rows that are left."""
    tries = LAYOUTS_OF_A_SIZE
    while len(at) >= FEWEST_ALIKE and tries:
        tries -= 1
        texts = texts_at(buffer, positions, size)
        first = texts[0].tobytes()
        columns = np.ascontiguousarray(texts.T)
        layout = Layout.of(first)
        fits = layout.fits(columns, first)
        if not fits[0]:  # it is not ASCII
            break
        here, rest = at, at[:0]
        if not fits.all():
            columns, here, rest, positions = columns[:, fits], at[fits], at[~fits], positions[~fits]
        keys = [(hash_columns(columns[key]), key.stop - key.start) for key in layout.keys]
        tags = None if layout.tags is None else hash_columns(columns[layout.tags]).view(np.int32)
        found.append(Alike(here, keys, tags, layout.is_light))
        at = rest
    return at


def texts_at(buffer: Bytes, positions: Numbers, size: int) -> Bytes:
    """The bytes [position, position + size) of the buffer, a row each; `size` is not 0."""
    windows: NDArray[Any] = np.ndarray(len(buffer) - size + 1, f"V{size}", buffer, strides=(1,))
    return windows[positions].view(np.uint8).reshape(len(positions), size)


def hash_columns(columns: Bytes) -> Hashes:
    """The hashes modulo 2**32 of ASCII texts that stand side by side; `columns` has a row for each letter."""
    letters = columns.astype(np.uint32)
    hashes: Hashes = letters[0].copy()
    for letter in letters[1:]:
        hashes *= np.uint32(31)
        hashes += letter
    return hashes
