"""The options of a stream, with the names and defaults of Spark's Kafka source.

maxOffsetsPerTrigger  about how many messages a batch holds at most; all that there are by default

and those of selection_options.py: where a new stream begins, and whether it fails where something was removed before it
was read. One that goes on is at its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...store.errors import InvalidSettingsError

STREAM_NAMES = ("maxOffsetsPerTrigger",)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """These options, checked."""

    max_offsets_per_trigger: int | None = None


PLAIN_STREAM = StreamOptions()


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """`given` has names in lower case. Raises InvalidSettingsError."""
    return StreamOptions(
        _max_offsets(given["maxoffsetspertrigger"]) if "maxoffsetspertrigger" in given else None,
    )


def _max_offsets(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        raise InvalidSettingsError(f"maxOffsetsPerTrigger={text!r}: expected a number of messages, 1 or more")
    return int(digits)
