"""Stores that flightlog wrote, opened by the real RocketMQ: every message equal in every field, and back again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

pytestmark = pytest.mark.ci


def assert_clean(path: Path) -> int:
    """How every test ends that wrote a store; returns the number of records."""
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
    return report.records


def test_rocketmq_reads_ours_appends_and_hands_it_back(rocketmq: RocketMq, tmp_path: Path, scale: Scale) -> None:
    count, theirs, more = scale.pick(ci=(6_000, 1_000, 500), full=(60_000, 10_000, 5_000))
    path = tmp_path / "store"
    with flightlog.open(path, mixed.small_settings()) as store:
        lines: list[Line] = mixed.put_from_threads(store, 1, count)
        mixed.check_flightlog(store, lines)
        assert store.verify().is_clean
    assert len(list((path / "commitlog").iterdir())) > 20
    assert all(len(list(queue.iterdir())) > 1 for queue in (path / "consumequeue").glob("*/0"))
    assert {line["magic"] for line in lines} == {"0xdaa320a7", "0xdaa320ab"}
    assert {line["bodyLen"] for line in lines} >= {0, mixed.MAX_BODY_SIZE}
    assert_clean(path)

    opened = rocketmq.open_store(path, append=theirs, features=("v2", "v6", "unicode", "batch"), **mixed.SMALL)

    assert not opened.store["abortFileBefore"] and not opened.closed["abortFileAfter"]
    mixed.check_rocketmq(opened, lines)
    assert len(opened.appended) == theirs
    lines += map(mixed.their_line, opened.appended)

    with flightlog.open(path, mixed.small_settings(store_host=("2001:db8::1", 10911))) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        mixed.check_flightlog(store, lines)
        assert store.verify().is_clean
        lines += mixed.put_from_threads(store, 2, more)
        mixed.check_flightlog(store, lines)
    assert assert_clean(path) == len(lines) == count + theirs + more

    mixed.check_rocketmq(rocketmq.open_store(path, **mixed.SMALL), lines)
    with flightlog.open_read_only(path) as view:
        mixed.check_flightlog(view, lines)
    assert_clean(path)


def test_a_body_of_exactly_the_limit_at_default_sizes(rocketmq: RocketMq, tmp_path: Path) -> None:
    settings = StoreSettings()
    limit = settings.max_message_size
    assert limit == 4 << 20
    path = tmp_path / "store"
    messages = [Message("orders", size.to_bytes(8, "big") * (size // 8), tags="large") for size in (limit, 8, limit)]
    with flightlog.open(path) as store:
        lines = [mixed.expected_line(message, store.put(message), settings) for message in messages]
        mixed.check_flightlog(store, lines)
    assert_clean(path)

    opened = rocketmq.open_store(path, append=3, topics=("orders",), queues=1)

    mixed.check_rocketmq(opened, lines)
    lines += map(mixed.their_line, opened.appended)
    with flightlog.open(path) as store:
        mixed.check_flightlog(store, lines)
    assert_clean(path)
