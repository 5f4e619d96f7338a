"""Property texts in Python: from a column a property to a text a row.

Columns are copied before they are checked, so what was checked is what is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from .pure_arguments import readable, writable
from .pure_columns import gather, share

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME_END: Final = 1
VALUE_END: Final = 2
PARTS: Final = 4

Integers = NDArray[np.int64]


def property_texts(
    properties: tuple[tuple[Buffer, Buffer, Buffer, Buffer], ...], text_sizes: Buffer, /
) -> tuple[bytes, bool]:
    """(texts, whether they are plain). See `native.property_texts`."""
    if type(properties) is not tuple:
        raise TypeError("property_texts() takes a tuple of properties")
    out = writable(text_sizes, "text_sizes")
    columns = [_parts(each) for each in properties]
    rows = len(out) // 8
    if len(out) % 8 or any(
        len(sizes) != len(starts) or len(starts) not in (8, 8 * rows) for _, _, starts, sizes in columns
    ):
        raise ValueError("starts and sizes must be int64 columns as long as text_sizes, or of one row")
    if any(share(out, part) for column in columns for part in column):
        raise ValueError("text_sizes shares memory with a property")

    source = [bytes([VALUE_END])]
    starts: Integers = np.zeros((rows, len(columns), 3), np.int64)
    sizes: Integers = np.ones((rows, len(columns), 3), np.int64)
    behind = 1
    for place, (head, data, first, length) in enumerate(columns):
        places, lengths = (np.frombuffer(bytes(part), np.int64) for part in (first, length))
        if rows:
            _check_inside(len(data), places, lengths)
        used = _span(places, lengths) if rows else slice(0, 0)
        source += [bytes(head), bytes(data[used])]
        starts[:, place, 0], sizes[:, place, 0] = behind, len(head)
        starts[:, place, 1], sizes[:, place, 1] = behind + len(head) + places - used.start, lengths
        sizes[:, place] *= (lengths > 0)[:, np.newaxis]
        behind += len(head) + len(source[-1])
    starts *= sizes > 0
    pairs = int(np.count_nonzero(sizes[:, :, 2]))
    sums = sizes.sum(axis=(1, 2))
    text = np.empty(int(sums.sum()), np.uint8)
    gather(b"".join(source), starts.reshape(-1), sizes.reshape(-1), text)
    np.ndarray(rows, np.int64, out)[:] = sums
    ends = (int(np.count_nonzero(text == end)) for end in (NAME_END, VALUE_END))
    return text.tobytes(), all(count == pairs for count in ends) and not ((text >= 0x80) | (text == 0)).any()


def _parts(column: tuple[Buffer, Buffer, Buffer, Buffer]) -> list[memoryview]:
    if type(column) is not tuple or len(column) != PARTS:
        raise TypeError("property_texts() takes a tuple (head, data, starts, sizes) for each property")
    return [readable(part) for part in column]


def _check_inside(size: int, starts: Integers, sizes: Integers) -> None:
    if starts.min() < 0 or sizes.min() < 0 or sizes.max() > size or (starts > size - sizes).any():
        raise ValueError("a value lies outside of its buffer")


def _span(starts: Integers, sizes: Integers) -> slice:
    """The bytes that are used of a column's data; there is one row at least."""
    return slice(int(starts.min()), int((starts + sizes).max()))
