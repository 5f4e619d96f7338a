"""The base of the results of puts, in Python."""

from __future__ import annotations


class ResultFields:
    """See `native.ResultFields`."""

    __slots__ = (
        *("status", "topic", "queue_id", "queue_offset", "physical_offset", "size", "store_timestamp_ms"),
        "store_host_raw",
    )
