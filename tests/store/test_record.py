"""Whole records against the vectors of the format: written, found by a reader, and taken apart again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store import native
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptRecordError
from flightlog.store.format.record import encode_blank, prepare
from flightlog.store.log.log_reader import LogReader
from flightlog.store.message import Message
from flightlog.store.segments.log_files import list_log_files
from flightlog.store.settings import DEFAULT_SEGMENT_SIZE, StoreSettings
from flightlog.store.stored_message import StoredMessage

B, S = 1_700_000_000_000, 1_700_000_000_123
SEGMENT_SIZE = 8192

V1 = bytes.fromhex(
    "000000ae daa320a7 69c865ed 00000003 00000000 0000000000000007 0000000000000400 00000000"
    "0000018bcfe56800 0a0000010000d431 0000018bcfe5687b c0a8010200002a9f 00000000 0000000000000000"
    "0000000e 48656c6c6f20526f636b65744d51 09 546f70696354657374 003c"
    "4b455953016b3102 554e49515f4b455901304130303030303130303031313842344141433230303030303030413030303002"
    "5441475301 5461674102"
)
V1_4_9 = bytes.fromhex("000000ad") + V1[4:-62] + bytes.fromhex("003b") + V1[-60:-1]
"""As RocketMQ 4.9.1 to 5.1.4 wrote it: without the last 02 of the properties."""
V1_CRC = bytes.fromhex("000000c2") + V1[4:-62] + bytes.fromhex("0050") + V1[-60:] + b"__CRC32#\x015672550320\x02"
"""With the CRC property that RocketMQ appends on request."""
V2 = bytes.fromhex(
    "00000102 daa320ab 706b9d0f 00000000 00000000 0000000000000000 0000000000001000 00000030"
    "0000018bcfe56800 20010db8000000000000000000000001 0000d431 0000018bcfe5687b"
    "00000000000000000000000000000001 00002a9f 00000001 0000000000000000"
    f"00000002 7632 0082 25524554525925 {'67' * 123} 000a 54414753015461674202"
)
UNIQ_KEY = "0A000001000118B4AAC20000000A0000"

V1_MESSAGE = Message(
    "TopicTest",
    b"Hello RocketMQ",
    queue_id=3,
    born_timestamp_ms=B,
    born_host=("10.0.0.1", 54321),
    properties={"KEYS": "k1", "UNIQ_KEY": UNIQ_KEY, "TAGS": "TagA"},
)
V2_MESSAGE = Message(
    "%RETRY%" + "g" * 123,
    b"v2",
    tags="TagB",
    born_timestamp_ms=B,
    born_host=("2001:db8::1", 54321),
    reconsume_times=1,
)

pytestmark = pytest.mark.usefixtures("kernel")


def encoded(message: Message, store_host: tuple[str, int], queue_offset: int, physical_offset: int) -> bytes:
    record = prepare(message, StoreSettings(store_host=store_host), DEFAULT_SEGMENT_SIZE)
    buffer = bytearray(record.size)
    size = native.encode_record(
        *(buffer, 0, record.magic, record.queue_id, record.flag, queue_offset, physical_offset, record.sys_flag),
        *(record.born_timestamp_ms or 0, record.born_host, S, record.store_host, record.reconsume_times),
        *(record.prepared_transaction_offset, record.body, record.topic_raw, record.properties_raw),
    )
    assert size == record.size
    return bytes(buffer)


def read_back(raw: bytes, physical_offset: int, tmp_path: Path) -> StoredMessage:
    """Put the bytes where they say they stand, and read them as any reader does."""
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / f"{0:020d}").write_bytes(raw.rjust(physical_offset + len(raw), b"\0").ljust(SEGMENT_SIZE, b"\0"))
    disk = RealDisk()
    reader = LogReader(disk, list_log_files(disk, folder))
    try:
        assert reader.message(physical_offset, len(raw)) == reader.message_at(physical_offset)
        return reader.message_at(physical_offset)
    finally:
        reader.close()


def test_lengths_of_the_vectors() -> None:
    assert [len(raw) for raw in (V1, V1_4_9, V1_CRC, V2)] == [174, 173, 194, 258]
    assert native.masked_crc32(V1_CRC[:174]) == 230_552_765


def test_v1_is_written() -> None:
    assert encoded(V1_MESSAGE, ("192.168.1.2", 10911), 7, 1024) == V1


def test_v2_is_written() -> None:
    assert encoded(V2_MESSAGE, ("::1", 10911), 0, 4096) == V2


@pytest.mark.parametrize(
    ("raw", "more"), [(V1, {}), (V1_4_9, {}), (V1_CRC, {"__CRC32#": "5672550320"})], ids=["5.3", "4.9", "crc"]
)
def test_v1_is_read(raw: bytes, more: dict[str, str], tmp_path: Path) -> None:
    message = read_back(raw, 1024, tmp_path)
    assert (message.topic, message.queue_id, message.queue_offset) == ("TopicTest", 3, 7)
    assert (message.physical_offset, message.size, message.magic & 0xFFFFFFFF) == (1024, len(raw), 0xDAA320A7)
    assert (message.body, message.body_crc) == (b"Hello RocketMQ", 0x69C865ED)
    assert (message.flag, message.sys_flag, message.reconsume_times) == (0, 0, 0)
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (B, S)
    assert (message.born_host, message.store_host) == (("10.0.0.1", 54321), ("192.168.1.2", 10911))
    assert (message.prepared_transaction_offset, message.transaction_type) == (0, 0)
    assert message.properties == {"KEYS": "k1", "UNIQ_KEY": UNIQ_KEY, "TAGS": "TagA"} | more
    assert (message.tags, message.keys, message.uniq_key) == ("TagA", ["k1"], UNIQ_KEY)
    assert message.message_id == "C0A8010200002A9F0000000000000400"


def test_v2_is_read(tmp_path: Path) -> None:
    message = read_back(V2, 4096, tmp_path)
    assert (message.topic, message.queue_id, message.queue_offset) == ("%RETRY%" + "g" * 123, 0, 0)
    assert (message.size, message.magic & 0xFFFFFFFF, message.sys_flag) == (258, 0xDAA320AB, 0x30)
    assert (message.body, message.body_crc) == (b"v2", 0x706B9D0F)
    assert (message.born_host, message.store_host) == (("2001:db8::1", 54321), ("::1", 10911))
    assert (message.reconsume_times, message.properties) == (1, {"TAGS": "TagB"})
    assert (message.tags, message.keys, message.uniq_key) == ("TagB", [], None)
    assert message.message_id == "0000000000000000000000000000000100002A9F0000000000001000"


def test_what_is_handed_out_outlives_the_log(tmp_path: Path) -> None:
    message = read_back(V1, 1024, tmp_path)
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"")
    assert type(message.body) is bytes and message.body == b"Hello RocketMQ"
    assert message.properties["TAGS"] == "TagA"


@pytest.mark.parametrize(("remaining", "raw"), [(100, "00000064cbd43194"), (8, "00000008cbd43194")])
def test_blank(remaining: int, raw: str) -> None:
    assert encode_blank(remaining).hex() == raw


@pytest.mark.parametrize(
    ("position", "found"),
    [
        (4, "bytes that are no record"),  # in the magic
        (8, "a body that differs from its CRC"),
        (90, "a body that differs from its CRC"),
        (30, "a record that belongs elsewhere"),
        (102, "lengths do not add up"),  # the topic's length
    ],
)
def test_a_flipped_byte_is_named(position: int, found: str, tmp_path: Path) -> None:
    raw = bytearray(V1)
    raw[position] ^= 0x55
    with pytest.raises(CorruptRecordError, match=found) as raised:
        read_back(bytes(raw), 1024, tmp_path)
    assert raised.value.physical_offset == 1024
    assert raised.value.path == tmp_path / "commitlog" / f"{0:020d}"


@pytest.mark.parametrize("physical_offset", [-1, 0, 1, 1023, 1025, 8190, SEGMENT_SIZE, 1 << 40])
def test_a_place_without_a_record(physical_offset: int, tmp_path: Path) -> None:
    read_back(V1, 1024, tmp_path)
    disk = RealDisk()
    reader = LogReader(disk, list_log_files(disk, tmp_path / "commitlog"))
    with pytest.raises(CorruptRecordError):
        reader.message_at(physical_offset)
    for size in (0, 1, 7, 8, 174, 1 << 31):
        with pytest.raises(CorruptRecordError):
            reader.message(physical_offset, size)
    for size in (0, 1, 8, 173, 175, 1 << 31):
        with pytest.raises(CorruptRecordError):
            reader.message(1024, size)
    reader.close()


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02/\0"), min_size=1, max_size=20)
HOSTS = st.tuples(st.ip_addresses().map(str), st.integers(0, 65_535))


@given(
    topic=TEXT.filter(lambda t: t not in (".", "..")),
    body=st.binary(max_size=100),
    properties=st.dictionaries(TEXT, TEXT, max_size=4),
    numbers=st.tuples(*(st.integers(-(1 << 31), (1 << 31) - 1),) * 2),
    queue_id=st.integers(0, (1 << 31) - 1),
    born=st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), HOSTS),
    store_host=HOSTS,
    sys_flag=st.sampled_from([0, 1, 4, 8, 0xC, 0x702]),
)
def test_round_trip(
    topic: str,
    body: bytes,
    properties: dict[str, str],
    numbers: tuple[int, int],
    queue_id: int,
    born: tuple[int, tuple[str, int]],
    store_host: tuple[str, int],
    sys_flag: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    message = Message(
        *(topic, body, None, (), properties, queue_id, numbers[0], None, born[0], born[1], sys_flag, numbers[1], 77)
    )
    raw = encoded(message, store_host, 9, 1024)
    found = read_back(raw, 1024, tmp_path_factory.mktemp("record"))
    assert (found.topic, found.body, found.properties) == (topic, body, properties)
    assert (found.queue_id, found.flag, found.reconsume_times) == (queue_id, *numbers)
    assert (found.born_timestamp_ms, found.born_host, found.store_host) == (*born, store_host)
    assert found.sys_flag & ~0x30 == sys_flag
    assert (found.prepared_transaction_offset, found.queue_offset, found.store_timestamp_ms) == (77, 9, S)
