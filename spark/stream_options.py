"""The options of a stream, with the names and defaults of Spark's Kafka source.

startingOffsets       latest (default) or earliest: where a new stream begins; one that goes on is at its checkpoint
maxOffsetsPerTrigger  about how many messages a batch holds at most; all that there are by default
failOnDataLoss        true (default): the stream fails where something was removed before it was read; false: it goes
                      on with what there still is, and logs a warning
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..store.errors import InvalidSettingsError

STREAM_NAMES = ("startingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """These options, checked."""

    starting: Literal["earliest", "latest"] = "latest"
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True


PLAIN_STREAM = StreamOptions()


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """`given` has names in lower case. Raises InvalidSettingsError."""
    return StreamOptions(
        _starting(given.get("startingoffsets", "latest")),
        _max_offsets(given["maxoffsetspertrigger"]) if "maxoffsetspertrigger" in given else None,
        _is_true("failOnDataLoss", given.get("failondataloss", "true")),
    )


def _starting(text: str) -> Literal["earliest", "latest"]:
    match text.strip().lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
    raise InvalidSettingsError(f"startingOffsets={text!r}: expected earliest or latest")


def _max_offsets(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        raise InvalidSettingsError(f"maxOffsetsPerTrigger={text!r}: expected a number of messages, 1 or more")
    return int(digits)


def _is_true(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidSettingsError(f"{name}={text!r}: expected true or false")
    return text.lower() == "true"
