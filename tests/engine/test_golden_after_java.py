"""What RocketMQ itself left when it had opened, recovered and closed the golden stores: read as it read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.store.format.sys_flag import INNER_BATCH

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import GoldenSet

    GetSet = Callable[[str], GoldenSet]
    Described = Callable[[Any], dict[str, Any]]

AGREEING = (
    *("abort", "abort-cqlag", "abort-crcflip", "abort-late", "abort-reopen", "abort-torn", "batch-bcq", "cqext"),
    *("delay-tx", "lmq", "minoffset", "propcrc", "rollover", "v1-clean", "v2-v6"),
)
SEEING_LESS = {"clean-cqlag": 925, "preblank": 224}
"""Sets in which RocketMQ does not show all that is there, and how much it shows."""


@pytest.mark.parametrize("name", AGREEING)
def test_reads_what_rocketmq_read(
    name: str, golden_set: GetSet, describe: Described, described: Described, records_of: Callable[..., Any]
) -> None:
    golden = golden_set(name)
    expected = {place: m for place, m in golden.java_read.items() if (place[0], place[1]) in golden.java_bounds}
    with flightlog.open_read_only(golden.after_java) as view:
        assert view.shutdown_state.last_writer is LastWriter.ROCKETMQ_CLOSED
        assert view.queues() == golden.java_bounds
        read = {
            (topic, queue_id, message.queue_offset if message.sys_flag & INNER_BATCH else first + i): message
            for (topic, queue_id), (first, _) in view.queues().items()
            for i, message in enumerate(records_of(view, list(view.read(topic, queue_id))))
        }
    assert read.keys() == expected.keys()
    for place, message in read.items():
        assert describe(message) == described(expected[place])


@pytest.mark.parametrize("name", SEEING_LESS)
def test_reads_what_rocketmq_no_longer_shows(
    name: str, golden_set: GetSet, describe: Described, described: Described
) -> None:
    golden = golden_set(name)
    assert len(golden.java_read) == SEEING_LESS[name]
    with flightlog.open_read_only(golden.after_java) as view:
        read = sorted((m for key in view.queues() for m in view.read(*key)), key=lambda m: m.physical_offset)
    assert [describe(m) for m in read] == [described(line) for line in golden.put]


def test_flipped_byte_of_a_clean_store_is_still_found(golden_set: GetSet) -> None:
    """RocketMQ opened it and noticed nothing."""
    golden = golden_set("clean-crcflip")
    flipped = golden.note("crcflip.json")["flippedMessageOffset"]
    with flightlog.open_read_only(golden.after_java) as view:
        read = {m.physical_offset for key in view.queues() for m in view.read(*key, on_corrupt="skip")}
        assert view.corrupt_skipped == 1
        assert read == {m["commitLogOffset"] for m in golden.put} - {flipped}
        assert [f.offset for f in view.verify().findings] == [flipped]


@pytest.mark.parametrize("name", AGREEING)
def test_verify_finds_only_what_rocketmq_left_behind(name: str, golden_set: GetSet) -> None:
    """Its recovery truncates in memory alone: behind the end lie a torn record, or records it threw away, and their
    queue entries. Everything else that it left is sound."""
    golden = golden_set(name)
    with flightlog.open_read_only(golden.after_java) as view:
        findings = view.verify().findings
    if name not in ("abort-torn", "abort-crcflip"):
        assert findings == []
        return
    end = golden.note("torn.json" if name == "abort-torn" else "crcflip.json")
    (log_finding,) = [f for f in findings if f.path.parent.name == "commitlog"]
    assert log_finding.offset in end.values() and "torn tail" in log_finding.meaning
    phantoms = [f for f in findings if f is not log_finding]
    assert phantoms and all("phantom" in f.meaning for f in phantoms)
