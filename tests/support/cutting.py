"""What a power cut leaves of a moment (see tests/support/recording.py): what was synced, and any part of the rest.

A cut is named by what it takes, its losses: sectors of 512 bytes that hold what they held before, lengths that are as
they were before, and names that did not change. Nothing taken: what a killed process leaves. So a cut can be made
smaller by giving something back, which is how a failing one is shrunk.

A folder's names survive in the order in which they were changed. A page of 4 KiB may have been written back at any time
since the last sync, whole; the last time in sectors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flightlog.store.state.progress import BOOT, PAGE, progress_path
from flightlog.tests.support.memory_disk import Inode
from flightlog.tests.support.recording import FileState, Folder, Moment

SECTOR_SIZE, PAGE_SIZE = 512, 4096
ANOTHER_BOOT = (1).to_bytes(8, "little")


class Loss(NamedTuple):
    """One thing that a cut takes."""

    kind: str
    """"name": this change of a folder's names, and so all later ones. "sector", "length": of a file."""
    node: int
    """The number of the file or folder."""
    place: int = 0
    """The number of the change since the last sync, or of the sector."""
    version: int = 0
    """Which of the contents the sector or the length is of; 0: as of the last sync."""


Losses = tuple[Loss, ...]


class Unsynced(NamedTuple):
    """What there is to lose."""

    names: list[Loss]
    lengths: list[tuple[int, FileState]]
    sectors: list[tuple[int, FileState, list[int]]]
    """A page, by its file, with the sectors that are not everywhere the same."""

    def __bool__(self) -> bool:
        return bool(self.names or self.lengths or self.sectors)


def unsynced(moment: Moment[Any]) -> Unsynced:
    """Everything that was not synced, in one order on every machine."""
    found = Unsynced([], [], [])
    for folder, changes in moment.pending.items():
        found.names.extend(Loss("name", moment.numbers[folder][0], index) for index in range(len(changes)))
    for inode, state in moment.files.items():
        if not state.is_clean:
            _unsynced_of(moment.numbers[inode][0], state, found)
    return found


def _unsynced_of(number: int, state: FileState, found: Unsynced) -> None:
    if len({len(content) for content in state.contents}) > 1:
        found.lengths.append((number, state))
    size = max(map(len, state.contents))
    for page in range(0, size, PAGE_SIZE):
        contents = {content[page : page + PAGE_SIZE].ljust(PAGE_SIZE, b"\0") for content in state.contents}
        if len(contents) > 1:
            sectors = [
                (page + at) // SECTOR_SIZE
                for at in range(0, PAGE_SIZE, SECTOR_SIZE)
                if len({content[at : at + SECTOR_SIZE] for content in contents}) > 1
            ]
            found.sectors.append((number, state, sectors))


# -- choosing

Chooser = Callable[[Unsynced, random.Random], Iterator[Loss]]


def _nothing_else(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """What was synced, and nothing else."""
    yield from there.names
    yield from _data(there)


def _data(there: Unsynced) -> Iterator[Loss]:
    yield from (Loss("length", number) for number, _ in there.lengths)
    yield from (Loss("sector", number, sector) for number, _, sectors in there.sectors for sector in sectors)


def _data_only(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """All names, and none of the data."""
    yield from _data(there)


def _names_only(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """All of the data, and none of the names."""
    yield from there.names


def _any_sectors(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """Any sectors of the newest and the oldest contents."""
    chance = dice.choice((0.1, 0.5, 0.9))
    yield from (loss for loss in _nothing_else(there, dice) if dice.random() < chance)


def _any_pages(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """Whole pages, lengths and names, each as it was at some time since its sync; one page in four is torn."""
    yield from (loss for loss in there.names if dice.random() < 0.3)
    for number, state in there.lengths:
        yield Loss("length", number, 0, dice.randrange(len(state.contents)))
    for number, state, sectors in there.sectors:
        base = dice.randrange(len(state.contents))
        later = dice.randrange(base, len(state.contents)) if dice.random() < 0.25 else base
        yield from (Loss("sector", number, sector, dice.choice((base, later))) for sector in sectors)


def _all_of_one(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """One file or folder loses everything, the others nothing."""
    losses = list(_nothing_else(there, dice))
    chosen = dice.choice(losses).node
    yield from (loss for loss in losses if loss.node == chosen)


def _all_but_one(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """One file or folder loses nothing, the others everything."""
    losses = list(_nothing_else(there, dice))
    chosen = dice.choice(losses).node
    yield from (loss for loss in losses if loss.node != chosen)


def _one(there: Unsynced, dice: random.Random) -> Iterator[Loss]:
    """A single sector, length or name."""
    yield dice.choice(list(_nothing_else(there, dice)))


CHOOSERS: tuple[tuple[Chooser, int], ...] = (
    (_nothing_else, 3),
    (_data_only, 1),
    (_names_only, 1),
    (_any_sectors, 4),
    (_any_pages, 4),
    (_all_of_one, 2),
    (_all_but_one, 2),
    (_one, 2),
)


def choose(moment: Moment[Any], dice: random.Random) -> Losses:
    """What one cut at this moment takes."""
    there = unsynced(moment)
    if not there:
        return ()
    [chooser] = dice.choices([chooser for chooser, _ in CHOOSERS], [weight for _, weight in CHOOSERS])
    return tuple(chooser(there, dice))


# -- making


def tree_after(moment: Moment[Any], losses: Sequence[Loss]) -> dict[str, bytes | None]:
    """What lies there after the cut, for a MemoryDisk."""
    first_lost: dict[int, int] = {}
    of_files: dict[int, list[Loss]] = {}
    for loss in losses:
        if loss.kind == "name":
            first_lost[loss.node] = min(loss.place, first_lost.get(loss.node, loss.place))
        else:
            of_files.setdefault(loss.node, []).append(loss)
    found: dict[str, bytes | None] = {}

    def add(folder: Folder, above: str) -> None:
        changes = moment.pending[folder]
        names: dict[str, object] = dict(moment.kept[folder])
        for change in changes[: first_lost.get(moment.numbers[folder][0], len(changes))]:
            names.update(change)
        for name, node in names.items():
            if node in moment.files:
                inode: Inode = node  # type: ignore[assignment]
                found[above + name] = _content(moment.files[inode], of_files.get(moment.numbers[node][0], ()))
            elif node in moment.kept:
                found[above + name] = None
                add(node, f"{above}{name}/")  # type: ignore[arg-type]

    add(moment.root, "")
    return found


def _content(state: FileState, losses: Sequence[Loss]) -> bytes:
    now = state.contents[-1]
    if not losses:
        return now
    size = next((len(state.contents[loss.version]) for loss in losses if loss.kind == "length"), len(now))
    content = bytearray(now[:size].ljust(size, b"\0"))
    for loss in losses:
        start = loss.place * SECTOR_SIZE
        if loss.kind == "sector" and start < size:
            sector = state.contents[loss.version][start : start + SECTOR_SIZE].ljust(SECTOR_SIZE, b"\0")
            content[start : start + SECTOR_SIZE] = sector[: size - start]
    return bytes(content)


def may_boot_anew(tree: dict[str, bytes | None], dice: random.Random) -> None:
    """The machine was off, or in half of the cases only the disk: then the boot is the one of before. Does not advance
    the dice."""
    if foreseen(dice) < 0.5:
        boot_anew(tree)


def foreseen(dice: random.Random) -> float:
    """What the dice would give next."""
    copied = random.Random()
    copied.setstate(dice.getstate())
    return copied.random()


def boot_anew(tree: dict[str, bytes | None]) -> None:
    """The machine was off: what the progress page says of its boot is over."""
    name = str(progress_path(Path()))
    page = tree.get(name) or b""
    if len(page) >= PAGE.size:
        tree[name] = page[: BOOT * 8] + ANOTHER_BOOT + page[BOOT * 8 + 8 :]


def tell(moment: Moment[Any], losses: Sequence[Loss]) -> list[str]:
    """The cut in words, a line for everything that it takes."""
    paths = dict(moment.numbers.values())
    lines = []
    for loss in sorted(losses):
        of = f"(content {loss.version} since the last sync is there)" if loss.version else ""
        what = {
            "name": f"change {loss.place} of the names in",
            "length": "the length of",
            "sector": f"sector {loss.place} of",
        }
        lines.append(f"{what[loss.kind]} {paths[loss.node] or 'the root'} {of}".rstrip())
    return lines
