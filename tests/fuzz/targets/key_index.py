"""The key index: two files with anything in them, searched, checked, and opened for writing as after a crash."""

from __future__ import annotations

from flightlog.index.key.index_check import check_index
from flightlog.index.key.index_file import IndexGeometry, IndexState
from flightlog.index.key.index_folder import IndexFolder
from flightlog.index.key.index_geometry import find_index_geometry
from flightlog.index.key.key_index import KeyIndex
from flightlog.tests.support import limited_disk, plain_index, scratch

limited = limited_disk
plain = plain_index

GEOMETRY = IndexGeometry(7, 28)
NAMES = (20231114221320000, 20231114221320001)
HASHES = (0, 1, 2, 7, 8, (1 << 31) - 1)
BEGIN_MS = 1_700_000_000_000


def one(data: bytes) -> None:
    """A byte that says where to rewind to, then the files."""
    first, *parts = scratch.split(data, 3)
    at = first[0] if first else 0
    files = {f"index/{name}": part[: GEOMETRY.file_size] for name, part in zip(NAMES, parts, strict=True) if part}
    root = scratch.fill(files, {} if at & 0x80 else dict.fromkeys(files, GEOMETRY.file_size))
    disk = limited.LimitedDisk(5000, 1 << 22, 1 << 16)
    found = find_index_geometry(disk, root)
    if found is not None:
        assert found.file_size in {(root / name).stat().st_size for name in files}
        _read(IndexFolder(disk, root, found))
    index = IndexFolder(disk, root, GEOMETRY)
    _read(index)
    for check in check_index(index, 10_000):
        assert check.duplicates >= 0
    _rewind(KeyIndex(disk, root, GEOMETRY, plain.StillClock()), at & 0x7F)


def _read(index: IndexFolder) -> None:
    index.load()
    entries = sum(file.geometry.entries for file in index.files)
    for key_hash in HASHES:
        for begin_ms, end_ms in ((0, None), (BEGIN_MS, BEGIN_MS + 1_000_000), (0, 5)):
            found = list(index.candidates(key_hash, begin_ms, end_ms))
            assert len(found) <= entries and all(offset >= 0 for offset in found)
    assert sum(len(piece) for piece in index.entries(55)) <= entries


def _rewind(index: KeyIndex, next_entry: int) -> None:
    index.load()
    if not index.rewind(IndexState(NAMES[0], next_entry)) or not index.truncate(1 << 40):
        index.clear()
    keys = plain.key_entries_of([plain.Key(5, 1 << 41, BEGIN_MS), plain.Key(12, 1 << 41, BEGIN_MS)])
    index.put(keys)
    index.flush()
    assert 1 << 41 in list(index.candidates(5, 0, None)) and 1 << 41 in list(index.candidates(12, 0, None))
    index.close()


def seeds() -> list[bytes]:
    keys = [plain.Key(HASHES[i % len(HASHES)], 10 * (i // 2), BEGIN_MS + i * 777) for i in range(45)]
    sound = [bytes(file) for file in plain.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, keys).files]
    short = [bytes(file) for file in plain.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, keys[:9]).files]
    odd = [bytes(file) for file in plain.PlainIndex(3, 25, keys[:20]).files]
    return [
        scratch.join(b"\x08", *sound),
        scratch.join(b"\x04", short[0], b""),
        scratch.join(b"\x0a", short[0], sound[1]),
        scratch.join(b"\x80", odd[0], b""),
    ]
