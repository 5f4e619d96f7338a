"""The key index of stores that RocketMQ wrote: what it found is found, what it lost is found too."""

from __future__ import annotations

import shutil
import struct
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message
from flightlog.engine.open.key_recovery import plan_keys
from flightlog.index.key.index_file import HEADER, HEADER_SIZE, IndexGeometry, key_hash
from flightlog.index.key.index_folder import IndexFolder
from flightlog.store.disk.disk import RealDisk
from flightlog.store.format.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet, ManualClock

    GetSet = Callable[[str], GoldenSet]
    GoldenCopy = Callable[[str], Path]

PARKED = flightlog.StoreSettings(deliver_delayed=False)
"""What waits in the sets goes on waiting."""

WRITABLE = (
    *("abort", "abort-cqlag", "abort-late", "abort-reopen", "abort-torn", "clean-cqlag", "clean-crcflip"),
    *("cqext", "default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover", "v1-clean", "v2-v6"),
)
READ_ONLY = ("abort-crcflip",)
WITHOUT_INDEX = ("abort-cqlag", "clean-cqlag")
SMALL_FILES = {"abort-late": 3, "abort-reopen": 7, "minoffset": 2, "rollover": 13}
"""Sets with more than one index file."""
TWICE = ("abort-late", "abort-reopen")
"""Sets in which RocketMQ, opening them after a halt, indexed the record at the border of its two lives again."""

Reading = flightlog.Store | flightlog.ReadOnlyStore


def damaged(golden: GoldenSet) -> set[int]:
    """Records that RocketMQ did not look at closely, or no longer has."""
    found: set[int] = set()
    for name, word in (("torn", "tornMessageOffset"), ("crcflip", "flippedMessageOffset")):
        if (golden.root / f"{name}.json").exists():
            found.add(golden.note(f"{name}.json")[word])
    return found


def keys_put(golden: GoldenSet, min_offset: int) -> dict[tuple[str, str], set[int]]:
    """(topic, key) -> physical offsets, of everything that was put, is still there and is to be found by keys."""
    expected: dict[tuple[str, str], set[int]] = defaultdict(set)
    gone = damaged(golden)
    for line in golden.put:
        offset = line["commitLogOffset"]
        if offset in gone or offset < min_offset or line["sysFlag"] & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            continue
        for key in (line["uniqKey"], *(line["properties"].get("KEYS") or "").split(" ")):
            if key:
                expected[line["topic"], key].add(offset)
    return expected


def answers(store: Reading, topic: str, key: str) -> list[int]:
    result = store.query(topic, key, max_count=1_000_000, on_corrupt="skip")
    assert not result.has_more
    offsets = [message.physical_offset for message in result.messages]
    assert offsets == sorted(set(offsets), reverse=True), "newest first, and each once"
    return offsets


def check(store: Reading, golden: GoldenSet, min_offset: int) -> int:
    """Every key of the manifest is found, and every query answered with at least what RocketMQ answered."""
    expected = keys_put(golden, min_offset)
    for (topic, key), offsets in expected.items():
        assert set(answers(store, topic, key)) == offsets, (topic, key)
    queries = [line for line in golden.java if line["type"] == "query"]
    for line in queries:
        missed = set(line["offsets"]) - set(answers(store, line["topic"], line["key"])) - damaged(golden)
        assert not missed, (line["topic"], line["key"], missed)
    return len(queries)


def bytes_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store / "index").glob("*") if path.stat().st_size < 1 << 20}


def first_offset(store: Path) -> int:
    return min(int(path.name) for path in (store / "commitlog").iterdir())


def index_findings(store: Path) -> list[Any]:
    with flightlog.open_read_only(store) as view:
        return [finding for finding in view.verify().findings if "index" in finding.path.parts]


@pytest.mark.ci
@pytest.mark.parametrize("name", WRITABLE + READ_ONLY)
def test_a_view_finds_what_rocketmq_found(name: str, golden_set: GetSet) -> None:
    golden = golden_set(name)
    with flightlog.open_read_only(golden.store) as view:
        assert check(view, golden, first_offset(golden.store)) > 400


@pytest.mark.ci
@pytest.mark.parametrize("part", ["store", "store-after-java-open"])
@pytest.mark.parametrize("name", WRITABLE)
def test_opened_for_writing(
    name: str,
    part: str,
    golden_set: GetSet,
    golden_copy: GoldenCopy,
    clock: ManualClock,
    assert_clean: AssertClean,
) -> None:
    golden = golden_set(name)
    if not (golden.root / part).exists():
        assert name == "default-sizes"
        return
    path = golden_copy(name) / part
    before, min_offset = bytes_of(path), first_offset(path)
    with flightlog.open(path, PARKED, clock=clock) as store:
        report = store.recovery_report
        assert check(store, golden, min_offset) > 400
        assert bytes_of(path).keys() >= before.keys() or name == "clean-cqlag"
        if name in WITHOUT_INDEX and part == "store":
            assert report.keys_scanned_from == 0 and "no index file" in report.keys_reason
        elif name == "clean-cqlag":
            assert report.keys_scanned_from == 0 and "a queue missed the record" in report.keys_reason
        elif name == "abort-torn" and part == "store":
            assert report.keys_put == 0 and "behind the log's end" in report.keys_reason
        else:
            assert 1 <= report.keys_put <= 8, "the keys of the last record alone"
            assert bytes_of(path) == before, "sound files were changed"
        store.put(Message("new-topic", b"new", keys=["new"], uniq_key="newest"))
        assert [message.body for message in store.query("new-topic", "new").messages] == [b"new"]
    if name != "clean-crcflip":
        assert_clean(path)
    assert index_findings(path) == []
    with flightlog.open(path, PARKED, clock=clock) as store:
        assert store.recovery_report.keys_put == 0
        assert check(store, golden, min_offset) > 400
        assert store.was_stored("newest")


@pytest.mark.parametrize("name", WRITABLE + READ_ONLY)
def test_what_verify_says_of_rocketmqs_index(name: str, golden_set: GetSet) -> None:
    """Nothing but the entries of a torn record that RocketMQ had indexed before it was torn."""
    golden = golden_set(name)
    findings = index_findings(golden.store)
    if name == "abort-torn":
        assert len(findings) == 1 and "log's end" in findings[0].meaning
        assert findings[0].mend.startswith("open the store for writing once")
    else:
        assert findings == []
    with flightlog.open_read_only(golden.store) as view:
        oddities = view.verify().oddities
    in_index = [oddity for oddity in oddities if "/index: " in oddity]
    assert [("no index file" in oddity) for oddity in in_index] == ([True] if name == "clean-cqlag" else [])


@pytest.mark.parametrize("name", sorted({*WRITABLE, *READ_ONLY} - {"default-sizes"}))
def test_what_verify_says_of_an_index_that_rocketmq_mended(name: str, golden_set: GetSet) -> None:
    """Keys that stand twice are an oddity; keys that it lost are a finding that names how."""
    golden = golden_set(name)
    with flightlog.open_read_only(golden.after_java) as view:
        report = view.verify()
    findings = [finding for finding in report.findings if "index" in finding.path.parts]
    in_index = [oddity for oddity in report.oddities if "/index: " in oddity]
    assert [("stand twice" in oddity) for oddity in in_index] == ([True] if name in TWICE else [])
    if name != "clean-cqlag":
        assert findings == []
        return
    (finding,) = findings
    assert "1140 keys of the log are in no index file: RocketMQ deletes index files" in finding.meaning
    assert "open the store for writing once" in finding.mend


@pytest.mark.parametrize("which", ["the oldest", "one in the middle", "the newest", "all but the oldest"])
@pytest.mark.parametrize("name", SMALL_FILES)
def test_index_files_that_rocketmq_lost(
    name: str, which: str, golden_set: GetSet, golden_copy: GoldenCopy, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """After an unclean exit it deletes what its checkpoint does not cover, and begins further on. What is sound before
    the hole is kept, the rest is made anew."""
    golden, path = golden_set(name), golden_copy(name) / "store"
    files = sorted((path / "index").iterdir())
    assert len(files) == SMALL_FILES[name]
    lost = {
        "the oldest": files[:1],
        "one in the middle": files[len(files) // 2 : len(files) // 2 + 1],
        "the newest": files[-1:],
        "all but the oldest": files[1:],
    }[which]
    kept = files[: files.index(lost[0])]
    before = {file.name: file.read_bytes() for file in kept}
    for file in lost:
        file.unlink()
    with flightlog.open_read_only(path) as view:
        check(view, golden, first_offset(path))
    with flightlog.open(path, clock=clock) as store:
        check(store, golden, first_offset(path))
        full = [name for name in before if name != kept[-1].name]
        now = bytes_of(path)
        assert all(now[name] == before[name] for name in full)
        assert store.recovery_report.keys_put > 8
    assert_clean(path)


@pytest.mark.parametrize("damage", ["cut short", "header", "entries", "another log's"])
def test_index_files_that_are_damaged(
    damage: str, golden_set: GetSet, golden_copy: GoldenCopy, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """After a halt every file that RocketMQ's checkpoint does not cover is looked at entry by entry."""
    golden, path = golden_set("abort-reopen"), golden_copy("abort-reopen") / "store"
    file = sorted((path / "index").iterdir())[-1 if damage == "entries" else -2]
    raw = bytearray(file.read_bytes())
    if damage == "cut short":
        del raw[-100:]
    elif damage == "header":
        raw[:40] = b"\x5a" * 40
    elif damage == "entries":
        raw[1000:2000] = b"\x5a" * 1000
    else:
        other = golden_set("rollover").store / "index"
        raw = bytearray(sorted(other.iterdir())[2].read_bytes())
    file.write_bytes(raw)
    with flightlog.open_read_only(path) as view:
        check(view, golden, 0)
    assert index_findings(path), "verify says nothing"
    with flightlog.open(path, clock=clock) as store:
        assert store.recovery_report.keys_put > 8
        check(store, golden, 0)
    assert_clean(path)


@pytest.mark.parametrize("place", ["the log's first record", "the log's end"])
def test_what_the_border_entries_of_an_index_file_say(
    place: str, golden_set: GetSet, golden_copy: GoldenCopy, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """The first and the last entry of each file are held against their records, the log's first among them. An entry of
    a record behind the log's last one says nothing of the file."""
    golden, path = golden_set("rollover"), golden_copy("rollover") / "store"
    geometry = IndexGeometry(golden.spec("slots"), golden.spec("idx"))
    files = sorted((path / "index").iterdir())
    with flightlog.open_read_only(path) as view:
        first, end = view.min_physical_offset, view.end_physical_offset
        file = files[0] if place == "the log's first record" else files[-1]
        raw = bytearray(file.read_bytes())
        (next_entry,) = struct.unpack_from(">i", raw, 36)
        if place == "the log's first record":
            position = geometry.entry_position(1)
            assert struct.unpack_from(">q", raw, 16) == struct.unpack_from(">q", raw, position + 4) == (first,)
            struct.pack_into(">i", raw, position, 0x01020304)
            expected = f"{file}: its entry 1 has a key that the record at {first} does not have"
        else:
            struct.pack_into(">q", raw, 24, end)
            struct.pack_into(">i", raw, 36, next_entry + 1)
            struct.pack_into(">iqii", raw, geometry.entry_position(next_entry), 0x01020304, end, 0, 0)
            expected = f"{file} knows records behind the log's end"
        file.write_bytes(raw)
        index = IndexFolder(RealDisk(), path, geometry)
        index.load()
        plan = plan_keys(view.log_reader, index, view.shutdown_state, end, None, is_live=False)
        assert (plan.reason, plan.resume) == (expected, first if file == files[0] else end)
        index.release()
    with flightlog.open(path, clock=clock) as store:
        check(store, golden, first)
    assert_clean(path)


def test_a_session_without_a_key_index_forgets_nothing(
    golden_set: GetSet, golden_copy: GoldenCopy, clock: ManualClock, assert_clean: AssertClean
) -> None:
    golden, path = golden_set("rollover"), golden_copy("rollover") / "store"
    with flightlog.open(path, flightlog.StoreSettings(key_index=False), clock=clock) as store:
        store.put(Message("new-topic", b"new", keys=["new"]))
    with flightlog.open_read_only(path) as view:
        check(view, golden, 0)
        assert len(view.query("new-topic", "new").messages) == 1
    with flightlog.open(path, clock=clock) as store:
        check(store, golden, 0)
        assert len(store.query("new-topic", "new").messages) == 1
    assert_clean(path)


def test_a_store_that_rocketmq_took_back(
    golden_copy: GoldenCopy, golden_set: GetSet, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """Our progress page speaks of files that another program has since removed: it is not believed."""
    golden, path = golden_set("rollover"), golden_copy("rollover")
    with flightlog.open(path / "store", clock=clock):
        pass
    ours, theirs = path / "store", path / "store-after-java-open"
    shutil.copytree(ours / "flightlog", theirs / "flightlog")
    sorted((theirs / "index").iterdir())[4].unlink()
    with flightlog.open(theirs, clock=clock) as store:
        assert store.recovery_report.last_writer.name == "ROCKETMQ_CLOSED"
        check(store, golden, 0)
    assert_clean(theirs)


@pytest.mark.parametrize(("tag", "is_clean"), [("paid", True), ("other", False)])
def test_an_entry_of_a_tag_as_rocketmq_5_5_adds_it_is_not_stale(tag: str, is_clean: bool, tmp_path: Path) -> None:
    """Seen with its 5.5.0: the check points on its timer topic have tags."""
    settings = flightlog.StoreSettings.small()
    with flightlog.open(tmp_path, settings) as store:
        store.put(Message("orders", b"x", tags="paid", keys="k"))
    [file] = (tmp_path / "index").iterdir()
    hashed = key_hash("orders", f"T#{tag}")
    slots = settings.index_slots
    assert slots is not None
    slot = HEADER_SIZE + 4 * (hashed % slots)
    with file.open("r+b") as index:
        header = HEADER.unpack(index.read(HEADER_SIZE))
        number = header[5]
        index.seek(slot)
        [previous] = struct.unpack(">i", index.read(4))
        index.seek(slot)
        index.write(struct.pack(">i", number))
        index.seek(HEADER_SIZE + 4 * slots + 20 * number)
        index.write(struct.pack(">iqii", hashed, header[2], 0, previous))
        index.seek(0)
        index.write(HEADER.pack(*header[:4], header[4] + (previous == 0), number + 1))
    with flightlog.open_read_only(tmp_path) as view:
        report = view.verify()
    assert report.is_clean is is_clean, report.findings
    assert is_clean or "no record stands for" in report.findings[0].meaning
