"""The offsets that a stream keeps in Spark's checkpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flightlog.spark.stream.stream_offsets import BEGINNING, LogPlace, QueuePlaces, StreamOffset, parse_offset
from flightlog.spark.stream.stream_queues import share_of
from flightlog.store.errors import UsageError

QUEUES = QueuePlaces({("orders", 10): 7, ("orders", 2): 5, ("заказы", 0): 0}, 4096)
OFFSETS: list[tuple[StreamOffset, Any]] = [
    (StreamOffset({"": LogPlace(81920)}), {"physicalOffset": 81920}),
    (
        StreamOffset({"": QUEUES}),
        {"logEnd": 4096, "queues": {"orders": {"2": 5, "10": 7}, "заказы": {"0": 0}}},
    ),
    (
        StreamOffset({"": LogPlace(9)}, {"": LogPlace(5)}),
        {"began": {"physicalOffset": 5}, "physicalOffset": 9},
    ),
    (
        StreamOffset({"broker-b": LogPlace(9), "broker-a": QueuePlaces({}, 0)}, {"broker-b": LogPlace(0)}),
        {
            "began": {"stores": {"broker-b": {"physicalOffset": 0}}},
            "stores": {"broker-a": {"logEnd": 0, "queues": {}}, "broker-b": {"physicalOffset": 9}},
        },
    ),
]


@pytest.mark.parametrize(("offset", "written"), OFFSETS)
def test_offsets_are_written_one_way_and_read_back(offset: StreamOffset, written: Any) -> None:
    text = json.dumps(offset.to_json())
    assert text == json.dumps(written), "Spark compares texts: the order of names counts"
    assert parse_offset(json.loads(text)) == offset


def test_the_beginning_is_no_place_yet() -> None:
    assert parse_offset(json.loads(json.dumps(dict(BEGINNING)))) is None


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"offset": 5},
        {"physicalOffset": -1},
        {"physicalOffset": "5"},
        {"physicalOffset": True},
        {"physicalOffset": 5, "queues": {}},
        {"queues": {"orders": {"0": 5}}},
        {"logEnd": 5, "queues": {"orders": {"x": 5}}},
        {"logEnd": 5, "queues": {"orders": 5}},
        {"logEnd": 5, "queues": []},
        {"stores": {"a": {}}},
        {"stores": []},
        {"began": {}, "physicalOffset": 5},
        {"began": 5, "physicalOffset": 5},
    ],
)
def test_an_offset_of_another_source_is_refused(found: Any) -> None:
    with pytest.raises(UsageError, match="which is none of flightlog's; expected a physicalOffset or queues"):
        parse_offset(found)


def test_a_limit_is_shared_by_what_waits_and_starves_nobody() -> None:
    assert share_of(None, 5, 10) is None
    assert [share_of(100, backlog, 1000) for backlog in (900, 99, 1)] == [90, 9, 1]
    assert share_of(100, 0, 0) == 100
    assert share_of(100, 20, 50) == 40, "more than there is: all of it is taken"
