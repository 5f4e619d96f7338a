"""What can happen to the files of a whole store, drawn by lot: to their bytes, their lengths, their names."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from flightlog.tests.support import damage

HOLES = (1, 20, 4096, 1 << 16, 1 << 33)
"""How much longer a file may become."""
NOT_TOUCHED = "lock"
"""It holds nothing, and whoever opens it may drop a lock."""

Harm = Callable[[Path, list[Path], random.Random], str]


def content(path: Path, files: list[Path], dice: random.Random) -> str:
    others = [dice.choice(files).read_bytes()]
    path.write_bytes(damage.damaged(path.read_bytes(), dice, others))
    return "other bytes"


def in_place(path: Path, files: list[Path], dice: random.Random) -> str:
    path.write_bytes(damage.damaged(path.read_bytes(), dice, [], damage.IN_PLACE))
    return "other bytes in place"


def sector(path: Path, files: list[Path], dice: random.Random) -> str:
    """A sector or a page is zero, or is that of another place."""
    raw, size = bytearray(path.read_bytes()), dice.choice((512, 4096))
    at = dice.randrange(len(raw) // size + 1) * size
    other = dice.choice(files).read_bytes()
    start = dice.randrange(len(other) // size + 1) * size
    piece = dice.choice((bytes(size), other[start : start + size]))
    path.write_bytes(raw[:at] + piece + raw[at + len(piece) :])
    return f"{len(piece)} bytes at {at} are others"


def cut(path: Path, files: list[Path], dice: random.Random) -> str:
    size = dice.randrange(path.stat().st_size + 1)
    os.truncate(path, size)
    return f"cut to {size}"


def lengthen(path: Path, files: list[Path], dice: random.Random) -> str:
    size = path.stat().st_size + dice.choice(HOLES)
    os.truncate(path, size)
    return f"lengthened to {size}"


def empty(path: Path, files: list[Path], dice: random.Random) -> str:
    os.truncate(path, 0)
    return "emptied"


def remove(path: Path, files: list[Path], dice: random.Random) -> str:
    path.unlink()
    return "removed"


IN_ROOT = {"checkpoint", "abort", "lock"}


def remove_folder(path: Path, files: list[Path], dice: random.Random) -> str:
    # The folder of the store itself stays, also where an earlier damage took its log.
    if path.name in IN_ROOT or (path.parent / "commitlog").is_dir():
        return remove(path, files, dice)
    shutil.rmtree(path.parent)
    return "removed with its folder"


def swap(path: Path, files: list[Path], dice: random.Random) -> str:
    kin = [other for other in files if other.stat().st_size == path.stat().st_size]
    other = dice.choice(kin)
    raw, raw_of_other = path.read_bytes(), other.read_bytes()
    path.write_bytes(raw_of_other)
    other.write_bytes(raw)
    return f"swapped with {other.name}"


def duplicate(path: Path, files: list[Path], dice: random.Random) -> str:
    other = dice.choice(files)
    other.write_bytes(path.read_bytes())
    return f"copied over {other.name}"


def rename(path: Path, files: list[Path], dice: random.Random) -> str:
    name = path.name
    if name.isdigit():
        size = path.stat().st_size
        number = dice.choice((0, int(name) + size, int(name) - size, int(name) + 1, 10 ** len(name) - 1, 1 << 62))
        name = f"{abs(number):0{len(name)}d}"[: len(name)]
    else:
        name += dice.choice((".tmp", ".bak", "x"))
    target = path.with_name(name)
    if target != path and not target.is_dir():
        dice.choice((shutil.move, shutil.copyfile))(path, target)
    return f"is {name} too, or instead"


def folder_instead(path: Path, files: list[Path], dice: random.Random) -> str:
    path.unlink()
    path.mkdir()
    return "is a folder"


HARMS: tuple[Harm, ...] = (
    *(content, content, content, in_place, in_place, in_place, in_place, sector, sector, cut, cut, lengthen, empty),
    *(remove, remove_folder, swap, duplicate, rename, folder_instead),
)


def do_damage(root: Path, dice: random.Random) -> list[str]:
    """Damage one file of a store or a few of them; returns what was done, in words. Files of every kind come alike
    often, however many there are of each."""
    done: list[str] = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        files = sorted(p for p in root.rglob("*") if p.is_file() and p.name != NOT_TOUCHED)
        small = [p for p in files if p.stat().st_size <= 1 << 20]
        if not small:
            break
        kind = dice.choice(sorted({p.relative_to(root).parts[0] for p in small}))
        path = dice.choice([p for p in small if p.relative_to(root).parts[0] == kind])
        done.append(f"{path.relative_to(root)}: {dice.choice(HARMS)(path, small, dice)}")
    return done
