"""Writes the small RocketMQ stores beside this file anew, or those named: `python tests/data/make.py [NAME ...]`.

Names are those of the archives here and in `rocksdb/`. With `--into FOLDER` they are written there, and what is in git
stays as it is.

Needs a JDK and Maven. The messages depend on the seeds below alone; store times, index file names and whatever follows
from them do not, so the archives are never the same bytes twice. Each is unpacked again and read by RocketMQ before it
takes its place.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flightlog.tests.interop.harness import Geometry, RocketMq

DATA = Path(__file__).resolve().parent
ROOT = DATA.parents[1]
DEMO_COPY = ROOT / "tools" / "data" / "rocketmq-5.3.3-orders.tar.xz"  # the clean store again, inside the wheel
ATOMIC_LIMIT_SIZE = 250_000  # bytes: they stay in the history for ever
DEMO_LIMIT_SIZE = 100_000
DEMO = "rocketmq-clean"
FEATURES = ("v2", "v6", "unicode", "empty", "noprops", "batch")
SIZES: Geometry = {"segment_size": 1 << 16, "queue_entries": 20, "index_slots": 100, "index_entries": 400}
TINY_INDEX: Geometry = {"index_slots": 10, "index_entries": 40}
PLAIN = {"topics": ("stock", "parcels"), "queues": 2, "body_max": 300, **SIZES, **TINY_INDEX}
VARIED = {"topics": ("stock", "parcels"), "body_max": 1200, "features": FEATURES, **SIZES}
SESSIONS: dict[str, list[dict[str, Any]]] = {
    "rocketmq-clean": [{**VARIED, "seed": 533, "count": 300, "orders": 40}],
    "rocketmq-halted": [{**VARIED, "seed": 534, "count": 220, "orders": 25, "halt": True, "lag": 14}],
    "rocketmq-collisions": [{**PLAIN, "seed": 535, "count": 90, "features": ("collide", "keys")}],
    "rocketmq-index-behind": [
        {**PLAIN, "seed": 536, "count": 50},
        {**PLAIN, "seed": 536, "first": 50, "count": 50},
    ],
    # The second session writes to one topic alone, so the torn record's entry stays in a queue of the other one.
    "rocketmq-phantoms": [
        {**PLAIN, "seed": 5, "count": 60, "halt": True},
        {**PLAIN, "seed": 5, "first": 60, "count": 20, "topics": ("parcels",)},
    ],
}

ROCKSDB_COUNT = 120
ROCKSDB = ("rocksdb/closed", "rocksdb/halted", "rocksdb/config")
ROCKSDB_NOTES = ("LOG", "OPTIONS-")
"""How the names of files begin that RocksDB does without: they hold paths, times and most of the bytes."""


def tear_last_record(folder: Path) -> None:
    """Zero its second half, as a power cut can; its queue entry is on disk already."""
    last = messages(folder / "manifest.jsonl")[-1]
    if last["topic"] != "stock":
        raise SystemExit(f"the torn record must not be of the topic that the second session writes to: {last}")
    torn, base = last["commitLogOffset"], last["commitLogOffset"] // (1 << 16) << 16
    zeroed_from = torn + last["size"] // 2
    with (folder / "store" / "commitlog" / f"{base:020d}").open("r+b") as segment:
        segment.seek(zeroed_from - base)
        segment.write(bytes(torn + last["size"] - zeroed_from))
    (folder / "torn.json").write_text(json.dumps({"tornMessageOffset": torn, "zeroedFrom": zeroed_from}) + "\n")


def keep_index(folder: Path) -> None:
    shutil.copytree(folder / "store" / "index", folder / "index-1")


def put_index_back(folder: Path) -> None:
    shutil.rmtree(folder / "store" / "index")
    (folder / "index-1").rename(folder / "store" / "index")


AFTER_SESSION: dict[tuple[str, int], Callable[[Path], None]] = {
    ("rocketmq-index-behind", 0): keep_index,
    ("rocketmq-index-behind", 1): put_index_back,
    ("rocketmq-phantoms", 0): tear_last_record,
}


def rocketmq() -> RocketMq:
    return RocketMq()


def messages(manifest: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, manifest.read_text(encoding="ascii").splitlines())
    return [line for line in lines if line["type"] == "msg"]


def pack(folder: Path, archive: Path, *, paths: list[Path] | None = None) -> None:
    """These paths; else what lies beside `store/` and then what is in it, by name. Owned by nobody in particular."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in paths or [*sorted(folder.glob("*.json*")), *sorted((folder / "store").rglob("*"))]:
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=anonymous)


def make(store: RocketMq, name: str, scratch: Path) -> Path:
    """Returns the finished archive in the scratch folder, after RocketMQ has read every message out of it."""
    folder, archive = scratch / name, scratch / f"{name}.tar.xz"
    folder.mkdir()
    manifest = folder / "manifest.jsonl"
    written: list[dict[str, Any]] = []
    for number, options in enumerate(SESSIONS[name]):
        if number > 0:
            manifest.rename(folder / f"manifest-{number}.jsonl")
        written += store.write_store(folder / "store", manifest=manifest, **options)
        if (name, number) in AFTER_SESSION:
            AFTER_SESSION[name, number](folder)
    is_torn = (folder / "torn.json").exists()
    pack(folder, archive)
    shutil.rmtree(folder)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    sizes = {size: SESSIONS[name][0][size] for size in SIZES}
    read = store.open_store(folder / "store", **sizes)
    there, wanted = ({message["rawSha1"] for message in found} for found in (read.messages, written))
    # Of a torn store the last message of the first session is gone, and its entry shows something else in its place.
    if (len(wanted - there), len(there) - len(wanted & there)) != ((1, 0) if is_torn else (0, 0)):
        raise SystemExit(f"{name}: RocketMQ reads {len(wanted & there)} of {len(wanted)} messages back")
    if len(read.messages) != len(written):
        raise SystemExit(f"{name}: RocketMQ reads {len(read.messages)} messages, {len(written)} were put")
    print(f"{archive.name}: {archive.stat().st_size:,} bytes, {len(written)} messages")
    return archive


def make_rocksdb(store: RocketMq, name: str, scratch: Path) -> Path:
    """Returns the finished archive in the scratch folder."""
    folder, archive = scratch / name, scratch / f"{name}.tar.xz"
    folder.mkdir(parents=True)
    if name == "rocksdb/config":
        (folder / "config").mkdir()
        store.write_rocksdb_config(folder / "config")
    else:
        store.write_rocksdb(folder / "store", count=ROCKSDB_COUNT, halt=name == "rocksdb/halted", **SIZES)
    in_rocksdb = {path.parent for path in folder.rglob("CURRENT")}
    if len(in_rocksdb) != (3 if name == "rocksdb/config" else 1):
        raise SystemExit(f"{name}: found RocksDB in {in_rocksdb}")
    notes = [path for path in folder.rglob("*") if path.parent in in_rocksdb and path.name.startswith(ROCKSDB_NOTES)]
    pack(folder, archive, paths=sorted(set(folder.rglob("*")) - set(notes)))
    print(f"{name}: {archive.stat().st_size:,} bytes")
    return archive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*SESSIONS, *ROCKSDB)))
    parser.add_argument("--into", type=Path, default=DATA, metavar="FOLDER")
    options = parser.parse_args()
    names, into = options.names or [*SESSIONS, *ROCKSDB], options.into
    if unknown := set(names) - {*SESSIONS, *ROCKSDB}:
        parser.error(f"no archive is called {', '.join(sorted(unknown))}")
    store = rocketmq()
    with tempfile.TemporaryDirectory(prefix="flightlog-data-") as scratch:
        archives = {name: (make_rocksdb if name in ROCKSDB else make)(store, name, Path(scratch)) for name in names}
        kept = [DATA / f"{name}.tar.xz" for name in (*SESSIONS, *ROCKSDB) if name not in names]
        together = sum(archive.stat().st_size for archive in [*archives.values(), *kept])
        if together > ATOMIC_LIMIT_SIZE:
            raise SystemExit(f"too large for the history: {together:,} bytes together")
        if DEMO in archives:
            if archives[DEMO].stat().st_size > DEMO_LIMIT_SIZE:
                raise SystemExit(f"{DEMO} is too large for the wheel: {archives[DEMO].stat().st_size:,} bytes")
            if into == DATA:
                DEMO_COPY.parent.mkdir(exist_ok=True)
                shutil.copyfile(archives[DEMO], DEMO_COPY)
        for name, archive in archives.items():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(archive, into / f"{name}.tar.xz")


if __name__ == "__main__":
    main()
