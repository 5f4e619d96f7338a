"""`flightlog.diff`: nothing between a store and its copy, and each kind of difference by its name."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Difference, DifferenceKind, Message, StoreSettings

SETTINGS = StoreSettings(segment_size=64 << 10, queue_file_entries=100, index_slots=100, index_entries=400)


def fill(path: Path, count: int = 40, settings: StoreSettings = SETTINGS, **changed: Any) -> Path:
    """A store whose message 7 of orders/0 is `changed`; times are the same in every store."""
    with flightlog.open(path, settings) as store:
        for number in range(count):
            fields: dict[str, Any] = {"body": b"body %d" % number, "tags": "a", "born_host": ("10.0.0.1", 5)}
            fields |= changed if number == 7 else {}
            store.put(Message("orders", queue_id=0, born_timestamp_ms=1_000 + number, **fields))
        store.put(Message("payments", b"one", queue_id=2, born_timestamp_ms=1))
    return path


def without_times(found: list[Difference]) -> list[Difference]:
    """Two stores that were filled one after the other have store times of their own."""
    return [each for each in found if each.field != "store_timestamp_ms"]


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return fill(tmp_path / "a")


@pytest.mark.parametrize("name", ["v1-clean", "rollover", "cqext", "lmq", "batch-bcq", "minoffset", "delay-tx"])
def test_a_copy_and_a_salvaged_store_do_not_differ(name: str, golden: Callable[[str], Path], tmp_path: Path) -> None:
    store = golden(name) / "store"
    flightlog.copy_store(store, tmp_path / "copy")
    flightlog.salvage(store, tmp_path / "salvaged", write=True)
    assert list(flightlog.diff(store, tmp_path / "copy", places=True)) == []
    left = [each for each in flightlog.diff(store, tmp_path / "salvaged") if each.kind is not DifferenceKind.SETTING]
    assert [each for each in left if each.kind is not DifferenceKind.TOPIC] == []


@pytest.mark.parametrize(
    ("changed", "field", "values"),
    [
        ({"body": b"other"}, "body", ("6 bytes, CRC-32 2DC15D48", "5 bytes, CRC-32 D9583520")),
        ({"tags": "b"}, "property TAGS", ("a", "b")),
        ({"properties": {"region": "eu"}}, "property region", (None, "eu")),
        ({"flag": 3}, "flag", ("0", "3")),
        ({"born_host": ("10.0.0.2", 5)}, "born_host", ("10.0.0.1:5", "10.0.0.2:5")),
    ],
)
def test_a_field_of_one_message(
    changed: dict[str, Any], field: str, values: tuple[str | None, str], a: Path, tmp_path: Path
) -> None:
    found = without_times(list(flightlog.diff(a, fill(tmp_path / "b", **changed))))
    assert found == [Difference(DifferenceKind.MESSAGE, "orders", field, *values, "orders", 0, 7)]
    assert str(found[0]) == f"message orders/0@7: {field}: {values[0] or 'none'} | {values[1]}"


def test_topics_queues_group_offsets_and_settings(a: Path, tmp_path: Path) -> None:
    b = Path(shutil.copytree(a, tmp_path / "b"))
    with flightlog.open(b) as store:
        store.put(Message("orders", b"more", queue_id=0))
        store.create_topic("new", 3)
        store.update_topic("payments", order=True)
        store.put(Message("orders", b"another queue", queue_id=1))
    offsets = b / "config" / "consumerOffset.json"
    offsets.write_text(json.dumps({"offsetTable": {"orders@g": {"0": 5}}, "dataVersion": {"counter": 9}}))
    (b / "config" / "other.json").write_text(json.dumps({"x": {"y": [1]}}))
    found = list(flightlog.diff(a, b))
    kinds = DifferenceKind
    assert found == [
        Difference(kinds.TOPIC, "new", "", None, "3 queues", "new"),
        Difference(kinds.TOPIC, "payments", "is_ordered", "False", "True", "payments"),
        Difference(kinds.QUEUE, "orders", "end offset", "40", "41", "orders", 0),
        Difference(kinds.QUEUE, "orders", "", None, "offsets from 0, below 1", "orders", 1),
        Difference(kinds.GROUP_OFFSET, "g", "offset", None, "5", "orders", 0),
        Difference(kinds.SETTING, "other.json", "x.y", None, "[1]"),
    ]
    assert [str(each) for each in found[-3:]] == [
        "queue orders/1: none | offsets from 0, below 1",
        "group offset g orders/0: offset: none | 5",
        "setting other.json: x.y: none | [1]",
    ]
    swapped = [(each.b, each.a) for each in flightlog.diff(b, a)]
    assert swapped == [(each.a, each.b) for each in found]


def test_a_damaged_message_is_missing(a: Path, tmp_path: Path) -> None:
    b = Path(shutil.copytree(a, tmp_path / "b"))
    with flightlog.open_read_only(b) as view:
        place = next(iter(view.read("orders", 0, 7))).physical_offset
    with (b / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(place + 95)
        file.write(b"!!")
    (found,) = flightlog.diff(a, b)
    assert (found.queue_offset, found.field, found.a, found.b) == (7, "", "6 bytes, CRC-32 2DC15D48", None)


def test_places_and_segment_sizes(a: Path, tmp_path: Path) -> None:
    b = fill(tmp_path / "b", settings=StoreSettings(segment_size=4096, queue_file_entries=100))
    assert [(each.name, each.field, each.a, each.b) for each in without_times(list(flightlog.diff(a, b)))] == [
        ("commitlog", "segment_size", "65536", "4096")
    ]
    places = {each.field for each in flightlog.diff(a, b, places=True) if each.kind is DifferenceKind.MESSAGE}
    assert "physical_offset" in places


def test_beside_a_live_writer(a: Path) -> None:
    with flightlog.open(a) as store:
        store.put(Message("orders", b"visible at once", queue_id=0))
        assert list(flightlog.diff(a, a)) == []


def test_memory_does_not_grow_with_the_differences(tmp_path: Path) -> None:
    """Every message differs; they are yielded one by one."""
    for number, path in enumerate((tmp_path / "a", tmp_path / "b")):
        with flightlog.open(path) as store:
            store.put_many([Message("t", b"%d" % number * 500, queue_id=0) for _ in range(6_000)])
    found = flightlog.diff(tmp_path / "a", tmp_path / "b")
    next(found)
    tracemalloc.start()
    count = sum(1 for _ in found)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count >= 5_999
    assert peak < 4 << 20, "6,000 messages of 500 bytes are 3 MB a store, and as many differences"
