"""Limits on everything that a file can make us allocate: each store here says that something is huge, or is it, on
sparse files or compressed; it is refused by name or passed over, and costs neither memory nor disk."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import struct
import sys
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import CompressionType, FlightlogError, Message, StoreSettings
from flightlog.handover import check
from flightlog.produce.producer import Producer
from flightlog.store.disk.disk import MAX_FILE_SIZE
from flightlog.store.errors import (
    ConfigFileError,
    CorruptBodyError,
    CorruptLogError,
    CorruptRecordError,
    TooManyQueuesError,
)
from flightlog.store.format.compression import MAX_DECOMPRESSED_SIZE, compress
from flightlog.store.format.frame import MAGIC_V1
from flightlog.store.format.inner_batch import MAX_COUNT, encode_inner, unwrapped
from flightlog.store.settings import MAX_RECORD_SIZE
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.security.conftest import Make, PutRecord, UseEverything

    Frugal = Callable[[Callable[[], object]], None]

MIB = 1 << 20
TIB = 1 << 40
MAX_GROWTH = 400 * MIB
"""Bytes of memory that anything here may cost: what is refused claims at least twice as much."""
MAX_DISK = 64 * MIB
LIMIT_S = 240
"""For what takes a second, on a machine that may do a lot besides: nothing goes on for ever."""


@pytest.fixture
def frugal() -> Frugal:
    """Run something in a forked child, which fails if it raises, or if its memory grows beyond the limit."""

    def run(do: Callable[[], object]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                signal.alarm(LIMIT_S)
                _, hard = resource.getrlimit(resource.RLIMIT_AS)
                resource.setrlimit(resource.RLIMIT_AS, (in_use() + 8 * 1024 * MIB, hard))  # the machine lives on
                before = in_use("VmRSS")
                do()
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
                assert grown < MAX_GROWTH, f"it took {grown >> 20} MiB"
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == 0, f"the child ended with {code}; see its traceback"

    return run


def in_use(what: str = "VmSize") -> int:
    """Bytes of address space, or of memory (VmRSS), of this process."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)]
    return int(line.split()[1]) * 1024


def disk_use(root: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def sparse(path: Path, size: int, content: bytes = b"", at: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.truncate(size)
        file.seek(at)
        file.write(content)


ZEROS = f"{0:020d}"
HUGE_FILES: dict[str, tuple[str, int]] = {
    "segment": (f"commitlog/{ZEROS}", TIB),
    "next segment": (f"commitlog/{256 << 10:020d}", TIB),
    "queue file": (f"consumequeue/t/0/{ZEROS}", TIB),
    "other queue": (f"consumequeue/u/0/{ZEROS}", TIB - TIB % 20),
    "batch queue": (f"batchconsumequeue/b/0/{ZEROS}", TIB - TIB % 46),
    "batch queue in bounds": (f"batchconsumequeue/b/0/{ZEROS}", MAX_FILE_SIZE - MAX_FILE_SIZE % 46),
    "extension": (f"consumequeue_ext/t/0/{ZEROS}", TIB),
    "index": ("index/20380119031407000", TIB),
    "index as of RocketMQ": ("index/20010101000000000", 40 + 84 * (TIB // 84)),
    "checkpoint": ("checkpoint", TIB),
    "abort": ("abort", TIB),
    "progress": ("flightlog/progress", TIB),
    "seal": (f"flightlog/seals/{ZEROS}", TIB),
    "topics": ("config/topics.json", TIB),
    "deleted topics": ("flightlog/deleted-topics.json", TIB),
    "auto-created topics": ("flightlog/auto-topics.json", TIB),
    "geometry": ("flightlog/geometry.json", TIB),
}


@pytest.mark.parametrize("what", HUGE_FILES)
def test_files_of_a_tebibyte(what: str, make_store: Make, use_everything: UseEverything, frugal: Frugal) -> None:
    """Made of holes, as anybody can pack them into a small archive."""
    root = make_store()
    place, size = HUGE_FILES[what]
    header = struct.pack(">qqqqii", 1, 2, 0, 1000, 1, 2) if what.startswith("index") else b""
    sparse(root / place, size, header)
    before = disk_use(root)
    frugal(lambda: use_everything(root))
    assert disk_use(root) - before < MAX_DISK


@pytest.mark.parametrize("size", [(1 << 31) - 1, 1 << 30, -1, 7])
@pytest.mark.parametrize("foreign", [False, True])
def test_a_record_that_says_its_size(
    size: int, foreign: bool, make_store: Make, use_everything: UseEverything, frugal: Frugal
) -> None:
    """At the end of the log, in a segment that is too small for it."""
    root = make_store(foreign=foreign)
    segment = root / "commitlog" / ZEROS
    end = len(segment.read_bytes().rstrip(b"\0")) + 16
    sparse(segment, segment.stat().st_size, struct.pack(">ii", size, MAGIC_V1), end - end % 4096 + 4096)

    def use() -> None:
        with flightlog.open_read_only(root) as view:
            assert len(list(view.read("t"))) == 12
        use_everything(root)

    frugal(use)


def test_a_whole_record_of_nearly_2_gib(make_store: Make, put_record: PutRecord, frugal: Frugal) -> None:
    """In a sparse segment that has room for it: all its lengths add up, and its body is a hole of zeros. More than
    MAX_RECORD_SIZE is damage; nobody reads it to see whether the CRC is right."""
    root = make_store(foreign=True)
    segment = root / "commitlog" / ZEROS
    sparse(segment, MAX_FILE_SIZE - MAX_FILE_SIZE % 4096)
    with open(segment, "rb") as file:
        end, raw = 0, file.read(1 * MIB)
    while size := int.from_bytes(raw[end : end + 4], "big"):
        end += size
    body_size = 3 * (1 << 29)
    head = struct.pack(">iiiiiqqi", 91 + 1 + body_size, MAGIC_V1, 0, 0, 0, 12, end, 0) + bytes(44)
    assert len(head) == 84
    sparse(segment, segment.stat().st_size, head + struct.pack(">i", body_size), end)
    sparse(segment, segment.stat().st_size, b"\x01t\0\0", end + 88 + body_size)

    def use() -> None:
        with flightlog.open_read_only(root) as view:
            assert len(list(view.read("t", on_corrupt="skip"))) == 12
            assert view.verify().findings
            with pytest.raises(CorruptRecordError, match=f"expected one of {MAX_RECORD_SIZE} at most"):
                view.log_reader.message(end, 92 + body_size)
        flightlog.open(root).close()

    frugal(use)


def test_records_that_contain_one_another(make_store: Make) -> None:
    """Behind damage the next intact record is looked for. 4,000 places that all claim to be large records, with lengths
    that add up and a wrong CRC, would each be read to the end."""
    root = make_store(foreign=True)
    segment = root / "commitlog" / ZEROS
    raw = bytearray(segment.read_bytes())
    start, stop, count = 64 << 10, 250 << 10, 1500
    for place in range(start, start + 92 * count, 92):
        body_size = stop - 4 - place - 88
        head = struct.pack(">iiiiiqqi", stop - place, MAGIC_V1, 1, 0, 0, 0, place, 0) + bytes(44)
        raw[place : place + 88] = head + struct.pack(">i", body_size)
    raw[stop - 4 : stop] = b"\x01t\0\0"
    end = 0
    while size := int.from_bytes(raw[end : end + 4], "big"):
        end += size
    raw[end : end + 8] = b"\xff" * 8
    segment.write_bytes(raw)
    for how in (flightlog.open, flightlog.open_read_only):
        with pytest.raises((CorruptRecordError, CorruptLogError), match="contain one another"):
            how(root)


@pytest.mark.parametrize("claimed", [1, 2000, MAX_COUNT + 1, 99_999])
def test_inner_batches_of_too_many_messages(
    claimed: int, make_store: Make, put_record: PutRecord, use_everything: UseEverything, frugal: Frugal
) -> None:
    """A queue entry counts them in 16 bits. A body of a few mebibytes, or a few kilobytes compressed, can hold
    millions."""
    root = make_store(foreign=True)
    many = encode_inner(b"", 0, b"") * (8 * MAX_COUNT)
    body = compress(many, CompressionType.ZLIB)
    properties = b"INNER_NUM\x01%d\x02INNER_BASE\x010\x02" % claimed
    place = put_record(root, b"b", sys_flag=0xC0 | CompressionType.ZLIB.flags, body=body, properties=properties)

    def use() -> None:
        with flightlog.open_read_only(root) as view:
            record = view.message_at(place)
            assert record is not None
            with pytest.raises(CorruptBodyError, match=f"more than {MAX_COUNT} messages"):
                unwrapped(record)
            for key in view.queues():
                list(view.read(*key, on_corrupt="skip"))
        use_everything(root)

    frugal(use)


BOMBS: dict[str, Callable[[], tuple[int, bytes]]] = {
    "zlib": lambda: (CompressionType.ZLIB.flags, compress(bytes(512 * MIB), CompressionType.ZLIB)),
    "lz4": lambda: (CompressionType.LZ4.flags, compress(bytes(512 * MIB), CompressionType.LZ4)),
    "zstd": lambda: (CompressionType.ZSTD.flags, compress(bytes(512 * MIB), CompressionType.ZSTD)),
    "zstd's window": lambda: (CompressionType.ZSTD.flags, bytes.fromhex("28b52ffd 00 a8 010000")),
    "zstd's content size": lambda: (CompressionType.ZSTD.flags, bytes.fromhex("28b52ffd e0 ffffffffffffff7f 010000")),
    "zlib in zlib": lambda: (CompressionType.ZLIB.flags, zlib.compress(zlib.compress(bytes(512 * MIB)))),
}


@pytest.fixture(scope="module")
def bombs() -> dict[str, tuple[int, bytes]]:
    """Made once, before any memory is measured."""
    return {name: make() for name, make in BOMBS.items()}


@pytest.mark.parametrize("name", BOMBS)
def test_bodies_that_would_burst(
    name: str, bombs: dict[str, tuple[int, bytes]], tmp_path: Path, frugal: Frugal
) -> None:
    """Never more than MAX_DECOMPRESSED_SIZE is made of a body, unless the reader asks for more; as stored, it can be
    read."""
    flags, body = bombs[name]
    with flightlog.open(tmp_path, StoreSettings.small(segment_size=16 * MIB)) as store:
        store.put(Message("t", body, sys_flag=flags))

    def use() -> None:
        with flightlog.open_read_only(tmp_path) as view:
            (message,) = view.read("t")
            assert message.body == body
            if name == "zlib in zlib":  # one layer is taken off, as there is one in the format
                assert len(message.decompressed().body) < MIB
                return
            with pytest.raises(CorruptBodyError) as raised:
                message.decompressed()
            assert str(MAX_DECOMPRESSED_SIZE) in str(raised.value) or "window" in name or "content" in name
            with pytest.raises(FlightlogError):
                list(view.read("t", decompress=True))
            assert list(view.read("t", decompress=True, on_corrupt="skip")) == []

    frugal(use)


DEEP = 1_000_000
HOSTILE_JSON: dict[str, Callable[[], bytes]] = {
    "deep arrays": lambda: b'{"topicConfigTable":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": lambda: b'{"topicConfigTable":' + b'{"a":' * DEEP + b"1" + b"}" * (DEEP + 1),
    "open end": lambda: b'{"topicConfigTable":' + b"[" * DEEP,
    "quotes": lambda: b'{"topicConfigTable":"' + b'\\"' * DEEP,
    "digits": lambda: b'{"topicConfigTable":{"t":{"perm":' + b"9" * DEEP + b"}}}",
    "keys": lambda: b'{"topicConfigTable":{' + b"0:" * DEEP + b"0}}",
    "exponent": lambda: b'{"topicConfigTable":{"t":{"perm":1e999999999}}}',
    "queues": lambda: b'{"topicConfigTable":{"t":{"readQueueNums":99999999999}}}',
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
@pytest.mark.parametrize("file", ["config/topics.json", "flightlog/deleted-topics.json"])
def test_hostile_json(file: str, name: str, make_store: Make, frugal: Frugal) -> None:
    root = make_store()
    (root / file).parent.mkdir(exist_ok=True)
    content = HOSTILE_JSON[name]().replace(
        b"topicConfigTable", b"deletedBelow" if "deleted" in file else b"topicConfigTable"
    )
    (root / file).write_bytes(content)
    for backup in root.rglob("*.bak"):
        backup.unlink()

    def use() -> None:
        with pytest.raises(ConfigFileError, match=file):
            flightlog.open(root)
        with flightlog.open_read_only(root) as view:
            assert len(list(view.read("t"))) == 12

    frugal(use)


def test_topics_with_very_many_queues(make_store: Make, use_everything: UseEverything, frugal: Frugal) -> None:
    """A topic may say that it has two thousand million queues; they are made when they get a message."""
    root = make_store()
    table = {"t": {"readQueueNums": (1 << 31) - 1, "writeQueueNums": (1 << 31) - 1}}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    frugal(lambda: use_everything(root))


FAR = 1 << 61


@pytest.mark.parametrize("count", [(1 << 31) - 1, 4_000_000])
def test_nobody_goes_through_very_many_queues(count: int, make_store: Make, frugal: Frugal) -> None:
    """`subscribe` and `Producer.send` refuse the topic by name; other topics work, and so does the topic once it has
    fewer queues."""
    root = make_store()
    table = {"huge": {"readQueueNums": count, "writeQueueNums": count}, "t": {"readQueueNums": 4, "writeQueueNums": 4}}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))

    def use() -> None:
        with flightlog.open(root) as store:
            producer = Producer(store)
            with pytest.raises(TooManyQueuesError, match=f"'huge' has read_queue_count={count}.*update_topic"):
                store.subscribe("huge", "g")
            with pytest.raises(TooManyQueuesError, match=f"'huge' has write_queue_count={count}.*update_topic"):
                producer.send(Message("huge", b"x"))
            with store.subscribe("t", "g") as member:
                assert member.receive() is not None
                producer.send(Message("t", b"x"))
            with store.subscribe("huge2", "g") as member:
                store.create_topic("huge2", count)
                inside.rebalance(store, "g")
                assert member.queues == [], "a topic that comes to have too many later is left out, and this is logged"
            store.update_topic("huge", 2)
            producer = Producer(store)
            producer.send(Message("huge", b"x"))
            with store.subscribe("huge", "g") as member:
                assert len(member.queues) == 2
                assert member.receive() is not None

    frugal(use)


@pytest.mark.parametrize("count", [(1 << 31) - 1, 4_000_000])
def test_nobody_receives_or_redrives_through_very_many_queues(count: int, make_store: Make, frugal: Frugal) -> None:
    """A group is refused such a topic by name; letters, retries and check points are looked for where there are any."""
    root, receives = make_store(), {"readQueueNums": count, "writeQueueNums": count}
    names = "huge", "%RETRY%g", "%RETRY%g_t", "%RETRY%left_t", "%DLQ%g", "rmq_sys_REVIVE_LOG_DefaultCluster"
    table = dict.fromkeys(names, receives) | {"t": {"readQueueNums": 4, "writeQueueNums": 4}}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))

    def use() -> None:
        with flightlog.open(root) as store:
            for group, topic, name in (("g", "huge", "huge"), ("g", "t", "%RETRY%g_t")):
                for wait_s in (0, 5):
                    with pytest.raises(TooManyQueuesError, match=f"'{name}' has read_queue_count={count}"):
                        store.receive(group, topic, wait_s=wait_s)
            assert store.receive("h", "t")
            with store.subscribe("t", "left") as member:
                assert member.receive() is not None
            assert list(store.dead_letters("g")) == []
            assert len(store.redrive("g", dry_run=True)) == 0
        check(root)

    frugal(use)


@pytest.mark.parametrize("entry", [None, (0, 91, 0), (1 << 62, 91, 0), (FAR - 4096, 91, 0)])
@pytest.mark.parametrize("queue_offset", [1 << 20, 1 << 40, 1 << 58])
def test_a_queue_that_would_have_to_be_filled_up(
    queue_offset: int,
    entry: tuple[int, int, int] | None,
    make_store: Make,
    make_record: Callable[..., bytes],
    use_everything: UseEverything,
    frugal: Frugal,
) -> None:
    """A log that begins at an absurd offset had room for any number of messages before it, which a queue would hold as
    filler, an entry each: twenty bytes for every one that a record only claims."""
    root = make_store(foreign=True)
    shutil.rmtree(root / "consumequeue")
    (segment,) = (root / "commitlog").iterdir()
    size = segment.stat().st_size
    base = FAR - FAR % size
    first = make_record(base, b"q", queue_offset=queue_offset)
    both = first + make_record(base + len(first), b"q", queue_offset=queue_offset + 1)
    segment.unlink()
    sparse(root / "commitlog" / f"{base:020d}", size, both)
    if entry is not None:
        sparse(root / "consumequeue" / "q" / "0" / ZEROS, 200, struct.pack(">qiq", *entry))
    before = disk_use(root)
    frugal(lambda: use_everything(root))
    assert disk_use(root) - before < MAX_DISK


def test_addresses_far_apart_in_an_extension(make_store: Make, use_everything: UseEverything, frugal: Frugal) -> None:
    """A queue whose entries name places at both ends of an extension of 2 GiB."""
    root = make_store()
    size = MAX_FILE_SIZE - MAX_FILE_SIZE % 4096
    sparse(root / "consumequeue_ext" / "t" / "0" / ZEROS, size)
    queue = root / "consumequeue" / "t" / "0" / ZEROS
    raw = bytearray(queue.read_bytes())
    for index in range(10):
        struct.pack_into(">q", raw, 20 * index + 12, -(1 << 63) + index % 2 * (size - 100))
    queue.write_bytes(raw)
    frugal(lambda: use_everything(root))


@pytest.mark.parametrize("count", [19, 20, 4301, 30_000])
def test_numbers_of_very_many_digits(
    count: int, make_store: Make, put_record: PutRecord, use_everything: UseEverything
) -> None:
    """Python turns no text of more than 4,300 digits into a number; a property can hold 32,000."""
    root = make_store(foreign=True)
    digits = b"9" * count
    put_record(root, b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x01%s\x02" % digits)
    light = b"INNER_MULTI_DISPATCH\x01%%LMQ%%a\x02INNER_MULTI_QUEUE_OFFSET\x01%s\x02" % digits
    put_record(root, b"t", queue_offset=12, properties=light)
    put_record(root, b"b", sys_flag=0xC0, properties=b"INNER_NUM\x01%s\x02INNER_BASE\x01%s\x02" % (digits, digits[:9]))
    put_record(
        root, b"t", queue_offset=13, properties=b"TIMER_OUT_MS\x01%s\x02REAL_QID\x01%s\x02" % (digits[:9], digits)
    )
    with flightlog.open_read_only(root) as view:
        assert len(list(view.read("t"))) == 14
    assert use_everything(root) == []
