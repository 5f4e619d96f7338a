"""A disk whose power can be cut: it knows what was synced, and which part of the rest a power cut may leave.

    disk = PowerDisk(folder)
    store = flightlog.open(folder, disk=disk)
    ...
    kill(store)
    disk.cut()                     # leaves what was synced, and nothing else
    disk.cut(random.Random(7))     # leaves what was synced, and a random part of the rest

    disk.die_after = 3             # the fourth change of the disk from here on is the last one: it raises Died
    disk.kill()                    # leaves everything that the dead process wrote

File contents survive by sectors of 512 bytes, each as of the last sync or as of the cut. Names survive in the order in
which they changed, folder by folder. A sync costs no time: it takes a note. With `keeps_notes=False` there is no cut.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from dataclasses import dataclass
from pathlib import Path

from ..store.disk.disk import DiskFile, MappedPart, RealDisk, RealFile
from ..store.disk.file_system import FileSystem
from ..store.errors import SyncFailedError
from ..store.settings import PAGE_SIZE
from ..store.state.progress import BOOT, PAGE, progress_path

SECTOR_SIZE = 512
ANOTHER_BOOT = (1).to_bytes(8, "little")
UNTOUCHED = ("lock",)
"""Opened past the disk door: its descriptor is the lock."""


class Died(BaseException):
    """The process has died: from the fatal operation on, every change of the disk raises this."""


class Inode:
    """One file, under whatever name."""

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = synced
        self.last = b""
        """Its content when its last name was removed."""
        self.lost: dict[int, bytes] = {}
        """Pages that a failed sync left clean in memory and not on the disk: no sync writes them as they were then."""

    def sync(self, now: bytes, start: int = 0, stop: int | None = None) -> None:
        """What an fdatasync makes durable, or the sync of a part: of its pages, and no others."""
        if not self.lost and start == 0 and stop is None:
            self.synced = now
            return
        old = self.synced.ljust(len(now), b"\0")
        pages = {at: old[at : at + PAGE_SIZE] for at in range(0, len(now), PAGE_SIZE)}
        for at in range(start, len(now) if stop is None else min(stop, len(now)), PAGE_SIZE):
            pages[at] = now[at : at + PAGE_SIZE]
        for at, page in self.lost.items():
            if pages.get(at) == page:
                pages[at] = self.synced[at : at + PAGE_SIZE].ljust(len(page), b"\0")
        self.synced = b"".join(pages.values())

    def lose(self, now: bytes) -> None:
        """What a failed fdatasync leaves: everything that it should have written is taken for clean."""
        old = self.synced.ljust(len(now), b"\0")
        places = range(0, len(now), PAGE_SIZE)
        self.lost |= {
            at: now[at : at + PAGE_SIZE] for at in places if now[at : at + PAGE_SIZE] != old[at : at + PAGE_SIZE]
        }


@dataclass(frozen=True)
class Change:
    """Names of one folder that changed at once; None: is no more."""

    names: dict[str, Inode | None]


class PowerFile(RealFile):
    """Asks the disk before everything that changes something."""

    def __init__(self, disk: PowerDisk, file: RealFile, writable: bool, inode: Inode | None) -> None:
        super().__init__(file.path, os.dup(file.descriptor), writable)
        file.close()
        self._disk, self.inode = disk, inode

    def write(self, position: int, data: bytes | memoryview) -> None:
        with self._disk.lock:
            if self._disk.is_last():
                whole_sectors = (position + len(data) // 2) // SECTOR_SIZE * SECTOR_SIZE - position
                super().write(position, data[: max(whole_sectors, 0)])
            self._disk.meet()
            if self.inode is not None:
                for at in range(position - position % PAGE_SIZE, position + len(data), PAGE_SIZE):
                    self.inode.lost.pop(at, None)
            super().write(position, data)

    def resize(self, size: int) -> None:
        with self._disk.lock:
            self._disk.meet()
            super().resize(size)

    def allocate(self, position: int, size: int) -> None:
        with self._disk.lock:
            self._disk.meet()
            super().allocate(position, size)

    def sync(self, part: MappedPart | None = None) -> None:
        with self._disk.lock:
            self._disk.meet()
            if self.inode is not None:
                now = os.pread(self.descriptor, self.size(), 0)
                if self._disk.fails_syncs_of and self._disk.fails_syncs_of in str(self.path):
                    self.inode.lose(now)
                    raise SyncFailedError(self.path, os.strerror(errno.EIO))
                self.inode.sync(now, *((part.start, part.stop) if part is not None else ()))


class PowerFileSystem(FileSystem):
    """Syncs everything that the disk knows of."""

    def __init__(self, disk: PowerDisk) -> None:
        super().__init__(disk.root, -1)
        self._disk = disk

    def sync(self) -> None:
        with self._disk.lock:
            self._disk.meet()
            self._disk.sync_all()


class PowerDisk(RealDisk):
    """The disk of one store, for any number of writers that die one after the other."""

    def __init__(self, root: Path, *, keeps_notes: bool = True) -> None:
        self.root = root
        self._keeps_notes = keeps_notes
        self.live: dict[Path, Inode] = {}
        """The files as a process sees them."""
        self._kept: dict[Path, dict[str, Inode]] = {root: {}}
        """Folder -> the names in it that were synced. A folder that is not in here is not there after a cut."""
        self._pending: dict[Path, list[Change]] = {}
        """Folder -> what has changed since, in order."""
        self.die_after: int | None = None
        self.fails_syncs_of = ""
        """Syncs of files whose path contains this fail as they do on Linux: the pages count as clean afterwards."""
        self.left: dict[Path, bytes] | None = None
        """What lay there when the process died."""
        self.lock = threading.RLock()
        """Held from the question whether this is the last change to its end: those of other threads are whole then."""

    # -- dying

    def is_last(self) -> bool:
        return self.die_after == 0 and self.left is None

    def meet(self) -> None:
        """Called before every change. Raises Died from the fatal one on."""
        if self.is_last():
            self.left = {path: path.read_bytes() for path in self._files()}
        if self.left is not None:
            raise Died
        if self.die_after is not None:
            self.die_after -= 1

    def kill(self) -> None:
        """Leave what the process had written when it died, and let another one come."""
        for path, content in (self.left or {}).items():
            _set_content(path, content)
        self.left = self.die_after = None

    # -- changing

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if not writable:
            return super().open(path)
        with self.lock:
            is_new = create and not path.exists()
            if is_new:
                self.meet()
            file = super().open(path, writable=True, create=create)
            if is_new and self._keeps_notes:
                self.live[path] = Inode()
                self._note(path.parent, {path.name: self.live[path]})
            return PowerFile(self, file, writable, self.live.get(path))

    def open_unnamed(self, path: Path) -> PowerFile | None:
        with self.lock:
            self.meet()
            file = super().open_unnamed(path)
            return None if file is None else PowerFile(self, file, True, Inode() if self._keeps_notes else None)

    def link(self, file: DiskFile) -> None:
        with self.lock:
            self.meet()
            super().link(file)
            assert isinstance(file, PowerFile)
            if file.inode is not None:
                self.live[file.path] = file.inode
                self._note(file.path.parent, {file.path.name: file.inode})

    def rename(self, old: Path, new: Path) -> None:
        with self.lock:
            self.meet()
            if new in self.live:
                self.live[new].last = new.read_bytes()
            super().rename(old, new)
            if self._keeps_notes:
                assert old.parent == new.parent, "a rename between folders would need two of them at once"
                self.live[new] = self.live.pop(old)
                self._note(old.parent, {old.name: None, new.name: self.live[new]})

    def remove(self, path: Path) -> None:
        with self.lock:
            self.meet()
            if self._keeps_notes:
                self.live[path].last = path.read_bytes()
            super().remove(path)
            if self._keeps_notes:
                del self.live[path]
                self._note(path.parent, {path.name: None})

    def remove_folder(self, path: Path) -> None:
        with self.lock:
            if path.exists():
                self.meet()
            super().remove_folder(path)

    def make_folder(self, path: Path, *, syncs: bool = True) -> None:
        with self.lock:
            if not path.exists():
                self.meet()
            super().make_folder(path, syncs=syncs)

    def sync_folder(self, path: Path) -> None:
        with self.lock:
            self.meet()
            if not self._keeps_notes or not path.is_relative_to(self.root):
                return
            self._kept.setdefault(path, {})
            self._survive(path, len(self._pending.get(path, ())))
            for entry in os.scandir(path):
                if entry.is_dir():
                    self._kept.setdefault(Path(entry.path), {})
            for folder in [known for known in self._kept if path in known.parents and not known.exists()]:
                self._kept.pop(folder)
                self._pending.pop(folder, None)

    def open_file_system(self, path: Path) -> FileSystem | None:
        return PowerFileSystem(self)

    def sync_all(self) -> None:
        if self._keeps_notes:
            for path, inode in self.live.items():
                inode.sync(path.read_bytes())
            for folder in (self.root, *(path for path in self.root.rglob("*") if path.is_dir())):
                self._kept.setdefault(folder, {})
                self._survive(folder, len(self._pending.get(folder, ())))

    def _note(self, folder: Path, names: dict[str, Inode | None]) -> None:
        self._pending.setdefault(folder, []).append(Change(names))

    def _survive(self, folder: Path, count: int) -> None:
        """The first `count` pending changes of a folder are on the disk now."""
        changes, kept = self._pending.get(folder, []), self._kept[folder]
        for change in changes[:count]:
            for name, inode in change.names.items():
                if inode is None:
                    kept.pop(name, None)
                else:
                    kept[name] = inode
        del changes[:count]

    # -- the cut

    def write_back(self, dice: random.Random, *, whole: Path | None = None) -> None:
        """What a kernel does when it likes to: some sectors of some file, or one `whole` file, reach the disk."""
        if self.live:
            path = whole or dice.choice(sorted(self.live))
            chance = 1 if whole else 0.5
            self.live[path].synced = _mix(self.live[path].synced, path.read_bytes(), chance, dice)

    def cut(self, dice: random.Random | None = None, *, chance: float | None = None) -> None:
        """Leave what a power cut may leave: everything that was synced, and every other sector and name with the same
        `chance` (None: drawn). Without `dice`, everything that was synced and nothing else.

        Then the machine boots. With `dice` it does so in half of the cases; in the others only the disk was away, and
        the same kernel mounts it again. The store must be killed or closed before.
        """
        self.kill()
        boots = True
        if dice is None:
            dice, chance = random.Random(0), 0.0
        else:
            foreseen = random.Random()
            foreseen.setstate(dice.getstate())
            boots = foreseen.random() < 0.5
        if chance is None:
            chance = dice.choice((0.0, 0.0, 0.5, 0.5, 0.9, 1.0))
        for folder, changes in sorted(self._pending.items(), key=_by_path):
            if folder in self._kept:
                count = round(chance) * len(changes) if chance in (0, 1) else dice.randint(0, len(changes))
                self._survive(folder, count)
        # A folder whose own name, or one above, was not synced goes with all that is in it.
        self._kept = {
            folder: names
            for folder, names in self._kept.items()
            if all(above in self._kept for above in folder.parents if above.is_relative_to(self.root))
        }
        names = {inode: path for path, inode in self.live.items()}
        left: dict[Path, bytes] = {}
        for folder, kept in sorted(self._kept.items(), key=_by_path):
            for name, inode in sorted(kept.items(), key=_by_path):
                now = names[inode].read_bytes() if inode in names else inode.last
                left[folder / name] = _mix(inode.synced, now, chance, dice)
        page = progress_path(self.root)
        if boots and len(left.get(page, b"")) >= PAGE.size:
            left[page] = left[page][: BOOT * 8] + ANOTHER_BOOT + left[page][BOOT * 8 + 8 :]
        self._leave(left)

    def _leave(self, left: dict[Path, bytes]) -> None:
        for path in self._files():
            if path not in left:
                path.unlink()
        for path, content in left.items():
            path.parent.mkdir(parents=True, exist_ok=True)  # a removed folder whose removal was not synced
            _set_content(path, content)
        for folder in sorted((f for f in self.root.rglob("*") if f.is_dir() and f not in self._kept), reverse=True):
            folder.rmdir()
        self.live = {path: Inode(content) for path, content in left.items()}
        self._pending.clear()
        self._kept = {folder: {} for folder in self._kept}
        for path, inode in self.live.items():
            self._kept[path.parent][path.name] = inode

    def _files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and path.name not in UNTOUCHED]


def _by_path(item: tuple[Path | str, object]) -> Path | str:
    """One order on every file system: a seed must mean one life."""
    return item[0]


def _set_content(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        with open(path, "r+b" if path.exists() else "wb") as file:  # never cut first: somebody may have it mapped
            file.write(content)
            file.truncate()


def _mix(synced: bytes, now: bytes, chance: float, dice: random.Random) -> bytes:
    """Sectors of both, those of `now` with a chance of `chance`; the length of one of them."""
    if synced == now or chance == 0:
        return synced
    if chance == 1:
        return now
    size = len(now) if dice.random() < chance else len(synced)
    old, new = synced.ljust(size, b"\0"), now.ljust(size, b"\0")
    sectors = [
        (new if dice.random() < chance else old)[at : min(at + SECTOR_SIZE, size)] for at in range(0, size, SECTOR_SIZE)
    ]
    return b"".join(sectors)
