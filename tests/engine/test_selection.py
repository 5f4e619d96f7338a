"""Selections of messages over many queues, beside a filter over everything that was put."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import CompressionType, Message, StoredMessage, StoreSettings
from flightlog.engine.read.selection import Selection
from flightlog.store.errors import InvalidArgumentError
from flightlog.store.format.sys_flag import has_queue_entry
from flightlog.testing import ManualClock
from flightlog.tests.engine.test_golden_read import CLEAN, HALTED, surviving

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet

COUNT = 400
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three topics, nine queues, one message a second, some compressed; delayed ones that wait."""
    path = tmp_path_factory.mktemp("selected") / "store"
    source, clock = random.Random(7), ManualClock(START_MS)
    settings = StoreSettings.small(segment_size=64 << 10, deliver_delayed=False)
    with flightlog.open(path, settings, clock=clock) as store:
        for number in range(COUNT):
            clock.at_ms = START_MS + 1000 * number
            store.put(
                Message(
                    source.choice(["orders", "bills", "mails"]),
                    b"body %d" % number + b"." * source.randrange(300),
                    tags=source.choice(["a", "b", None]),
                    keys=[f"k{number % 40}"],
                    properties={"amount": str(number % 10)},
                    uniq_key=f"u{number}",
                    queue_id=source.randrange(3),
                    delay_level=3 if number % 50 == 49 else 0,
                    compress=CompressionType.ZLIB if number % 7 == 0 else None,
                )
            )
    return path


def everything(path: Path) -> list[StoredMessage]:
    with flightlog.open_read_only(path) as view:
        found = [each for key in view.queues() for each in view.read(*key, decompress=True)]
    return sorted(found, key=lambda each: each.physical_offset)


def wants(selection: Selection, message: StoredMessage) -> bool:
    """The plain rule."""
    if selection.topics:
        if message.topic not in selection.topics:
            return False
    elif message.topic == "SCHEDULE_TOPIC_XXXX" and not selection.include_system:
        return False
    properties = message.properties
    return (
        (selection.queue_id is None or message.queue_id == selection.queue_id)
        and (selection.tags is None or message.tags in selection.tags.split(" || "))
        and (selection.filter is None or int(properties["amount"]) > 5)
        and (selection.key is None or selection.key in (*message.keys, message.uniq_key))
        and (selection.begin_ms is None or message.store_timestamp_ms >= selection.begin_ms)
        and (selection.end_ms is None or message.store_timestamp_ms < selection.end_ms)
        and (selection.first_offset is None or message.queue_offset >= selection.first_offset)
        and (selection.end_offset is None or message.queue_offset < selection.end_offset)
        and (selection.body is None or selection.body.search(message.body) is not None)
    )


def drawn(source: random.Random) -> Selection:
    def some(*values: Any) -> Any:
        return source.choice([None, *values])

    tags = some("a", "a || b")
    return Selection(
        topics=source.choice([(), ("orders",), ("orders", "mails"), ("SCHEDULE_TOPIC_XXXX",), ("none",)]),
        queue_id=some(0, 2),
        tags=tags,
        filter=None if tags else some(flightlog.sql("amount > 5")),
        key=some("k3", "u77", "nobody"),
        begin_ms=some(START_MS + 100_000, START_MS + 100_500),
        end_ms=some(START_MS + 300_000, START_MS),
        first_offset=some(0, 20),
        end_offset=some(25, 30),
        body=some(re.compile(rb"body \d*7\b")),
        include_system=source.random() < 0.5,
    )


def places(messages: Any) -> list[int]:
    return [each.physical_offset for each in messages]


@pytest.mark.parametrize("seed", range(150))
def test_a_selection_has_what_a_filter_over_everything_has(path: Path, seed: int) -> None:
    source = random.Random(seed)
    selection = drawn(source)
    expected = [each for each in everything(path) if wants(selection, each)]
    with flightlog.open_read_only(path) as view:
        found = list(selection.messages(view))
        assert found == expected
        for count in (1, 7, 1000):
            assert selection.newest(view, count) == expected[-count:]


def test_without_a_wish_it_is_the_log(path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open_read_only(path) as view:
        found = list(Selection(include_system=True).messages(view))
    assert len(found) == COUNT and places(found) == sorted(places(found))
    assert {each.body.split(b".")[0] for each in found} == {b"body %d" % number for number in range(COUNT)}
    assert_clean(path)


def test_tags_and_a_filter_are_one_too_many() -> None:
    with pytest.raises(InvalidArgumentError, match="one of tags and filter"):
        Selection(tags="a", filter=flightlog.sql("amount > 5"))


@pytest.mark.parametrize("name", HALTED + CLEAN)
def test_it_agrees_with_the_manifest_of_every_golden_set(name: str, golden_set: Callable[[str], GoldenSet]) -> None:
    golden = golden_set(name)
    expected = [line for line in surviving(golden) if has_queue_entry(line["sysFlag"])]
    with flightlog.open_read_only(golden.store) as view:
        found = list(Selection(include_system=True).messages(view, on_corrupt="skip"))
        assert list(dict.fromkeys(places(found))) == [line["commitLogOffset"] for line in expected]
        for line in expected[:: max(len(expected) // 20, 1)]:
            for key in filter(None, [line["uniqKey"], *(line["keys"] or "").split()]):
                selection = Selection((line["topic"],), key=key)
                assert line["commitLogOffset"] in places(selection.messages(view, on_corrupt="skip")), (line, key)
