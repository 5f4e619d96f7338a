"""From messages of inner batches back to their records."""

from __future__ import annotations

import itertools

from flightlog import ReadOnlyStore, Store, StoredMessage
from flightlog.store.format.inner_batch import encode_inner


def records_of(view: ReadOnlyStore | Store, messages: list[StoredMessage]) -> list[StoredMessage]:
    """Their records, each once; messages of inner batches must be all there, unwrapped, and give the batch back."""
    found: list[StoredMessage] = []
    for place, group in itertools.groupby(messages, lambda message: message.physical_offset):
        inside = list(group)
        if inside[0].batch_index is None:
            found += inside
            continue
        record = view.message_at(place)
        assert record is not None
        assert [m.batch_index for m in inside] == list(range(int(record.properties["INNER_NUM"])))
        assert [m.queue_offset - record.queue_offset for m in inside] == [m.batch_index for m in inside]
        assert b"".join(encode_inner(m.body, m.flag, m.properties_raw) for m in inside) == record.body
        assert sum(m.size for m in inside) == len(record.body)
        found.append(record)
    return found
