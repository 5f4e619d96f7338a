"""Columns: ranges gathered into one run, rows counted within their queues, and property texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...format.property_names import NAME_END, VALUE_END
from .arguments import check_no_overlap, column, is_inside, readable, share, writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

PARTS = 4


def gather(buffer: Buffer, starts: Buffer, sizes: Buffer, out: Buffer, /) -> int:
    """Bytes written. See `native.gather`."""
    data, start_view, size_view = readable(buffer), readable(starts), readable(sizes)
    target = writable(out, "out")
    places, lengths = column(start_view, 64), column(size_view, 64)
    if places is None or lengths is None or len(places) != len(lengths):
        raise ValueError("starts and sizes must be int64 columns of one length")
    if any(share(target, view) for view in (data, start_view, size_view)):
        raise ValueError("out shares memory with what is gathered")
    if not all(map(is_inside, [data] * len(places), places, lengths)):
        raise ValueError("a range lies outside of the buffer")
    if sum(lengths) != len(target):
        raise ValueError(f"the ranges take {sum(lengths)} bytes, out has {len(target)}")
    source, copies = np.frombuffer(data, np.uint8), np.frombuffer(target, np.uint8)  # others run while numpy copies
    done = 0
    for start, size in zip(places, lengths, strict=True):
        copies[done : done + size] = source[start : start + size]
        done += size
    return done


def number_rows(queue_ids: Buffer, ids: Buffer, next_offsets: Buffer, queue_offsets: Buffer, /) -> None:
    """See `native.number_rows`."""
    inputs = readable(queue_ids), readable(ids)
    outputs = [writable(next_offsets, "next_offsets"), writable(queue_offsets, "queue_offsets")]
    queues, table = column(inputs[0], 32), column(inputs[1], 32)
    if queues is None or table is None or [len(out) for out in outputs] != [8 * len(table), 8 * len(queues)]:
        raise ValueError("next_offsets must be an int64 column as long as ids, queue_offsets one as long as queue_ids")
    check_no_overlap(inputs, outputs)
    if table != sorted(set(table)) or not set(queues) <= set(table):
        raise ValueError("ids do not ascend, or a queue id is not among them")
    places = {queue_id: place for place, queue_id in enumerate(table)}
    following, offsets = (np.frombuffer(out, np.uint64) for out in outputs)  # beyond the highest int64 the lowest
    for row, queue_id in enumerate(queues):
        offsets[row] = following[places[queue_id]]
        following[places[queue_id]] += np.uint64(1)


def property_texts(
    properties: tuple[tuple[Buffer, Buffer, Buffer, Buffer], ...], text_sizes: Buffer, /
) -> tuple[bytes, bool]:
    """(texts, whether they are plain). See `native.property_texts`."""
    if type(properties) is not tuple:
        raise TypeError("property_texts() takes a tuple of properties")
    out = writable(text_sizes, "text_sizes")
    parts = [_parts(each) for each in properties]
    count = len(out) // 8
    ranges: list[tuple[list[int], list[int]]] = []
    for _, _, start_view, size_view in parts:
        starts, sizes = column(start_view, 64), column(size_view, 64)
        if (
            len(out) % 8
            or starts is None
            or sizes is None
            or len(starts) != len(sizes)
            or len(starts) not in (1, count)
        ):
            raise ValueError("starts and sizes must be int64 columns as long as text_sizes, or of one row")
        ranges.append((starts, sizes) if len(starts) == count else (starts * count, sizes * count))
    if len(out) % 8:
        raise ValueError("text_sizes must be an int64 column")
    if any(share(out, part) for column_parts in parts for part in column_parts):
        raise ValueError("text_sizes shares memory with a property")
    for (_, data, _, _), (starts, sizes) in zip(parts, ranges, strict=True):
        if not all(map(is_inside, [data] * count, starts, sizes)):
            raise ValueError("a value lies outside of its buffer")
    texts: list[bytes] = []
    pairs = 0
    for row in range(count):
        text = b""
        for (head, data, _, _), (starts, sizes) in zip(parts, ranges, strict=True):
            if value := bytes(data[starts[row] : starts[row] + sizes[row]]):
                text += bytes(head) + value + VALUE_END.encode()
                pairs += 1
        texts.append(text)
    np.frombuffer(out, np.int64)[:] = [len(text) for text in texts]
    joined = b"".join(texts)
    ends = [joined.count(end.encode()) for end in (NAME_END, VALUE_END)]
    return joined, ends == [pairs, pairs] and joined.isascii() and b"\0" not in joined


def _parts(properties: tuple[Buffer, Buffer, Buffer, Buffer]) -> list[memoryview]:
    if type(properties) is not tuple or len(properties) != PARTS:
        raise TypeError("property_texts() takes a tuple (head, data, starts, sizes) for each property")
    return [readable(part) for part in properties]
