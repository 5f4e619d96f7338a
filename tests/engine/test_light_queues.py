"""Light message queues: entries in several queues for one record, as RocketMQ's store `lmq` has them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.read.entries import message_of
from flightlog.index.queue.queue_unit import QueueUnit
from flightlog.store.errors import InvalidMessageError, PropertiesTooLargeError
from flightlog.store.format.light_queues import light_places
from flightlog.store.format.properties import decode_properties
from flightlog.store.format.sys_flag import INNER_BATCH, TRANSACTION_PREPARED

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

    GoldenCopy = Callable[[str], Path]

LIGHT = ("%LMQ%T112_a", 0)
ENTRY_SIZE = 20


@pytest.fixture
def path(golden_copy: GoldenCopy) -> Path:
    return golden_copy("lmq") / "store"


def queue_files(path: Path) -> dict[str, bytes]:
    folder = path / "consumequeue"
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_rebuilt_queues_are_rocketmqs_byte_for_byte(path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    before = queue_files(path)
    shutil.rmtree(path / "consumequeue")
    with flightlog.open_read_only(path) as view:
        assert sum(1 for _ in view.read(*LIGHT)) == 67
    flightlog.open(path, StoreSettings(queue_file_entries=1000), clock=clock).close()
    assert queue_files(path) == before
    assert_clean(path)


def test_a_light_queue_alone_that_lags_is_completed(path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    before = queue_files(path)
    file = path / "consumequeue" / LIGHT[0] / "0" / f"{0:020d}"
    with file.open("r+b") as f:
        f.seek(40 * ENTRY_SIZE)
        f.write(bytes(27 * ENTRY_SIZE))
    with flightlog.open_read_only(path) as view:
        (finding,) = view.verify().findings
        assert (finding.path.parent.name, finding.offset) == (LIGHT[0], 40) and "27 messages have no" in finding.meaning
        assert view.queues()[LIGHT] == (0, 67)
    flightlog.open(path, clock=clock).close()
    assert queue_files(path) == before
    assert_clean(path)


def test_phantoms_of_a_light_queue_go(path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    """Entries that no record asks for: of another queue's message, behind the last one of the light queue."""
    before = queue_files(path)
    file = path / "consumequeue" / LIGHT[0] / "0" / f"{0:020d}"
    with file.open("r+b") as f:
        f.seek(67 * ENTRY_SIZE)
        f.write(before["T112_1/1/00000000000000000000"][ENTRY_SIZE : 2 * ENTRY_SIZE])
    with flightlog.open_read_only(path) as view:
        (finding,) = view.verify().findings
        assert (finding.path.parent.name, finding.offset) == (LIGHT[0], 67) and "phantom" in finding.meaning
    flightlog.open(path, clock=clock).close()
    assert queue_files(path) == before
    assert_clean(path)


@pytest.mark.parametrize(
    ("topic", "properties", "places"),
    [
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b INNER_MULTI_QUEUE_OFFSET=7,0", [("%LMQ%a", 7), ("%LMQ%b", 0)]),
        ("t", "INNER_MULTI_DISPATCH=plain,%LMQ%b INNER_MULTI_QUEUE_OFFSET=3,1", [("%LMQ%b", 1)]),
        ("t", "INNER_MULTI_DISPATCH=plain,%LMQ%b INNER_MULTI_QUEUE_OFFSET=,1", [("%LMQ%b", 1)]),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b INNER_MULTI_QUEUE_OFFSET=7", []),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=-1", []),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=x", []),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a", []),
        ("t", "INNER_MULTI_QUEUE_OFFSET=1", []),
        ("%RETRY%g", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=1", []),
        ("rmq_sys_wheel_timer", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=1", []),
        ("SCHEDULE_TOPIC_XXXX", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=1", []),
    ],
)
def test_which_light_queues_list_a_record(topic: str, properties: str, places: list[tuple[str, int]]) -> None:
    raw = "".join(pair.replace("=", "\x01") + "\x02" for pair in properties.split(" ")).encode()
    assert [(key[0], offset) for key, offset in light_places(topic, raw)] == places


def test_an_inner_batch_in_a_light_queue_is_one_message() -> None:
    """Its own queue has an entry for all of its messages; a light queue has one for the record."""
    raw = b"INNER_NUM\x012\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x017\x02"
    record = cast(
        "Any", SimpleNamespace(sys_flag=INNER_BATCH, topic="t", queue_id=0, queue_offset=4, properties_raw=raw)
    )
    reader = cast("Any", SimpleNamespace(min_offset=0, message=lambda physical_offset, size: record))
    record.properties = decode_properties(raw)
    assert message_of(reader, ("%LMQ%a", 0), 7, QueueUnit(100, 200, 0)) is record


def light_message(number: int, names: str | None, **fields: Any) -> Message:
    properties = {"INNER_MULTI_DISPATCH": names} if names else {}
    return Message("orders", b"%d" % number, tags="a", queue_id=number % 2, properties=properties, **fields)


NAMES = ("%LMQ%a", None, "%LMQ%b,%LMQ%a", "%LMQ%b", None)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("flush_mode", FlushMode)
def test_put_into_light_queues(tmp_path: Path, flush_mode: FlushMode, assert_clean: AssertClean) -> None:
    has_crc = flush_mode is FlushMode.SYNC  # which comes behind the offsets, and covers them
    settings = StoreSettings.small(
        multi_dispatch=True, flush_mode=flush_mode, append_crc_property=has_crc, check_crc_property=has_crc
    )
    numbers: dict[str, list[int]] = {"%LMQ%a": [], "%LMQ%b": []}
    for session in range(2):
        with flightlog.open(tmp_path, settings) as store:
            messages = [light_message(session * 60 + i, NAMES[i % len(NAMES)]) for i in range(60)]
            results = store.put_many(messages[:30]) + [store.put(m) for m in messages[30:]]
            for message, result in zip(messages, results, strict=True):
                names = (message.properties or {}).get("INNER_MULTI_DISPATCH", "")
                places = [(name, len(numbers[name])) for name in names.split(",") if name]
                for name, _ in places:
                    numbers[name].append(int(message.body))
                stored = store.message_at(result.physical_offset)
                assert stored is not None and stored.size == result.size
                assert (stored.topic, stored.queue_offset) == ("orders", result.queue_offset)
                if places:
                    offsets = ",".join(str(offset) for _, offset in places)
                    assert stored.properties["INNER_MULTI_QUEUE_OFFSET"] == offsets
                else:
                    assert "INNER_MULTI_QUEUE_OFFSET" not in stored.properties
            for name, expected in numbers.items():
                assert [int(m.body) for m in store.read(name)] == expected
                assert store.queues()[name, 0] == (0, len(expected))
                assert {m.topic for m in store.get(name, 0, 3, tags="a").messages} == {"orders"}
        assert_clean(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    with flightlog.open(tmp_path, settings) as store:
        for name, expected in numbers.items():
            assert [int(m.body) for m in store.read(name)] == expected
    assert_clean(tmp_path)


def test_what_stands_in_no_light_queue(tmp_path: Path, assert_clean: AssertClean) -> None:
    settings = StoreSettings.small(multi_dispatch=True)
    with flightlog.open(tmp_path, settings) as store:
        store.put(light_message(0, "%LMQ%a", sys_flag=TRANSACTION_PREPARED))
        store.put(replace(light_message(1, "%LMQ%a"), topic="%RETRY%group"))
        assert {key[0] for key in store.queues()} == {"%RETRY%group"}
        stored = store.message_at(store.put(light_message(2, "%LMQ%a", wait_store_ok=False)).physical_offset)
        assert stored is not None
        assert stored.properties == {
            "INNER_MULTI_DISPATCH": "%LMQ%a",
            "TAGS": "a",
            "INNER_MULTI_QUEUE_OFFSET": "0",
        }
        again = store.put(replace(light_message(3, None), properties=stored.properties))  # as one that copies stores
        copied = store.message_at(again.physical_offset)
        assert copied is not None and copied.properties["INNER_MULTI_QUEUE_OFFSET"] == "1"
    with flightlog.open(tmp_path) as store:  # without the setting it is a property like others
        store.put(light_message(4, "%LMQ%a"))
        assert store.queues()["%LMQ%a", 0] == (0, 2)
        with pytest.raises(InvalidMessageError, match="INNER_MULTI_QUEUE_OFFSET is written by the store"):
            store.put(replace(light_message(5, None), properties=stored.properties))
    assert_clean(tmp_path)


@pytest.mark.parametrize(
    "names", ["plain", "%LMQ%a,plain", "%LMQ%a,%LMQ%a", "%LMQ%a,", "%LMQ%a/b", "%LMQ%" + "x" * 251]
)
def test_names_of_no_light_queues_are_refused(tmp_path: Path, names: str, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(multi_dispatch=True)) as store:
        with pytest.raises(InvalidMessageError, match="INNER_MULTI_DISPATCH"):
            store.put(light_message(0, names))
        assert store.queues() == {}
        store.put(light_message(0, "%LMQ%" + "x" * 250))
    assert_clean(tmp_path)


def test_properties_have_room_for_the_offsets(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(multi_dispatch=True)) as store:
        fits = 32_767 - len("INNER_MULTI_DISPATCH.%LMQ%a.INNER_MULTI_QUEUE_OFFSET..long..") - 19
        message = Message("orders", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a", "long": "x" * fits})
        store.put(message)
        longer = {"INNER_MULTI_DISPATCH": "%LMQ%a", "long": "x" * (fits + 1)}
        with pytest.raises(PropertiesTooLargeError):
            store.put(replace(message, properties=longer))
    assert_clean(tmp_path)
