"""Stores of RocketMQ 4.9.8: records V1 alone, properties without the last 0x02, three checkpoint words, an empty
`abort`. flightlog reads them and goes on, and 4.9.8 reads what flightlog wrote."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq

if TYPE_CHECKING:
    from flightlog import Store

pytestmark = pytest.mark.ci

FEATURES = ("unicode", "empty", "noprops", "types", "v6")
COUNT = 1500
V1_TOPIC_LIMIT = 127  # UTF-8 bytes; a longer topic makes a record V2, which 4.9 takes for damage


def put_for_49(store: Store, seed: int, count: int) -> list[Line]:
    """Mixed messages, but none that 4.9 could not read."""
    messages = (m for m in mixed.mixed_messages(seed) if len(m.topic.encode()) <= V1_TOPIC_LIMIT)
    return [mixed.expected_line(m, store.put(m), store.settings) for m in islice(messages, count)]


def assert_clean(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


@pytest.mark.parametrize("end", [{}, {"halt": True}], ids=["clean", "halted"])
def test_flightlog_takes_over_from_49_and_gives_back(rocketmq49: RocketMq, end: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "store"
    theirs = rocketmq49.write_store(path, seed=49, count=COUNT, features=FEATURES, **end, **mixed.SMALL)
    lines: list[Line] = list(map(mixed.their_line, theirs))
    assert {line["magic"] for line in lines} == {"0xdaa320a7"}
    if end:
        assert (path / "abort").read_bytes() == b""
    else:
        assert any((path / "checkpoint").read_bytes()[:16])
    assert not any((path / "checkpoint").read_bytes()[24:])

    with flightlog.open_read_only(path) as view:
        assert view.shutdown_state.last_writer is (LastWriter.ROCKETMQ_KILLED if end else LastWriter.ROCKETMQ_CLOSED)
        mixed.check_flightlog(view, lines)
        texts = {m.properties_raw for key in view.queues() for m in view.read(*key)}
        assert not any(text.endswith(b"\x02") for text in texts)
        if not end:
            assert view.verify().is_clean
    with flightlog.open(path, mixed.FREE) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        mixed.check_flightlog(store, lines)
        lines += put_for_49(store, 1, COUNT)
        mixed.check_flightlog(store, lines)
    assert_clean(path)

    opened = rocketmq49.open_store(path, append=300, queries="all", features=FEATURES, **mixed.SMALL)

    assert opened.store["tag"] == "rocketmq-all-4.9.8" and not opened.store["abortFileBefore"]
    mixed.check_rocketmq(opened, lines)
    for line in filter(mixed.is_listed, lines):
        for key in {line["uniqKey"], *(line["keys"] or "").split(" ")} - {None, ""}:
            assert line["commitLogOffset"] in opened.queries[line["topic"], key]
    lines += map(mixed.their_line, opened.appended)
    assert len(lines) == 2 * COUNT + 300
    with flightlog.open(path) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        mixed.check_flightlog(store, lines)
    assert_clean(path)


def test_49_reads_a_store_that_flightlog_made(rocketmq49: RocketMq, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, mixed.small_settings()) as store:
        lines = put_for_49(store, 2, COUNT)
    assert_clean(path)

    opened = rocketmq49.open_store(path, append=100, features=FEATURES, **mixed.SMALL)

    mixed.check_rocketmq(opened, lines)
    lines += map(mixed.their_line, opened.appended)
    with flightlog.open(path, mixed.small_settings()) as store:
        mixed.check_flightlog(store, lines)
    assert_clean(path)
