"""The index files that RocketMQ wrote: read as it reads them, and made anew byte for byte from its logs."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flightlog.index.dispatch.build_entries import key_entries
from flightlog.index.key.index_check import check_index
from flightlog.index.key.index_file import IndexGeometry, IndexState, key_hash
from flightlog.index.key.index_folder import IndexFolder
from flightlog.index.key.index_geometry import find_index_geometry
from flightlog.index.key.key_entries import KeyEntries
from flightlog.index.key.key_index import KeyIndex
from flightlog.index.key.memory_keys import MemoryKeys
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import RealDisk
from flightlog.store.log.log_reader import LogReader
from flightlog.store.segments.log_files import list_log_files

SMALL, USUAL = IndexGeometry(100, 400), IndexGeometry(1000, 4000)
GEOMETRY = {"rollover": SMALL, "abort-reopen": SMALL, "minoffset": SMALL, "default-sizes": IndexGeometry()}
WITH_INDEX = (
    *("abort", "abort-crcflip", "abort-late", "abort-reopen", "abort-torn", "batch-bcq", "clean-crcflip", "cqext"),
    *("default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover", "v1-clean", "v2-v6"),
)
LIMIT = 64
"""RocketMQ answers no more than that many messages."""

Golden = Callable[[str], Path]


def folder_of(store: Path) -> IndexFolder:
    disk = RealDisk()
    geometry = find_index_geometry(disk, store)
    assert geometry is not None
    index = IndexFolder(disk, store, geometry)
    index.load()
    assert not index.unreadable and not index.strays and not index.begun
    return index


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keys_of_log(store: Path) -> Iterator[KeyEntries]:
    disk = RealDisk()
    reader = LogReader(disk, list_log_files(disk, store / "commitlog"))
    for segment in reader.segments:
        for piece, rows in reader.scan(segment, 0, segment.size, check_crc=False):
            yield key_entries(piece, rows)
    reader.close()


def same_bytes(one: Path, other: Path) -> bool:
    if one.stat().st_size < 1 << 20:
        return one.read_bytes() == other.read_bytes()
    return subprocess.run(["cmp", "-s", one, other], check=False).returncode == 0


@pytest.mark.parametrize("name", WITH_INDEX)
def test_geometry_is_found(name: str, golden: Golden) -> None:
    root = golden(name)
    for store in (root / "store", root / "store-after-java-open"):
        if store.exists():
            assert find_index_geometry(RealDisk(), store) == GEOMETRY.get(name, USUAL)


@pytest.mark.parametrize("name", ["abort-cqlag", "clean-cqlag"])
def test_no_geometry_without_files(name: str, golden: Golden) -> None:
    assert find_index_geometry(RealDisk(), golden(name) / "store") is None


@pytest.mark.parametrize("name", WITH_INDEX)
def test_every_key_of_the_manifest_is_found(name: str, golden: Golden) -> None:
    """Exactly the records whose keys have this hash, newest first; among them the two records of a collision."""
    root = golden(name)
    index = folder_of(root / "store")
    # Where older files have expired, keys of the first file's first record may have gone with them.
    first = index.headers[index.files[0].number].begin_physical_offset or -1
    expected: dict[int, list[int]] = defaultdict(list)
    for line in sorted(
        (
            line
            for file in ("manifest-1.jsonl", "manifest.jsonl")
            for line in lines(root / file)
            if "commitLogOffset" in line
        ),
        key=lambda line: int(line["commitLogOffset"]),
    ):
        if line["status"] != "PUT_OK" or line["commitLogOffset"] <= first or line["sysFlag"] & 0xC == 0xC:
            continue
        for key in (line["uniqKey"], *(line["keys"] or "").split(" ")):
            if key:
                expected[key_hash(line["topic"], key)].append(line["commitLogOffset"])
    assert len(expected) > 200
    for hash_, offsets in expected.items():
        found = [offset for offset in index.candidates(hash_) if offset > first]
        assert found == sorted(set(offsets), reverse=True)
        below = [offset for offset in index.candidates(hash_, below=found[0]) if offset > first]
        assert below == found[1:]
    assert list(index.candidates(key_hash("no such topic", "no such key"))) == []


@pytest.mark.parametrize("name", WITH_INDEX)
def test_queries_are_answered_as_by_rocketmq(name: str, golden: Golden) -> None:
    root = golden(name)
    store = root / "store-after-java-open"
    index = folder_of(store if store.exists() else root / "store")
    queries = [line for line in lines(root / "java-read.jsonl") if line["type"] == "query"]
    assert len(queries) > 400
    log_begin = list_log_files(RealDisk(), root / "store" / "commitlog").bases[0]
    for query in queries:
        found = [o for o in index.candidates(key_hash(query["topic"], query["key"])) if o >= log_begin]
        if len(query["offsets"]) < LIMIT:
            assert sorted(found) == sorted(set(query["offsets"])), query
        else:
            assert set(query["offsets"]) <= set(found)


@pytest.mark.parametrize("name", [name for name in WITH_INDEX if name not in ("minoffset", "abort-torn")])
def test_files_made_anew_are_rocketmqs_byte_for_byte(name: str, golden: Golden, tmp_path: Path) -> None:
    """Not of a log that has lost records: of one that expired, and of one whose last record was torn."""
    theirs = golden(name) / "store"
    index = KeyIndex(RealDisk(), tmp_path, GEOMETRY.get(name, USUAL), SystemClock())
    index.load()
    for keys in keys_of_log(theirs):
        index.put(keys)
    index.flush()
    index.close()
    expected, made = sorted((theirs / "index").iterdir()), sorted((tmp_path / "index").iterdir())
    assert len(expected) == len(made)
    for one, other in zip(expected, made, strict=True):
        assert same_bytes(one, other), one


@pytest.mark.parametrize("name", WITH_INDEX)
def test_every_file_is_sound(name: str, golden: Golden) -> None:
    """And where RocketMQ indexed the record at the border of two lives twice, that is counted and no damage."""
    root = golden(name)
    twice = {"abort-late": 2, "abort-reopen": 3}
    for store, expected in ((root / "store", 0), (root / "store-after-java-open", twice.get(name, 0))):
        if store.exists():
            checks = list(check_index(folder_of(store), 1 << 40))
            assert [check.problems for check in checks] == [[]] * len(checks) and checks
            assert sum(check.duplicates for check in checks) == expected


def test_headers_of_rolled_files(golden: Golden) -> None:
    index = folder_of(golden("rollover") / "store")
    headers = [index.headers[file.number] for file in index.files]
    assert len(headers) == 13
    assert [header.next_entry for header in headers] == [400] * 12 + [181]
    for before, after in itertools.pairwise(headers):
        # The keys of one record may lie in two files.
        assert before.end_physical_offset <= after.begin_physical_offset
        assert before.end_timestamp_ms <= after.begin_timestamp_ms
    assert index.last_physical_offset == headers[-1].end_physical_offset
    writer = KeyIndex(RealDisk(), golden("rollover") / "store", SMALL, SystemClock())
    writer.load()
    assert writer.full_timestamp_ms == headers[-2].end_timestamp_ms
    assert writer.state == IndexState(index.files[-1].number, 181)


@pytest.mark.parametrize("name", ["rollover", "abort-late", "v1-clean", "delay-tx"])
def test_time_ranges(name: str, golden: Golden) -> None:
    """No record within the range is missed, and none from far outside comes."""
    root = golden(name)
    index = folder_of(root / "store")
    everything = list(keys_of_log(root / "store"))
    times = {
        offset: time_ms
        for keys in everything
        for offset, time_ms in zip(keys.physical_offset.tolist(), keys.store_timestamp_ms.tolist(), strict=True)
    }
    begin, end = min(times.values()), max(times.values())
    hashes = {hash_ for keys in everything for hash_ in keys.key_hash.tolist()}
    step = (end - begin) // 7
    ranges = [(begin + i * step, begin + i * step + width) for i in range(7) for width in (0, step)]
    pruned = 0
    for hash_ in sorted(hashes)[:300]:
        offsets = list(index.candidates(hash_))
        for low, high in ranges:
            found = list(index.candidates(hash_, low, high))
            assert [o for o in offsets if low <= times[o] <= high] == [o for o in found if low <= times[o] <= high]
            pruned += len(offsets) - len(found)
        assert list(index.candidates(hash_, begin, end)) == list(index.candidates(hash_, begin)) == offsets
        assert not list(index.candidates(hash_, end + 3_700_000)) and not list(
            index.candidates(hash_, 0, begin - 3_700_000)
        )
    assert pruned > 0 or name != "abort-late"


@pytest.mark.parametrize("name", ["rollover", "abort-reopen", "v1-clean", "abort-late"])
def test_truncating_rocketmqs_files(name: str, golden: Golden, tmp_path: Path) -> None:
    """Back to half the log, and forward again: what is there is what RocketMQ wrote."""
    theirs = golden(name) / "store"
    shutil.copytree(theirs / "index", tmp_path / "index")
    geometry = GEOMETRY.get(name, USUAL)
    index = KeyIndex(RealDisk(), tmp_path, geometry, SystemClock())
    index.load()
    last = index.last_physical_offset
    assert last is not None
    for cut in (last * 2 // 3, last // 2, last // 9):
        assert index.truncate(cut)
        for hash_, offset in [
            (h, o)
            for keys in keys_of_log(theirs)
            for h, o in list(zip(keys.key_hash.tolist(), keys.physical_offset.tolist(), strict=True))[::50]
        ]:
            assert (offset in index.candidates(hash_)) == (offset < cut)
    for keys in keys_of_log(theirs):
        index.put(keys)
    index.flush()
    index.close()
    expected, made = sorted((theirs / "index").iterdir()), sorted((tmp_path / "index").iterdir())
    assert [path.read_bytes() for path in expected] == [path.read_bytes() for path in made]


def test_keys_in_memory_are_found_as_those_in_files(golden: Golden) -> None:
    store = golden("rollover") / "store"
    index, memory = folder_of(store), MemoryKeys()
    hashes = set()
    for keys in keys_of_log(store):
        memory.put(keys)
        hashes |= set(keys.key_hash.tolist())
    assert len(memory) == 12 * 399 + 180
    for hash_ in hashes:
        assert list(memory.candidates(hash_)) == list(index.candidates(hash_))
