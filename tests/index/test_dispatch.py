"""From records to queue entries: by RocketMQ's rules, checked against the queues that RocketMQ wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.index.dispatch.batch_dispatch import MAX_BASE, batch_entries
from flightlog.index.dispatch.dispatch import dispatch, queue_entries
from flightlog.index.dispatch.dispatch_rules import DispatchCount, DispatchRules
from flightlog.index.queue.queue_table import QueueTable, find_file_entries, list_queue_folders
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from flightlog.store import native
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import SegmentLengthError
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from flightlog.store.format.properties import decode_properties
from flightlog.store.log.log_reader import LogReader
from flightlog.store.message import tags_code
from flightlog.store.segments.log_files import list_log_files

RULES = DispatchRules(SCHEDULE_TOPIC, DelayLevelTable.parse().delivery_time_ms)
HOST = bytes.fromhex("0a000001 0000d431")
STORED_MS = 1_700_000_000_123

Record = tuple[bytes, int, int, int, bytes]
"""Topic, queue id, queue offset, sysFlag, properties."""


def log_of(*records: Record) -> tuple[bytes, np.ndarray]:
    """The records one after the other, and what a walk says of them."""
    raw = bytearray()
    for topic, queue_id, queue_offset, sys_flag, properties in records:
        magic = MAGIC_V1 if len(topic) <= 127 else MAGIC_V2
        buffer = bytearray(92 + len(topic) + len(properties))
        size = native.encode_record(
            *(buffer, 0, magic, queue_id, 0, queue_offset, len(raw), sys_flag, 0, HOST, STORED_MS, HOST, 0, 0),
            *(b"", topic, properties),
        )
        raw += buffer[:size]
    rows = np.empty(len(records), FRAME_DTYPE)
    count, _, _ = native.walk(raw, 0, len(raw), 0, False, rows)
    assert count == len(records)
    return bytes(raw), rows


def in_memory(root: Path, *records: Record) -> tuple[QueueTable, DispatchCount]:
    table, count = QueueTable(RealDisk(), root, 10, in_memory=True), DispatchCount()
    dispatch(*log_of(*records), RULES, table, count)
    return table, count


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", ["rollover", "delay-tx", "v2-v6", "propcrc", "v1-clean", "abort-late"])
def test_queues_made_anew_are_rocketmqs_byte_for_byte(name: str, golden: Callable[[str], Path], tmp_path: Path) -> None:
    theirs = golden(name) / "store"
    disk = RealDisk()
    entries = find_file_entries(disk, theirs)
    assert entries is not None
    table = QueueTable(disk, tmp_path, entries, in_memory=False)
    reader = LogReader(disk, list_log_files(disk, theirs / "commitlog"))
    count = DispatchCount()
    for segment in reader.segments:
        for piece, rows in reader.scan(segment, 0, segment.size, check_crc=False):
            dispatch(piece, rows, RULES, table, count)
    reader.close()
    assert count.gaps == {} and count.entries == sum(count.ends.values()) > 300
    expected = {p.relative_to(theirs): p for p in (theirs / "consumequeue").rglob("*") if p.is_file()}
    made = {p.relative_to(tmp_path): p for p in (tmp_path / "consumequeue").rglob("*") if p.is_file()}
    assert made.keys() == {place for place, path in expected.items() if path.read_bytes().strip(b"\0")}
    for place, path in made.items():
        assert path.read_bytes() == expected[place].read_bytes(), place


def test_each_queue_gets_its_own(tmp_path: Path) -> None:
    table, count = in_memory(
        tmp_path,
        *((b"a", 0, 0, 0, b""), (b"b", 0, 0, 0, b""), (b"a", 1, 0, 0, b""), (b"a", 0, 1, 0, b"")),
    )
    assert [(key, queue.end) for key, queue in table.items()] == [(("a", 0), 2), (("a", 1), 1), (("b", 0), 1)]
    assert count.entries == 4 and count.gaps == {}
    assert count.ends == {("a", 0): 2, ("a", 1): 1, ("b", 0): 1}


def test_what_gets_no_entry(tmp_path: Path) -> None:
    table, count = in_memory(
        tmp_path,
        (b"t", 0, 0, 0, b""),
        (b"t", 0, 0, 4, b""),  # prepared
        (b"t", 0, 0, 0xC, b""),  # rollback
        (b"t", 0, 0, 0x80, b""),  # an inner batch
        (b"../up", 0, 0, 0, b""),
        (b"a/b", 0, 0, 0, b""),
        (b"..", 0, 0, 0, b""),
        (b"", 0, 0, 0, b""),
        (b"x" * 256, 0, 0, 0, b""),  # longer than a folder's name may be
        (b"t", -1, 0, 0, b""),
        (b"t", 0, -1, 0, b""),
        (b"t", 0, 1, 8, b""),  # commit
    )
    assert [(key, queue.end) for key, queue in table.items()] == [(("t", 0), 2)]
    assert count.entries == 2


def test_which_inner_batches_get_an_entry() -> None:
    two = b"INNER_NUM\x012\x02"
    records: list[tuple[Record, bool]] = [
        ((b"b", 0, 0, 0x80, two), True),
        ((b"b", 0, 2, 0, two), False),  # no batch
        ((b"b", 0, 2, 0x84, two), False),  # prepared
        ((b"b", 0, 2, 0x8C, two), False),  # rollback
        ((b"../up", 0, 2, 0x80, two), False),
        ((b"b", -1, 2, 0x80, two), False),
        ((b"b", 0, -1, 0x80, two), False),
        ((b"b", 0, MAX_BASE, 0x80, two), False),
        ((b"b", 0, MAX_BASE + 1, 0x80, two), False),
        ((b"b", 0, 2, 0x80, b""), False),
        ((b"b", 0, 2, 0x80, b"INNER_NUM\x010\x02"), False),
        ((b"b", 1, 0, 0x80, two), True),
        ((b"b", 0, MAX_BASE - 1, 0x88, two), True),  # commit
        ((b"c", 0, 1, 0x80, two), True),
    ]
    raw, rows = log_of(*(record for record, _ in records))
    found = batch_entries(raw, rows, RULES)
    entries = {key: units["base"].tolist() for key, units in found.items()}
    assert entries == {("b", 0): [0, MAX_BASE - 1], ("b", 1): [0], ("c", 0): [1]}
    places = [place for units in found.values() for place in units["physical_offset"].tolist()]
    assert sorted(places) == [
        place for place, (_, is_there) in zip(rows["physical_offset"].tolist(), records, strict=True) if is_there
    ]


def test_an_entry_that_is_there_is_left_alone(tmp_path: Path) -> None:
    records: list[Record] = [(b"t", 0, i, 0, b"TAGS\x01A\x02") for i in range(25)]
    disk = RealDisk()
    table = QueueTable(disk, tmp_path, 10, in_memory=False)
    raw, rows = log_of(*records)
    for expected in (25, 0):
        count = DispatchCount()
        dispatch(raw, rows, RULES, table, count)
        assert count.entries == expected
    path = tmp_path / "consumequeue" / "t" / "0" / f"{200:020d}"
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes(20) + content[60:])
    count = DispatchCount()
    dispatch(raw, rows, RULES, table, count)
    assert count.entries == 13, "from the first wrong one on"
    assert path.read_bytes() == content


def test_a_queue_that_lags_is_noticed(tmp_path: Path) -> None:
    others: list[Record] = [(b"other", 0, i, 0, b"") for i in range(2)]  # in whose place the missing ones may have been
    table, count = in_memory(tmp_path, (b"t", 0, 0, 0, b""), *others, (b"t", 0, 3, 0, b""), (b"u", 0, 7, 0, b""))
    assert count.gaps == {("t", 0): 1, ("u", 0): 0} and count.impossible == []
    queue = table.get(("t", 0))
    assert queue is not None and queue.end == 4


def test_the_messages_that_can_be_missing_lie_behind_the_last_one_of_the_queue(tmp_path: Path) -> None:
    others: list[Record] = [(b"other", 0, i, 0, b"") for i in range(9)]
    jumps: list[Record] = [(b"t", 0, 0, 0, b""), (b"t", 0, 4, 0, b""), (b"t", 0, 5, 0, b"")]
    table, count = in_memory(tmp_path, *others, *jumps)
    first = 9 * 96
    assert count.impossible == [(first + 92, 4)], "the log has room for one, and the first of the run is named"
    queue = table.get(("t", 0))
    assert queue is not None and queue.end == 1


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("queue_offset", [1 << 20, 1 << 40, (1 << 63) - 1])
def test_a_queue_offset_that_cannot_be_is_left_out(queue_offset: int, in_memory: bool, tmp_path: Path) -> None:
    """No CRC covers that field. More messages than fit into the log between two records cannot be missing."""
    table, count = QueueTable(RealDisk(), tmp_path, 10, in_memory=in_memory), DispatchCount()
    records: list[Record] = [(b"t", 0, i, 0, b"") for i in range(5)]
    records[2] = (b"t", 0, queue_offset, 0, b"")
    raw, rows = log_of(*records)
    dispatch(raw, rows, RULES, table, count)
    queue = table.get(("t", 0))
    assert queue is not None and queue.end == 5
    assert queue.units(0, 5)["physical_offset"].tolist() == [0, 92, 0, 276, 368]
    assert count.impossible == [(184, queue_offset)]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 200


@pytest.mark.parametrize(
    ("topic", "properties", "expected"),
    [
        (b"t", b"", 0),
        (b"t", b"TAGS\x01TagA\x02", tags_code("TagA")),
        (b"t", b"a\x01b\x02TAGS\x01TagA", tags_code("TagA")),
        (b"t", b"TAGS\x01A||B\x02", tags_code("A||B")),  # the whole string, also for several tags
        (b"t", b"TAGS\x01\x02", 0),
        (b"t", b"XTAGS\x01TagA\x02", 0),
        (b"t", b"TAGS\x01A\x02TAGS\x01B\x02", tags_code("B")),
        (b"t", "TAGS\x01标签\x02".encode(), tags_code("标签")),
        (b"t", b"TAGS\x01A\x02DELAY\x013\x02", tags_code("A")),  # a delivered message keeps its DELAY
        (SCHEDULE_TOPIC.encode(), b"TAGS\x01A\x02DELAY\x013\x02", STORED_MS + 10_000),
        (SCHEDULE_TOPIC.encode(), b"TAGS\x01A\x02DELAY\x0199\x02", STORED_MS + 7_200_000),
        (SCHEDULE_TOPIC.encode(), b"TAGS\x01A\x02DELAY\x010\x02", tags_code("A")),
        (SCHEDULE_TOPIC.encode(), b"TAGS\x01A\x02DELAY\x01-3\x02", tags_code("A")),
        (SCHEDULE_TOPIC.encode(), b"TAGS\x01A\x02DELAY\x01x\x02", tags_code("A")),
        (SCHEDULE_TOPIC.encode(), b"TAGS\x01A\x02", tags_code("A")),
        (SCHEDULE_TOPIC.encode(), b"", 0),
        (SCHEDULE_TOPIC.encode() + b"X", b"DELAY\x013\x02", 0),
    ],
)
def test_the_third_field(topic: bytes, properties: bytes, expected: int) -> None:
    (entries,) = queue_entries(*log_of((topic, 2, 0, 0, properties)), RULES).values()
    ((physical_offset, size, code),) = entries.units
    assert (physical_offset, size, code) == (0, 91 + len(topic) + len(properties), expected)


def test_folders_that_are_queues(tmp_path: Path) -> None:
    for name in ("t/0", "t/12", "t/x", "t/-1", "t/٣", "u/3", "u/1.bak"):
        (tmp_path / "consumequeue" / name).mkdir(parents=True)
    (tmp_path / "consumequeue" / "file").write_bytes(b"")
    (tmp_path / "consumequeue" / "u" / "7").write_bytes(b"")
    keys = [key for key, _ in list_queue_folders(RealDisk(), tmp_path)]
    assert keys == [("t", 0), ("t", 12), ("u", 3)]
    assert find_file_entries(RealDisk(), tmp_path) is None


def test_the_size_of_files_is_what_most_have(tmp_path: Path) -> None:
    """One that was cut short must not make all the others look wrong."""
    disk = RealDisk()
    for topic in "abc":
        table = QueueTable(disk, tmp_path, 10, in_memory=False)
        dispatch(*log_of((topic.encode(), 0, 0, 0, b"")), RULES, table, DispatchCount())
    cut = tmp_path / "consumequeue" / "a" / "0" / f"{0:020d}"
    cut.write_bytes(cut.read_bytes()[:60])
    assert find_file_entries(disk, tmp_path) == 10
    with pytest.raises(SegmentLengthError) as raised:
        QueueTable(disk, tmp_path, 10, in_memory=False).load(thorough=True)
    assert (raised.value.path, raised.value.found, raised.value.expected) == (cut, 60, 200)
    tolerant = QueueTable(disk, tmp_path, 10, in_memory=True)
    tolerant.load(thorough=True)
    assert [key for key, _ in tolerant.items()] == [("b", 0), ("c", 0)]
    assert str(cut) in tolerant.unreadable[0]


PIECES = st.sampled_from(
    [*"\x01\x02", "DELAY", "DELAY\x01", "\x02DELAY\x01", "3", "0", "12345678901", "²", "XDELAY", " "]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_the_level_is_what_the_parser_of_properties_finds(text: str) -> None:
    level = decode_properties(text.encode()).get("DELAY", "")
    is_level = level.isascii() and level.isdigit() and len(level) <= 10 and int(level) > 0
    rules = DispatchRules(SCHEDULE_TOPIC, lambda level, store_timestamp_ms: level + store_timestamp_ms)
    assert rules.tags_code(SCHEDULE_TOPIC, text.encode(), 7) == (int(level) + 7 if is_level else 0)
