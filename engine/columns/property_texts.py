"""Encode the properties of many messages at once.

The rules are in `store/format/properties.py`. A quick check over all texts together usually proves that every row obeys
them; otherwise the rows are checked one by one.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ...store import native
from ...store.errors import InvalidMessageError, PropertiesTooLargeError
from ...store.format import property_names as props
from ...store.format.properties import encode_properties
from ...store.format.record import PROPERTIES_MAX_SIZE
from ...store.message import check_key
from .column_buffers import Fields, Integers, Lists, Pairs, Ranges, each_alone, merge

NAME_END = ord(props.NAME_END)
VALUE_END = ord(props.VALUE_END)
DECODED_SIZE = 1 << 20
"""Bytes of text decoded at a time by the check for UTF-8."""


def key_texts(keys: Lists | Ranges) -> Ranges:
    """The KEYS property of each row. Raises InvalidMessageError as `check_key` does."""
    if isinstance(keys, Ranges):
        if not _contains(keys, ord(props.KEY_SEPARATOR)):
            return keys.filled()
        keys = each_alone(keys)
    values = keys.values
    row_ends = np.cumsum(keys.counts)
    count = int(row_ends[-1]) if len(row_ends) else 0
    items = np.repeat(keys.starts - (row_ends - keys.counts), keys.counts) + np.arange(count)
    values = values.take(items)
    source = np.append(values.data, np.uint8(ord(props.KEY_SEPARATOR)))
    starts, sizes = np.full((count, 2), len(source) - 1), np.ones((count, 2), np.int64)
    starts[:, 0], sizes[:, 0] = values.starts, values.sizes
    text = gathered(source, starts.reshape(-1), sizes.reshape(-1))
    if not values.sizes.all() or np.count_nonzero(text == ord(props.KEY_SEPARATOR)) != count:
        _check_keys(values, row_ends)
    ends = np.concatenate([[0], np.cumsum(values.sizes + 1)])[np.concatenate([[0], row_ends])]
    sizes = np.diff(ends) - 1
    return Ranges(text, ends[:-1], np.maximum(sizes, 0), sizes > 0)


def _check_keys(values: Ranges, row_ends: Integers) -> None:
    """Raise InvalidMessageError for the first key that a put would refuse."""
    for item, (start, size) in enumerate(zip(values.starts.tolist(), values.sizes.tolist(), strict=True)):
        try:
            check_key(values.data[start : start + size].tobytes().decode(errors="replace"))
        except InvalidMessageError as e:
            row = int(np.searchsorted(row_ends, item, side="right"))
            raise InvalidMessageError(e.reason, row=row, column="keys") from None


def _contains(values: Ranges, byte: int) -> bool:
    """Whether this byte is in the values, or perhaps between two of them."""
    if not len(values):
        return False
    used = values.data[int(values.starts.min()) : int((values.starts + values.sizes).max())]
    return bool((used == byte).any())


def texts_of(parts: Sequence[Pairs | Fields], count: int) -> tuple[Ranges, set[bytes]]:
    """The text of each of `count` rows, and the names in them.

    Raises InvalidMessageError, and PropertiesTooLargeError for a text that is too long, with the row.
    """
    columns = _columns_alone(parts)
    if columns is not None:
        return _column_texts(columns, count), {name for name, values in columns if values.sizes.any()}
    pairs = merge([part.pairs() if isinstance(part, Fields) else part for part in parts])
    return property_texts(pairs, count), {pairs.names[code] for code in np.unique(pairs.codes).tolist()}


def _columns_alone(parts: Sequence[Pairs | Fields]) -> list[tuple[bytes, Ranges]] | None:
    """The columns, if there are only columns, with distinct names and no empty values; else None."""
    columns: list[tuple[bytes, Ranges]] = []
    for part in parts:
        if not isinstance(part, Fields):
            return None
        columns += part.columns
    names = {name for name, _ in columns}
    if len(names) < len(columns) or b"" in names or any(values.has_empty() for _, values in columns):
        return None
    return columns


def _column_texts(columns: list[tuple[bytes, Ranges]], count: int) -> Ranges:
    sizes = np.empty(count, np.int64)
    end = props.NAME_END.encode()
    given = [(name + end, values.data, _column(values.starts), _column(values.sizes)) for name, values in columns]
    raw, is_plain = native.property_texts(tuple(given), sizes)
    text = np.frombuffer(raw, np.uint8)
    _check_sizes(sizes)
    if not is_plain and not _is_plain(text, sum(int(np.count_nonzero(values.sizes)) for _, values in columns)):
        _check_rows(Fields(columns).pairs())
    return Ranges(text, np.cumsum(sizes) - sizes, sizes)


def _column(numbers: Integers) -> Integers:
    """The form that the kernel expects: a single item if all are the same one."""
    return numbers[:1] if numbers.strides == (0,) else np.ascontiguousarray(numbers)


def property_texts(pairs: Pairs, count: int) -> Ranges:
    """The text of each of `count` rows.

    Raises InvalidMessageError, and PropertiesTooLargeError for a text that is too long, with the row.
    """
    pairs = _as_in_a_mapping(pairs)
    names = [name + props.NAME_END.encode() for name in pairs.names]
    name_sizes = np.array([len(name) for name in names], np.int64)
    name_starts = np.cumsum(name_sizes) - name_sizes
    shared = np.frombuffer(props.VALUE_END.encode() + b"".join(names), np.uint8)
    source = np.concatenate([shared, pairs.values.data])
    starts, sizes = np.zeros((len(pairs.rows), 3), np.int64), np.ones((len(pairs.rows), 3), np.int64)
    starts[:, 0], sizes[:, 0] = 1 + name_starts[pairs.codes], name_sizes[pairs.codes]
    starts[:, 1], sizes[:, 1] = len(shared) + pairs.values.starts, pairs.values.sizes
    if not (sizes[:, 0] > 1).all() or not sizes[:, 1].all():
        _check_rows(pairs)  # one of them has an empty name or value
    text = gathered(source, starts.reshape(-1), sizes.reshape(-1))
    row_ends = np.cumsum(np.bincount(pairs.rows, minlength=count))
    bounds = np.zeros(count + 1, np.int64)
    bounds[1:] = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])[row_ends]
    _check_sizes(np.diff(bounds))
    if not _is_plain(text, len(pairs.rows)):
        _check_rows(pairs)
    return Ranges(text, bounds[:-1], np.diff(bounds))


def gathered(source: NDArray[np.uint8], starts: Integers, sizes: Integers) -> NDArray[np.uint8]:
    """The bytes of these ranges, concatenated."""
    out = np.empty(int(sizes.sum()), np.uint8)
    native.gather(source, starts, sizes, out)
    return out


def _as_in_a_mapping(pairs: Pairs) -> Pairs:
    """Merge equal names in a row as a mapping does: at the place of the first, with the value of the last. So column
    `tags` replaces a property TAGS."""
    identity = pairs.rows * max(len(pairs.names), 1) + pairs.codes
    order = np.argsort(identity, kind="stable")
    differs = np.diff(identity[order]) != 0
    if differs.all():
        return pairs
    firsts, lasts = order[np.append(True, differs)], order[np.append(differs, True)]
    kept = np.sort(firsts)
    values = pairs.values.take(lasts[np.argsort(firsts)])
    return Pairs(pairs.rows[kept], pairs.names, pairs.codes[kept], values)


def _check_sizes(sizes: Integers) -> None:
    if len(sizes) and sizes.max() > PROPERTIES_MAX_SIZE:
        row = int(sizes.argmax())
        raise PropertiesTooLargeError(
            f"properties, keys and tags take {sizes[row]} bytes, the format's limit is "
            f"{PROPERTIES_MAX_SIZE}. Move data into the body",
            row=row,
        )


def _is_plain(text: NDArray[np.uint8], pair_count: int) -> bool:
    """Whether all texts together prove that every row is valid: as many separators of each kind as pairs, no zero byte,
    and UTF-8. As every name and value is followed by a separator, UTF-8 as a whole means UTF-8 in each of them."""
    if any(np.count_nonzero(text == separator) != pair_count for separator in (NAME_END, VALUE_END)):
        return False
    if not text.all():
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), DECODED_SIZE) if len(text) and text.max() >= 0x80 else ():
            stop = start + DECODED_SIZE
            decoder.decode(text[start:stop].tobytes(), stop >= len(text))
    except UnicodeDecodeError:
        return False
    return True


def _check_rows(pairs: Pairs) -> None:
    """Raise InvalidMessageError for the first row whose properties a put would refuse, if there is one."""
    data, starts, sizes = pairs.values.data, pairs.values.starts.tolist(), pairs.values.sizes.tolist()
    codes = pairs.codes.tolist()
    for row, items in groupby(range(len(codes)), pairs.rows.tolist().__getitem__):
        try:
            encode_properties(
                {
                    pairs.names[codes[item]].decode(): data[starts[item] : starts[item] + sizes[item]]
                    .tobytes()
                    .decode()
                    for item in items
                }
            )
        except UnicodeDecodeError as e:
            raise InvalidMessageError(f"a property cannot be written as UTF-8: {e.reason}", row=row) from e
        except InvalidMessageError as e:
            raise InvalidMessageError(e.reason, row=row) from None
