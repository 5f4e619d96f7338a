"""What can happen to the bytes of a file, drawn by lot."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

NUMBERS = (
    *(0, 1, 2, 7, 8, 19, 20, 21, 127, 128, 255, 256, 4095, 4096, 0x7FFF, 0x8000, 0xFFFF, 1 << 20),
    *(0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
MOST = 1 << 16
"""Bytes that an input may grow to."""

Change = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def _place(data: bytearray, dice: random.Random) -> int:
    return dice.randrange(len(data) + 1)


def _piece(data: bytes | bytearray, dice: random.Random) -> slice:
    size = min(len(data), dice.choice((1, 2, 4, 8, 20, 64, 512, 4096)))
    start = dice.randrange(len(data) - size + 1)
    return slice(start, start + dice.randint(0, size))


def flip(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    for _round in range(dice.choice((1, 1, 1, 2, 8)) if data else 0):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def number(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """A number that is on some border, at the place of another one."""
    size = dice.choice((1, 2, 4, 4, 8, 8))
    value = dice.choice(NUMBERS) & ((1 << 8 * size) - 1)
    at = _place(data, dice)
    at -= at % dice.choice((1, 1, 2, 4))
    data[at : at + size] = value.to_bytes(size, dice.choice(("big", "big", "little")))


def step(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """A number that is one off."""
    if len(data) >= 4:
        at = dice.randrange(len(data) - 3)
        (value,) = struct.unpack_from(">I", data, at)
        struct.pack_into(">I", data, at, (value + dice.choice((-8, -1, 1, 2, 20))) & 0xFFFFFFFF)


def garbage(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    where = _piece(data, dice)
    data[where] = dice.randbytes(where.stop - where.start)


def zero(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    where = _piece(data, dice)
    data[where] = bytes(where.stop - where.start)


def truncate(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    del data[_place(data, dice) :]


def extend(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    data += dice.choice((bytes(dice.choice((1, 8, 20, 512, 4096))), dice.randbytes(dice.randint(1, 64))))


def remove(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """A piece is gone, and what lies behind it moves up."""
    del data[_piece(data, dice)]


def duplicate(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    piece, at = data[_piece(data, dice)], _place(data, dice)
    data[at : at + dice.choice((0, len(piece)))] = piece


def repeat(data: bytearray, dice: random.Random, _: Sequence[bytes]) -> None:
    """A few bytes many times: numbers of thousands of digits, nesting without end."""
    piece, at = data[_piece(data, dice)][:8], _place(data, dice)
    data[at:at] = piece * dice.choice((2, 10, 100, 5000))


def splice(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> None:
    """Bytes of another file at this place."""
    other = dice.choice(others) if others else b""
    piece, at = other[_piece(other, dice)], _place(data, dice)
    data[at : at + dice.choice((0, len(piece)))] = piece


def cross(data: bytearray, dice: random.Random, others: Sequence[bytes]) -> None:
    """The rest is that of another file."""
    other = dice.choice(others) if others else b""
    at = dice.randrange(min(len(data), len(other)) + 1)
    data[at:] = other[at:]


IN_PLACE: Sequence[Change] = (flip, number, step, garbage, zero)
"""What leaves a file as long as it is, nearly always."""
CHANGES: Sequence[Change] = (*IN_PLACE, truncate, extend, remove, duplicate, repeat, splice, cross)


def damaged(data: bytes, dice: random.Random, others: Sequence[bytes], changes: Sequence[Change] = CHANGES) -> bytes:
    """`data` after one change or a few of them."""
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        dice.choice(changes)(found, dice, others)
    return bytes(found[:MOST])
