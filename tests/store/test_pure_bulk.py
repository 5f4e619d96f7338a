"""The pure reference's short cuts for records that are alike find what is found record by record, whatever breaks
likeness in the middle of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from flightlog.store.format.listing import QUEUE_DTYPE, UNIT_SIZE
from flightlog.store.native import pure, pure_bulk, pure_layouts, pure_listing, pure_walk

HOST = bytes.fromhex("0a000001 0000d431")
APART = b"SCHEDULE_TOPIC_XXXX"

LAYOUTS = (
    "KEYS\x01key-0001\x02TAGS\x01tag\x02",
    "KEYS\x01key-0001\x02TAGS\x01tag",
    "UNIQ_KEY\x01id-4711\x02KEYS\x01k1 k2  k3\x02a\x01b\x02",
    "TAGS\x01one\x02TAGS\x01two\x02KEYS\x01k\x02KEYS\x01l\x02",
    "KEYS\x01 a \x02TAGS\x01\x02UNIQ_KEY\x01u\x02",
    "INNER_MULTI_QUEUE_OFFSET\x011,2\x02KEYS\x01kk\x02",
    "name\x01val\x01ue\x02KEYS\x01a\x01b\x02\x01x\x02y",
    "TAGS\x01täg\x02KEYS\x01schlüssel\x02",
    "other\x01value\x02",
)
ODD = (b"\x01", b"\x02", b" ", b"\xc3", b"\x80", b"\x00", b"K", b"x")


def some_log(dice: random.Random) -> tuple[bytearray, list[int]]:
    """Runs of records that look alike, most of them quite; and where they begin."""
    out, places = bytearray(), list[int]()
    for _ in range(dice.randrange(1, 6)):
        layout = dice.choice(LAYOUTS).encode()
        topic = dice.choice((b"orders", b"orders", b"topics", "täg".encode(), APART, b"t" * 130))
        bits = dice.choice((0, 0, 0, 0, 4, 8, 12, 0x80, 0x10, 0x30))
        body, oddness = bytes(dice.choice((0, 5, 300))), dice.choice((0, 0.02, 0.3))
        for number in range(dice.choice((1, 20, 90, 300))):
            raw = bytearray(layout.replace(b"0001", b"%04d" % number))
            flags = bits
            if dice.random() < oddness:
                at = dice.randrange(len(raw))
                raw[at : at + 1] = dice.choice(ODD)
            if dice.random() < oddness / 3:
                flags = dice.choice((0, 8, 12, 0x20))
            buffer, hosts = bytearray(700), [HOST + bytes(12 if flags & bit else 0) for bit in (0x10, 0x20)]
            size = pure.encode_record(
                *(buffer, 0, MAGIC_V1 if len(topic) < 128 else MAGIC_V2, dice.randrange(3), 0, len(places), len(out)),
                *(flags, 0, hosts[0], 1_700_000_000_000 + number, hosts[1], 0, 0),
                *(body, topic, bytes(raw)),
            )
            places.append(len(out))
            out += buffer[:size]
    return out, places


def walked(raw: bytearray, room: int) -> tuple[Any, bytes]:
    rows: Any = np.full(room * FRAME_DTYPE.itemsize, 0xA5, np.uint8)
    return pure.walk(raw, 0, len(raw), 0, True, rows), rows.tobytes()


def listed(raw: bytearray, rows: Any, room: int) -> tuple[Any, ...]:
    count = len(rows)
    out = [np.full(size, 0xA5, np.uint8) for size in (UNIT_SIZE * count, 4 * count, QUEUE_DTYPE.itemsize * count)]
    out += [np.full(size * room, 0xA5, np.uint8) for size in (4, 8, 8)]
    return (pure.list_rows(raw, rows, APART, *out), *(each.tobytes() for each in out))


@pytest.mark.parametrize("seed", range(12))
def test_alike_or_not_the_same_is_listed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, places = some_log(random.Random(seed))
    rows: Any = np.empty(len(places), FRAME_DTYPE)
    assert pure.walk(raw, 0, len(raw), 0, True, rows)[0] == len(places)
    for room in (0, 50, 5 * len(places)):
        monkeypatch.setattr(pure_listing, "FEW_ROWS", 1 << 40)
        expected = listed(raw, rows, room)
        monkeypatch.setattr(pure_listing, "FEW_ROWS", 0)
        for fewest, layouts in ((1, 1), (1, 100), (60, 4), (1 << 40, 4)):
            monkeypatch.setattr(pure_layouts, "FEWEST_ALIKE", fewest)
            monkeypatch.setattr(pure_layouts, "LAYOUTS_OF_A_SIZE", layouts)
            assert listed(raw, rows, room) == expected, (fewest, layouts)


def test_records_alike_are_found_to_be() -> None:
    """The test above would pass without any short cut."""
    raw, rows = bytearray(), np.empty(600, FRAME_DTYPE)
    for number in range(600):
        buffer = bytearray(300)
        text = f"UNIQ_KEY\x01id-{number:04}\x02KEYS\x01a-{number % 7} b\x02TAGS\x01{'xyz'[number % 3]}\x02"
        raw += buffer[
            : pure.encode_record(
                *(buffer, 0, MAGIC_V1, 0, 0, number, len(raw), 0, 0, HOST, 0, HOST, 0, 0, b"", b"t"),
                b"TAGS\x01other\x02" if number in (5, 77) else text.encode(),
            )
        ]
    assert pure.walk(raw, 0, len(raw), 0, True, rows)[0] == 600
    alike, left = pure_layouts.find_alike(np.frombuffer(raw, np.uint8), rows)
    assert [len(some.row_numbers) for some in alike] == [598]
    assert len(alike[0].keys) == 3
    assert left.tolist() == [5, 77]


@pytest.mark.parametrize("seed", range(12))
def test_runs_of_one_size_end_where_they_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    raw, places = some_log(dice)
    logs = [raw, raw[: dice.randrange(len(raw))]]
    for _ in range(4):
        damaged = bytearray(raw)
        at = dice.choice(places) + dice.choice((0, 3, 4, 8, 28, 36, 84, 88))
        damaged[at : at + 1] = dice.randbytes(1)
        logs.append(damaged)
    for log in logs:
        for room in (len(places), dice.randrange(len(places) + 1)):
            monkeypatch.setattr(pure_walk, "BULK_FROM", 1 << 40)
            expected = walked(log, room)
            monkeypatch.setattr(pure_walk, "BULK_FROM", 1)
            for run, short in ((1, 0), (2, 1), (64, 16), (1, 1 << 40)):
                monkeypatch.setattr(pure_bulk, "RUN", run)
                monkeypatch.setattr(pure_bulk, "SHORT_RUN", short)
                monkeypatch.setattr(pure_bulk, "ONE_BY_ONE", dice.choice((1, 7, 512)))
                found = walked(log, room)
                assert found[0] == expected[0]
                filled = found[0][0] * FRAME_DTYPE.itemsize
                assert found[1][:filled] == expected[1][:filled]
