"""Writes the small RocketMQ stores beside this file anew: `python tests/data/make.py`. Needs a JDK and Maven.

The messages depend on the seeds below alone; store times, index file names and whatever follows from them do not, so
the archives are never the same bytes twice. Each is unpacked again and read by RocketMQ before it takes its place.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.interop.harness import Geometry, RocketMq

DATA = Path(__file__).resolve().parent
ROOT = DATA.parents[1]
DEMO_COPY = ROOT / "tools" / "data" / "rocketmq-5.3.3-orders.tar.xz"  # the clean store again, inside the wheel
TOGETHER_LIMIT_SIZE = 200_000  # bytes: they stay in the history for ever
DEMO_LIMIT_SIZE = 100_000
FEATURES = ("v2", "v6", "unicode", "empty", "noprops", "batch")
SIZES: Geometry = {"segment_size": 1 << 16, "queue_entries": 20, "index_slots": 100, "index_entries": 400}
STORES: dict[str, dict[str, Any]] = {
    "rocketmq-clean": {"seed": 533, "count": 300, "orders": 40, "topics": ("stock", "parcels"), "body_max": 1200},
    "rocketmq-halted": {
        "seed": 534, "count": 220, "orders": 25, "topics": ("stock", "parcels"), "body_max": 1200,
        "halt": True, "lag": 14,
    },
}  # fmt: skip


def rocketmq() -> RocketMq:
    spec = importlib.util.spec_from_file_location("flightlog_interop_harness", DATA.parent / "interop" / "harness.py")
    assert spec is not None and spec.loader is not None
    harness = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = harness
    spec.loader.exec_module(harness)
    found: RocketMq = harness.RocketMq()
    return found


def pack(folder: Path, archive: Path) -> None:
    """`manifest.jsonl` and `store/`, in name order, owned by nobody in particular."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in [folder / "manifest.jsonl", *sorted((folder / "store").rglob("*"))]:
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=anonymous)


def make(store: RocketMq, name: str, scratch: Path) -> Path:
    """Returns the finished archive in the scratch folder, after RocketMQ has read every message out of it."""
    folder, archive = scratch / name, scratch / f"{name}.tar.xz"
    folder.mkdir()
    written = store.write_store(
        folder / "store", manifest=folder / "manifest.jsonl", features=FEATURES, **SIZES, **STORES[name]
    )
    pack(folder, archive)
    shutil.rmtree(folder)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    read = store.open_store(folder / "store", **SIZES)
    if sorted(m["rawSha1"] for m in read.messages) != sorted(m["rawSha1"] for m in written):
        raise SystemExit(f"{name}: RocketMQ reads {len(read.messages)} of {len(written)} messages back")
    print(f"{archive.name}: {archive.stat().st_size:,} bytes, {len(written)} messages")
    return archive


def main() -> None:
    store = rocketmq()
    with tempfile.TemporaryDirectory(prefix="flightlog-data-") as scratch:
        archives = [make(store, name, Path(scratch)) for name in STORES]
        together = sum(archive.stat().st_size for archive in archives)
        if together > TOGETHER_LIMIT_SIZE or archives[0].stat().st_size > DEMO_LIMIT_SIZE:
            raise SystemExit(f"too large for the history: {together:,} bytes together")
        for archive in archives:
            shutil.copyfile(archive, DATA / archive.name)
        DEMO_COPY.parent.mkdir(exist_ok=True)
        shutil.copyfile(archives[0], DEMO_COPY)


if __name__ == "__main__":
    main()
