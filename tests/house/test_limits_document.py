"""docs/limits.md: its numbers are those of the code, and its errors are classes of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flightlog.consume.deduplication import deduplication_window
from flightlog.consume.deliver.process_queue import FlowLimits
from flightlog.consume.group import group_errors
from flightlog.engine.read import finding, get_limits, reading
from flightlog.engine.services.long_polls import MAX_WAIT_S
from flightlog.index.dispatch.dispatch import MAX_QUEUE_OFFSET
from flightlog.index.filter import invalid_filter
from flightlog.index.filter.sql_parser import MAX_DEPTH as FILTER_DEPTH
from flightlog.index.filter.sql_parser import MAX_LENGTH as FILTER_LENGTH
from flightlog.index.key.index_folder import MOST_MAPPED
from flightlog.index.queue.queue_files import MOST_OPEN_FILES
from flightlog.store import errors, message_check, timer_errors
from flightlog.store.disk import config_file
from flightlog.store.format import inner_batch, record
from flightlog.store.settings import RANGES, StoreSettings
from flightlog.store.topic import GROUP_MAX_LENGTH, MAX_ROUTED_QUEUES, NAME_MAX_LENGTH

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "limits.md").read_text()


def test_the_ranges_are_those_of_the_settings() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|$", DOCUMENT, re.MULTILINE)
    assert {name: (low, high) for name, low, high in rows} == {
        name: (f"{low:,}", f"{high:,}") for name, (low, high) in RANGES.items()
    }


SETTINGS, FLOW = StoreSettings(), FlowLimits()


@pytest.mark.parametrize(
    "told",
    [
        f"| body | {SETTINGS.max_message_size >> 20} MiB",
        "| body | not empty, unless `rocketmq_strict=False`",
        f"| {record.PROPERTIES_MAX_SIZE:,} bytes, less 20 with `append_crc_property`",
        f"| 1 to {inner_batch.MAX_COUNT:,}, one topic and queue",
        f"| {record.TOPIC_MAX_SIZE} UTF-8 bytes; {record.RETRY_TOPIC_MAX_SIZE} with the prefix",
        f"| 1 to {NAME_MAX_LENGTH} characters",
        f"| new consumer group | 1 to {GROUP_MAX_LENGTH} of the same characters, unless",
        f"| {SETTINGS.max_auto_queue_count} (`max_auto_queue_count`)",
        f"| {MAX_ROUTED_QUEUES:,} | each takes memory",
        f"| {FLOW.max_count:,} messages, {FLOW.max_size >> 20} MiB of bodies, a span of {FLOW.max_span:,} offsets",
        f"| SQL92 filters | {FILTER_LENGTH:,} characters, {FILTER_DEPTH} parts",
        f"| {deduplication_window.MAX_COUNT:,} (`max_count`), three days (`max_age_s`)",
        f"| wait of a pull | {MAX_WAIT_S:.0f} s",
        f"| queue offset | {MAX_QUEUE_OFFSET:,} |",
        f"| {config_file.MAX_CONFIG_SIZE >> 20} MiB, {config_file.MAX_DEPTH} levels of nesting",
        f"| {get_limits.MAX_ANSWER_SIZE >> 20} MiB of records",
        f"| {reading.BATCH_LIMITS[0]:,} messages and {reading.BATCH_LIMITS[1] >> 30} GiB",
        f"| looks at {finding.MAX_SCANNED:,} entries, stops after {finding.ENOUGH_MATCHES:,} matches",
        f"up to {MOST_OPEN_FILES} queue files, up to {MOST_MAPPED} index files",
    ],
)
def test_a_limit_is_that_of_the_code(told: str) -> None:
    assert told in DOCUMENT


def test_every_error_is_one_of_ours() -> None:
    named = set(re.findall(r"`(\w+(?:Error|Warning))`", DOCUMENT)) - {"ImportError"}
    ours = (errors, timer_errors, invalid_filter, deduplication_window, group_errors, message_check)
    assert {name for name in named if not any(hasattr(module, name) for module in ours)} == set()
