"""The keys of many records at once, without an object a record: all properties texts are looked at as one array.

    … 02 K E Y S 01 a 20 b 02 T A G S 01 x 02 │ 02 U N I Q _ K E Y 01 …
      └ a pair begins behind every 02, and a record's first pair as if behind one

What comes out is what `key_entries.index_keys` finds record by record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..store import properties as props
from ..store.frame import Rows
from .key_hashes import hash_keys, hash_texts, places

PAIR_END, SEPARATOR = ord(props.VALUE_END), ord(props.KEY_SEPARATOR)
UNIQ_KEY_NAME = np.frombuffer((props.UNIQ_KEY + props.NAME_END).encode(), np.uint8)
KEYS_NAME = np.frombuffer((props.KEYS + props.NAME_END).encode(), np.uint8)
LONGEST_NAME = max(len(UNIQ_KEY_NAME), len(KEYS_NAME))

Places = NDArray[np.int64]


def key_columns(piece: bytes | memoryview, rows: Rows) -> tuple[NDArray[np.int32], Places]:
    """The hashes of the keys of these records, each with properties, and the row that each key belongs to."""
    buffer = np.frombuffer(piece, np.uint8)
    # The byte before a record's properties becomes the 02 before its first pair.
    lengths = rows["properties_size"].astype(np.int64) + 1
    record_starts = np.cumsum(lengths) - lengths
    text = np.concatenate(
        (buffer[places(rows["properties_position"] - 1, lengths)], np.zeros(LONGEST_NAME + 1, np.uint8))
    )
    text[record_starts] = PAIR_END
    text[-LONGEST_NAME - 1] = PAIR_END
    borders = np.flatnonzero(text == PAIR_END)

    uniq_keys = _values(text, borders, UNIQ_KEY_NAME, record_starts)
    tokens = _tokens(text, *_values(text, borders, KEYS_NAME, record_starts))
    starts, stops, owners = (np.concatenate(columns) for columns in zip(uniq_keys, tokens, strict=True))
    is_token = np.repeat([False, True], [len(uniq_keys[0]), len(tokens[0])])
    order = np.lexsort((starts, is_token, owners))
    starts, stops, owners = starts[order], stops[order], owners[order]

    key_hashes, key_lengths = hash_texts(text, starts, stops)
    keyed, topics = np.unique(owners, return_inverse=True)
    topic_starts = rows["topic_position"][keyed].astype(np.int64)
    topic_sizes = rows["topic_size"][keyed]
    has_topic = topic_sizes > 0
    topic_hashes = np.zeros(len(keyed), np.uint32)
    topic_hashes[has_topic] = hash_texts(buffer, topic_starts[has_topic], (topic_starts + topic_sizes)[has_topic])[0]
    return hash_keys(topic_hashes[topics], key_hashes, key_lengths), owners


def _values(
    text: NDArray[np.uint8], borders: Places, name: NDArray[np.uint8], record_starts: Places
) -> tuple[Places, Places, Places]:
    """Of each record that has this property: where its value starts and stops, and which record it is."""
    pair = np.arange(len(borders) - 1)  # behind the last border nothing follows
    for i, letter in enumerate(name):
        pair = pair[text[borders[pair] + 1 + i] == letter]
    starts, stops = borders[pair] + 1 + len(name), borders[pair + 1]
    is_there = stops > starts  # readers drop an empty value
    starts, stops = starts[is_there], stops[is_there]
    owners = np.searchsorted(record_starts, starts, side="right") - 1
    is_last = np.append(owners[1:] != owners[:-1], True)[: len(owners)]  # of two pairs of one name the later wins
    return starts[is_last], stops[is_last], owners[is_last]


def _tokens(text: NDArray[np.uint8], starts: Places, stops: Places, owners: Places) -> tuple[Places, Places, Places]:
    """The same of what stands between single spaces, without what is empty."""
    separators = np.flatnonzero(text == SEPARATOR)
    which = np.searchsorted(starts, separators, side="right") - 1
    inside = which >= 0
    inside[inside] = separators[inside] < stops[which[inside]]
    separators, which = separators[inside], which[inside]
    # Ranges that do not overlap, in order: sorted starts and sorted stops belong together.
    token_starts: NDArray[Any] = np.sort(np.concatenate((starts, separators + 1)))
    token_stops = np.sort(np.concatenate((stops, separators)))
    token_owners = np.sort(np.concatenate((owners, owners[which])))
    is_there = token_stops > token_starts
    return token_starts[is_there], token_stops[is_there], token_owners[is_there]
