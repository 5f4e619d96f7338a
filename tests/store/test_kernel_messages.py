"""The kernel's messages: of leading entries, and a record's fields; with bytes and numbers that mean harm, too."""

from __future__ import annotations

import dataclasses
import mmap
import os
import random
import struct
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from flightlog.store.format.host import decode_host
from flightlog.store.native import pure
from flightlog.store.stored_message import StoredMessage
from flightlog.tests.support.sound_records import stored_message

SEED = int(os.environ.get("FLIGHTLOG_MESSAGES_SEED", "20260101"))
UNIT = struct.Struct(">qiq")
HOSTS = (bytes(range(20)), bytes(range(1, 21)))
BASE, QUEUE_ID, FIRST, TOPIC = 1 << 33, 7, 1000, b"topic"
LIMIT = 1 << 20
both = pytest.mark.usefixtures("kernel")


class Log:
    """Records of one queue, one behind the other, and their entries."""

    def __init__(self, source: random.Random, count: int, **changes: Any) -> None:
        out, self.units = bytearray(), bytearray()
        for place in range(count):
            flags, buffer = source.choice([0, 0x10, 0x20, 0x30]), bytearray(3000)
            born = source.choice(HOSTS)[: 20 if flags & 0x10 else 8]
            store = source.choice(HOSTS)[: 20 if flags & 0x20 else 8]
            size = pure.encode_record(
                *(buffer, 0, source.choice([MAGIC_V1, MAGIC_V2]), QUEUE_ID, -5, FIRST + place, BASE + len(out)),
                *(flags | changes.get("flags", 0), 5, born, 6),
                *(store, 7, -8, source.randbytes(source.choice([0, 1, 90, 2000]))),
                *(TOPIC, source.choice(changes.get("properties", [b"", b"TAGS\x01a\x02", b"\xff\x01b\x02"]))),
            )
            self.units += UNIT.pack(BASE + len(out), size, place)
            out += buffer[:size]
        self.data = bytes(out)
        self.queue_offsets = np.arange(FIRST, FIRST + count, dtype=np.int64)

    def messages(self, module: Any = native, **changes: Any) -> list[StoredMessage]:
        arguments: dict[str, Any] = {"buffer": self.data, "units": self.units, "queue_offsets": self.queue_offsets}
        arguments |= {"topic": TOPIC, "queue_ids": QUEUE_ID, "base": BASE, "max_size": LIMIT, "kind": StoredMessage}
        found: list[StoredMessage] = module.messages(*(arguments | changes).values())
        return found

    def rows(self, module: Any = native, *, capacity: int = 200, room: int | None = LIMIT, **changes: Any) -> Any:
        """(rows, bodies) of entry_rows, in memory of exactly so many bytes."""
        rows, memory = np.full(capacity, 5, FRAME_DTYPE), np.full((room or 0) + 64, 0xA5, np.uint8)
        bodies = None if room is None else memory[:room]
        arguments: dict[str, Any] = {"buffer": self.data, "units": self.units, "queue_offsets": self.queue_offsets}
        arguments |= {"topic": TOPIC, "rows": rows, "bodies": bodies, "base": BASE, "queue_id": QUEUE_ID}
        count, copied = module.entry_rows(*(arguments | {"max_size": LIMIT} | changes).values())
        assert count <= capacity and (copied == 0 if bodies is None else copied <= len(bodies))
        assert (memory[-64:] == 0xA5).all(), "nothing behind the room"
        if bodies is not None:
            assert copied == rows["body_size"][:count].sum()
        return rows[:count], b"" if bodies is None else bodies[:copied].tobytes()

    def expected(self) -> list[StoredMessage]:
        rows: Any = np.zeros(len(self.queue_offsets), FRAME_DTYPE)
        assert pure.walk(self.data, 0, len(self.data), BASE, True, rows)[0] == len(rows)
        return [stored_message(self.data, row) for row in rows.tolist()]


@both
@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_the_messages_are_those_of_a_walk(count: int) -> None:
    log = Log(random.Random(SEED), count)
    found, expected = log.messages(), log.expected()
    assert found == expected and list(map(repr, found)) == list(map(repr, expected))
    order = np.random.default_rng(SEED).permutation(count)
    shuffled = np.frombuffer(log.units, np.uint8).reshape(-1, UNIT.size)[order].tobytes()
    assert log.messages(units=shuffled, queue_offsets=log.queue_offsets[order]) == [expected[i] for i in order]
    assert count < 2 or len(log.messages(units=shuffled)) < count


@both
def test_properties_that_messages_share_are_still_their_own() -> None:
    many = b"".join(b"name-%d\x01value-%d\x02" % (i, i) for i in range(40))
    texts = [b"", b"a\x01b\x02", b"a\x01c\x02", b"b\x01b\x02", b"a\x01b\x02c\x01d\x02", b"c\x01d\x02a\x01b\x02", many]
    texts += [many.replace(b"5", b"x"), b"\xff\x01b\x02", b"a\x01\xff\x02", "\ufffd\x01ä\x02".encode()]
    texts += [b"a\x01" + b"v" * 700 + b"\x02", b"a\x01b", b"a\x01b\x02a\x01c\x02"]
    source = random.Random(SEED)
    log = Log(source, 300, properties=texts)
    expected = [pure.decode_properties(message.properties_raw) for message in log.messages()]
    assert len({tuple(properties) for properties in expected}) > 5
    for order in (range(300), source.sample(range(300), 300)):
        found = log.messages()
        for i in order:
            assert list(found[i].properties.items()) == list(expected[i].items())
            found[i].properties.clear()  # nobody else's
        assert [message.properties for message in found] == [{}] * 300


@both
def test_they_are_the_same_from_the_disk_and_far_apart(tmp_path: Path) -> None:
    """What is in memory is looked at at once; the rest is waited for first, without the interpreter's lock."""
    log, apart, path = Log(random.Random(SEED), 40), 32 << 20, tmp_path / "log"
    with path.open("wb") as file:
        file.write(log.data)
        os.fsync(file.fileno())
        file.truncate(apart + len(log.data))
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with path.open("rb") as reading, mmap.mmap(reading.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        assert log.messages(buffer=mapping) == log.expected()
        assert log.messages(buffer=mapping) == log.expected()
        beyond = bytearray(log.units)
        UNIT.pack_into(beyond, 39 * UNIT.size, BASE + apart, 100, 0)
        assert log.messages(buffer=mapping, units=beyond) == log.expected()[:39]
        UNIT.pack_into(beyond, 39 * UNIT.size, BASE + len(mapping), 100, 0)
        assert log.messages(buffer=mapping, units=beyond) == log.expected()[:39]


@both
def test_the_first_odd_entry_ends_them() -> None:
    log = Log(random.Random(SEED), 60)
    whole = log.expected()
    sizes = [message.size for message in whole]
    assert log.messages(queue_ids=8) == log.messages(topic=b"topiC") == log.messages(topic=b"topi") == []
    assert log.messages(topic=b"") == log.messages(base=BASE + 1) == log.messages(base=BASE - 1) == []
    assert log.messages(max_size=sizes[0] - 1) == log.messages(max_size=0) == log.messages(max_size=-(1 << 63)) == []
    assert log.messages(max_size=sum(sizes[:33]) + sizes[33] - 1) == whole[:33]
    assert log.messages(buffer=log.data[:-1]) == whole[:-1]
    assert log.messages(buffer=b"") == []
    for at in (0, 3, 40, 59):
        for unit in (
            (BASE - 1, sizes[at], 0),
            (-(1 << 63), sizes[at], 0),
            ((1 << 63) - 1, sizes[at], 0),
            (whole[at].physical_offset, 0, 0),
            (whole[at].physical_offset, -1, 0),
            (whole[at].physical_offset, 7, 0),
            (whole[at].physical_offset, sizes[at] + 1, 0),
            (whole[at].physical_offset, sizes[at] - 1, 0),
            (whole[at].physical_offset, 0x7FFFFFFF, 0),
            (whole[at].physical_offset + 1, sizes[at], 0),
        ):
            units = bytearray(log.units)
            UNIT.pack_into(units, at * UNIT.size, *unit)
            assert log.messages(units=units, max_size=1 << 40) == whole[:at], (at, unit)
        offsets = log.queue_offsets.copy()
        offsets[at] += 1
        assert log.messages(queue_offsets=offsets) == whole[:at]
        broken = bytearray(log.data)
        broken[whole[at].physical_offset - BASE + 8] ^= 1  # its CRC
        assert log.messages(buffer=broken) == whole[:at]
    assert Log(random.Random(SEED), 3, flags=0x80).messages() == []  # inner batches


@both
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 130])
def test_rows_are_those_of_the_messages(count: int) -> None:
    log = Log(random.Random(SEED), count)
    messages, walked = log.expected(), np.zeros(count, FRAME_DTYPE)
    native.walk(log.data, 0, len(log.data), BASE, True, walked)
    rows, bodies = log.rows()
    assert rows.tobytes() == walked.tobytes() and bodies == b"".join(message.body for message in messages)
    assert log.rows(room=None)[0].tobytes() == walked.tobytes()
    for capacity in (0, 1, 64, 100):
        assert log.rows(capacity=capacity)[0].tobytes() == walked[:capacity].tobytes()
    if count:
        whole = len(bodies)
        fits = sum(1 for end in np.cumsum([len(message.body) for message in messages]) if end <= whole // 2)
        assert [len(rows) for rows, _ in (log.rows(room=whole), log.rows(room=whole // 2))] == [count, fits]
        broken = bytearray(log.data)
        broken[walked["position"][count // 2] + 12] ^= 1  # the queue id of one in the middle
        assert log.rows(buffer=broken)[0].tobytes() == walked[: count // 2].tobytes()
    assert not len(log.rows(topic=b"other")[0]) and not len(log.rows(topic=b"topiC")[0])


@both
def test_rows_refuse_wrong_arguments() -> None:
    log = Log(random.Random(SEED), 3)
    wrong: list[dict[str, Any]] = [{"units": log.units[:-1]}, {"queue_offsets": log.queue_offsets[1:]}]
    for changes in (*wrong, {"rows": bytearray(119)}):
        with pytest.raises(ValueError):
            log.rows(**changes)
    shared = np.zeros(1000, np.uint8)
    for names in (("rows", "bodies"), ("topic", "bodies"), ("buffer", "rows")):
        same: dict[str, Any] = dict.fromkeys(names, shared[:960])
        with pytest.raises(ValueError, match="share"):
            log.rows(**same)
    for name in ("rows", "bodies"):
        read_only: dict[str, Any] = {name: bytes(240)}
        with pytest.raises(BufferError):
            log.rows(**read_only)
    with pytest.raises(TypeError):
        log.rows(rows=None)
    with pytest.raises(OverflowError):
        log.rows(queue_id=1 << 31)


@both
def test_entries_of_many_queues_are_read_each_for_its_own() -> None:
    log = Log(random.Random(SEED), 3)
    ids = np.full(3, QUEUE_ID, np.int32)
    assert log.messages(queue_ids=ids) == log.expected()
    ids[1] += 1
    assert log.messages(queue_ids=ids) == log.expected()[:1], "up to the entry of another queue than its record's"


@both
def test_messages_refuse_wrong_arguments() -> None:
    log = Log(random.Random(SEED), 3)
    for changes in ({"units": log.units[:-1]}, {"queue_offsets": log.queue_offsets[1:]}, {"units": b""}):
        with pytest.raises(ValueError, match="entries"):
            log.messages(**changes)
    for name, value in (("base", 1 << 63), ("queue_ids", 1 << 31), ("max_size", -(1 << 63) - 1)):
        with pytest.raises(OverflowError):
            log.messages(**{name: value})
    for name, wrong in (("base", 1.5), ("kind", 5), ("buffer", None), ("topic", "topic"), ("units", [1])):
        with pytest.raises(TypeError):
            log.messages(**{name: wrong})
    for ids in (b"", np.full(2, QUEUE_ID, np.int32), np.full(3, QUEUE_ID, np.int64)):
        with pytest.raises(ValueError, match="queue_ids"):
            log.messages(queue_ids=ids)
    with pytest.raises(BufferError):
        log.messages(queue_offsets=np.arange(6, dtype=np.int64)[::2])
    with pytest.raises(TypeError):
        native.messages(log.data)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        log.messages(kind=object)
    data = bytearray(log.data)
    kept = log.messages(buffer=data)
    data.clear()  # BufferError if anything still held it
    assert kept == log.expected()


@both
@pytest.mark.parametrize("name", native.available())
def test_a_record_is_taken_apart(name: str) -> None:
    module = import_module(native.MODULES[name], native.__name__)
    for message in Log(random.Random(SEED), 50).expected():
        rest = rest_of(message)
        found = fields_of(module, rest)
        assert found == {name: getattr(message, name) for name in FIELD_NAMES}
        assert found["batch_index"] is None and found["queue_id"] == QUEUE_ID and found["topic"] == "topic"
        for wrong in (b"", rest[:-1], rest + b"x", rest[:90], bytes(len(rest))):
            assert fields_of(module, wrong) is None


def rest_of(message: StoredMessage) -> bytes:
    """The record without its body, which the kernel makes the fields of."""
    return bytes(message._rest)


FIELD_NAMES = [field.name for field in dataclasses.fields(StoredMessage) if field.name != "body"]


def fields_of(module: Any, rest: bytes) -> dict[str, Any] | None:
    """What the base of messages makes of a record without its body; None if it refuses it."""

    class Target(module.RecordFields):  # type: ignore[misc]
        _decode_host = staticmethod(decode_host)

    target = Target()
    try:
        target._rest = rest
        return {name: getattr(target, name) for name in FIELD_NAMES}
    except ValueError:
        return None


@pytest.fixture
def c() -> ModuleType:
    """The C kernel itself."""
    if "c" not in native.available():
        pytest.skip("the C kernel is not built here")
    from flightlog.store.native import _kernel

    return _kernel


WILD = (0, 1, -1, 7, 8, 90, 91, 92, 127, 128, 255, 0x7FFF, 0x7FFFFFFF, -0x80000000, MAGIC_V1, MAGIC_V2)


def test_kernel_and_reference_agree_on_wild_bytes(c: ModuleType) -> None:
    print(f"FLIGHTLOG_MESSAGES_SEED={SEED}")
    source = random.Random(SEED)
    counts: list[int] = []
    for _ in range(400):
        log = Log(source, source.choice([1, 3, 30]))
        data, units = bytearray(log.data), bytearray(log.units)
        for _ in range(source.choice([0, 1, 3])):
            victim = source.choice([data, units])
            start = UNIT.unpack_from(log.units, UNIT.size * source.randrange(len(log.queue_offsets)))[0] - BASE
            at = start + source.choice([0, 4, 12, 20, 28, 36, 84, 88, 96]) if victim is data else 0
            at = min(at if victim is data else source.randrange(len(units)), len(victim) - 4)
            victim[at : at + 4] = (source.choice(WILD) & 0xFFFFFFFF).to_bytes(4, "big")
        # Arrays of their own: the bytes end where the allocation does, so that a sanitizer sees any step beyond.
        own: dict[str, Any] = {
            "buffer": np.frombuffer(data, np.uint8).copy(),
            "units": np.frombuffer(units, np.uint8).copy(),
        }
        found, expected = log.messages(c, **own), log.messages(pure, **own)
        assert found == expected and list(map(repr, found)) == list(map(repr, expected))
        room = source.choice([None, LIMIT, len(log.data) // 2])
        (rows, bodies), (pure_rows, pure_bodies) = (log.rows(module, room=room, **own) for module in (c, pure))
        assert rows.tobytes() == pure_rows.tobytes() and bodies == pure_bodies
        assert len(rows) == len(found) or room not in (None, LIMIT)
        counts.append(len(found) - len(log.queue_offsets))
    assert 0 in counts and min(counts) < 0, "some were whole and some were not"


PARTS = (
    b"\x01",
    b"\x02",
    b"a",
    b"TAGS",
    b"\xc3",
    b"\xa4",
    b"\xe2\x82",
    b"\xf0\x90\x80",
    b"\xff",
    b"\xed\xa0\x80",
    b"\0",
)


def test_kernel_and_reference_agree_on_wild_properties(c: ModuleType) -> None:
    source, sizes = random.Random(SEED), set()
    for _ in range(5000):
        raw = b"".join(source.choices(PARTS, k=source.randrange(12)))
        found = c.decode_properties(np.frombuffer(raw, np.uint8).copy())
        assert found == pure.decode_properties(raw), raw
        assert list(found.items()) == list(pure.decode_properties(raw).items())
        sizes.add(len(found))
    assert sizes >= {0, 1, 2}


def test_kernel_and_reference_agree_on_wild_records(c: ModuleType) -> None:
    source, refused = random.Random(SEED), 0
    for _ in range(2000):
        rest = bytearray(rest_of(Log(source, 1).expected()[0]))
        for _ in range(source.choice([0, 1, 2])):
            at = source.choice([0, 4, 36, 84, 88, source.randrange(len(rest))])
            rest[at : at + 4] = (source.choice(WILD) & 0xFFFFFFFF).to_bytes(4, "big")
        if source.random() < 0.2:
            del rest[source.randrange(len(rest)) :]
        results = [fields_of(module, bytes(rest)) for module in (c, pure)]
        assert results[0] == results[1], rest.hex()
        refused += results[0] is None
    assert 50 < refused < 1950
