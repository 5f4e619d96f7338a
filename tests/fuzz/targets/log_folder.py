"""Names and lengths of what lies in `commitlog/`. Lines of name and length."""

from __future__ import annotations

from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DamagedStoreError
from flightlog.store.segments.log_files import list_log_files
from flightlog.store.segments.segment import segment_name
from flightlog.tests.support import scratch

MOST_FILES = 12


def one(data: bytes) -> None:
    lengths: dict[str, int] = {}
    for line in data.splitlines()[:MOST_FILES]:
        name, _, length = line.decode("utf-8", "surrogateescape").rpartition(" ")
        if 0 < len(name.encode("utf-8", "surrogateescape")) < 200 and not set(name) & {"/", "\0"} and name.strip("."):
            digits = length if length.isascii() and length.isdigit() and len(length) < 14 else "0"
            lengths[f"commitlog/{name}"] = min(int(digits), 1 << 40)
    root = scratch.fill(dict.fromkeys(lengths, b""), lengths)
    found = list_log_files(RealDisk(), root / "commitlog", tolerant=True)
    assert found.bases == sorted(set(found.bases))
    assert not found.bases or found.segment_size
    for base in found.bases:
        assert base % (found.segment_size or 1) == 0 and base + (found.segment_size or 0) < 1 << 63
        assert lengths[f"commitlog/{found.path(base).name}"] == found.segment_size
    try:
        strict = list_log_files(RealDisk(), root / "commitlog")
    except DamagedStoreError:
        return
    assert strict.bases == found.bases and not found.notes


def seeds() -> list[bytes]:
    sound = [f"{segment_name(i * 4096)} 4096" for i in range(3)]
    odd = ["stray 7", f"{segment_name(3 * 4096)} 0", f"{segment_name(5 * 4096)} 4096", f"{'9' * 20} 4096"]
    highest = f"{10**20 // 4096 * 4096 - 4096} 4096"
    long = f"{segment_name(0)} {1 << 40}"
    return [each.encode() for each in (highest, long, "\n".join(sound), "\n".join(sound + odd))]
