"""The property `__CRC32#`: what RocketMQ wrote fits it, what we write is checked, and each changed byte is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import CorruptLogError, CorruptRecordError, PropertiesTooLargeError
from flightlog.store.format.crc_property import (
    CRC_PROPERTY,
    CRC_PROPERTY_SIZE,
    EMPTY,
    has_right_crc,
    put_crc_property,
    stored_crc,
)
from flightlog.store.format.record import PROPERTIES_MAX_SIZE

if TYPE_CHECKING:
    from flightlog import Store

pytestmark = pytest.mark.usefixtures("kernel")

CHECKED = StoreSettings(
    segment_size=64 << 10,
    queue_file_entries=50,
    append_crc_property=True,
    check_crc_property=True,
    key_index=False,
    rocketmq_strict=False,
)


def test_digits_least_significant_first() -> None:
    assert len(EMPTY) == CRC_PROPERTY_SIZE == 20
    record = bytearray(b"123456789" + EMPTY)
    put_crc_property(record)
    crc = 0xCBF43926 & 0x7FFFFFFF  # CRC-32's check value
    assert record == b"123456789__CRC32#\x01" + f"{crc:010d}"[::-1].encode() + b"\x02"
    assert stored_crc(bytes(record[-20:])) == crc
    assert has_right_crc(bytes(record), 20) and not has_right_crc(bytes(record), 19)


@pytest.mark.parametrize("tail", [EMPTY[:-1] + b"\x03", b"x" + EMPTY[1:], EMPTY.replace(b"0", b"a"), EMPTY[1:]])
def test_what_is_no_crc_property(tail: bytes) -> None:
    assert stored_crc(tail) is None
    assert stored_crc(EMPTY) == 0


def put_some(store: Store, count: int) -> None:
    for i in range(count):
        key = f"k{i}"
        store.put(Message("t", b"%d" % i * (i % 7), "tag", key, {"p": "v", CRC_PROPERTY: "old"} if i % 2 else None))


def test_ours_reads_back_and_every_changed_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, CHECKED) as store:
        put_some(store, 20)
        assert [m.body for m in store.read("t")] == [b"%d" % i * (i % 7) for i in range(20)]
        assert store.verify().is_clean
        message = store.get("t", 0, 13).messages[0]
    assert message.properties["p"] == "v" and message.properties_raw.endswith(b"\x02")
    segment = path / "commitlog" / f"{0:020d}"
    sound = segment.read_bytes()
    start, stop = message.physical_offset, message.physical_offset + message.size
    # Where the walk itself looks, it may say more; everywhere else the property alone can tell.
    only_the_property_tells = [start + 16, start + 39, start + 47, start + 63, stop - 30, stop - 10]
    for place in only_the_property_tells:
        raw = bytearray(sound)
        raw[place] ^= 1
        segment.write_bytes(raw)
        with flightlog.open_read_only(path, CHECKED) as view:
            with pytest.raises(CorruptRecordError, match="differs from its CRC property"):
                view.message_at(start)
            assert len(list(view.read("t", on_corrupt="skip"))) == 19
            assert start in [f.offset for f in view.verify().findings]
        with flightlog.open_read_only(path) as view:
            assert len(list(view.read("t"))) == 20
    segment.write_bytes(sound)
    with flightlog.open_read_only(path, CHECKED) as view:
        assert view.verify().is_clean


def test_recovery_asks_for_it(tmp_path: Path, copy_store: Callable[[Path, Path], Path]) -> None:
    """A store as if killed: a byte of a header that no other CRC covers is changed in the last record, then in the
    middle."""
    with flightlog.open(tmp_path / "live", CHECKED) as store:
        put_some(store, 20)
        offsets = [m.physical_offset for m in store.read("t")]
        for number, middle in ((19, False), (10, True)):
            path = copy_store(tmp_path / "live", tmp_path / f"copy-{number}")
            segment = path / "commitlog" / f"{0:020d}"
            raw = bytearray(segment.read_bytes())
            raw[offsets[number] + 16] ^= 1
            segment.write_bytes(raw)
            (path / "flightlog" / "progress").unlink()  # as RocketMQ would have left it
            if middle:
                with pytest.raises(CorruptLogError, match="CRC property"):
                    flightlog.open(path, CHECKED)
                continue
            with flightlog.open(path, CHECKED) as recovered:
                assert recovered.recovery_report.cut
                assert len(list(recovered.read("t"))) == 19
                assert recovered.verify().is_clean


def test_a_record_without_it_is_damage_only_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "store"
    plain = replace(CHECKED, append_crc_property=False, check_crc_property=False)
    with flightlog.open(path, plain) as store:
        put_some(store, 3)
    with pytest.raises(CorruptLogError, match="or has none"):
        flightlog.open(path, CHECKED)  # nothing was changed
    with flightlog.open(path, replace(plain, append_crc_property=True)) as store:
        put_some(store, 1)
        assert len(list(store.read("t"))) == 4
        assert store.verify().is_clean
    with flightlog.open_read_only(path, CHECKED) as view:
        with pytest.raises(CorruptRecordError, match="or has none"):
            next(view.read("t"))
        assert [m.queue_offset for m in view.read("t", on_corrupt="skip")] == [3]
        assert [f.offset for f in view.verify().findings] == [0]  # damage that goes on to the next intact record


def test_its_bytes_count_as_properties(tmp_path: Path) -> None:
    room = PROPERTIES_MAX_SIZE - CRC_PROPERTY_SIZE - len("p\x01\x02")
    with flightlog.open(tmp_path / "store", CHECKED) as store:
        store.put(Message("t", b"", properties={"p": "v" * room}))
        with pytest.raises(PropertiesTooLargeError):
            store.put(Message("t", b"", properties={"p": "v" * (room + 1)}))
        assert len(next(store.read("t")).properties_raw) == PROPERTIES_MAX_SIZE
        assert store.verify().is_clean


def test_every_record_of_rocketmq_fits(golden: Callable[[str], Path]) -> None:
    settings = StoreSettings(check_crc_property=True)
    with flightlog.open_read_only(golden("propcrc") / "store", settings) as view:
        assert sum(1 for key in view.queues() for _ in view.read(*key)) == 782
        assert view.verify().is_clean
    with flightlog.open_read_only(golden("v1-clean") / "store", settings) as view:
        assert len(view.verify().findings) > 0
