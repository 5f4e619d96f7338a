"""Copies of the golden stores, opened for writing: nothing is lost, torn bytes are kept aside, corrupt middles
refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.open import recovery
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.store.errors import CorruptLogError, UnsupportedStoreError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint, GoldenSet, ManualClock

    GetSet = Callable[[str], GoldenSet]
    Described = Callable[[Any], dict[str, Any]]

WRITABLE = (
    *(
        "abort",
        "abort-cqlag",
        "abort-late",
        "abort-reopen",
        "abort-torn",
        "batch-bcq",
        "clean-cqlag",
        "default-sizes",
        "delay-tx",
    ),
    *("cqext", "lmq", "minoffset", "preblank", "propcrc", "rollover", "v1-clean", "v2-v6"),
)


def new_messages(golden: GoldenSet) -> list[Message]:
    """A hundred: into a queue that is there, and into a new topic."""
    topic, queue_id = max(key for key in golden.put_bounds if len(key[0].encode()) <= 127)
    return [
        Message(topic, b"after %d" % i, tags="New", keys=f"new-{i}", queue_id=queue_id)
        if i % 2
        else Message("new-topic", b"after %d" % i, queue_id=i % 3)
        for i in range(100)
    ]


def stored(golden: GoldenSet) -> list[dict[str, Any]]:
    """What was put, lies in the log's present files, and is listed in a queue: once for every queue that lists it."""
    first_kept = min(int(path.name) for path in (golden.store / "commitlog").iterdir())
    torn = golden.note("torn.json")["tornMessageOffset"] if (golden.root / "torn.json").exists() else None
    lines = [m for m in golden.put if m["commitLogOffset"] >= first_kept and m["commitLogOffset"] != torn]
    listed = [m for m in lines if m["sysFlag"] & 0xC in (0, 8)]
    light = [m["properties"].get("INNER_MULTI_DISPATCH", "") for m in listed]
    return [
        m for m, names in zip(listed, light, strict=True) for _ in ("its own queue", *filter(None, names.split(",")))
    ]


@pytest.mark.parametrize(
    ("part", "flush_mode"), [("store", FlushMode.ASYNC), ("store-after-java-open", FlushMode.SYNC)]
)
@pytest.mark.parametrize("name", WRITABLE)
def test_old_and_new_messages(
    name: str,
    part: str,
    flush_mode: FlushMode,
    golden_set: GetSet,
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    describe: Described,
    described: Described,
    read_all: Callable[..., Any],
    records_of: Callable[..., Any],
    assert_clean: AssertClean,
) -> None:
    golden, path = golden_set(name), golden_copy(name) / part
    if not path.exists():
        assert name == "default-sizes"
        return
    expected = [described(line) for line in stored(golden)]
    settings = StoreSettings(flush_mode=flush_mode, allocate_step_size=1 << 20, deliver_delayed=False)
    with flightlog.open(path, settings, clock=clock) as store:
        before = store.queues()
        old = sorted((m for ms in read_all(store).values() for m in ms), key=lambda m: m.physical_offset)
        assert [describe(m) for m in records_of(store, old)] == expected
        if part == "store":
            read_by_java = {m["commitLogOffset"] for m in golden.java_read.values()}
            assert read_by_java <= {m.physical_offset for m in old}
        messages = new_messages(golden)
        results = store.put_many(messages[:50]) + [store.put(m) for m in messages[50:]]
    assert_clean(path)

    with flightlog.open(path, settings, clock=clock) as store:
        assert store.recovery_report.last_writer is LastWriter.FLIGHTLOG_CLOSED
        assert store.recovery_report.records_scanned == 0
        everything = read_all(store)
        again = sorted((m for ms in everything.values() for m in ms), key=lambda m: m.physical_offset)
        assert [describe(m) for m in records_of(store, again[: len(old)])] == expected
        assert [m.body for m in again[len(old) :]] == [m.body for m in messages]
        assert [(m.topic, m.queue_id, m.queue_offset) for m in again[len(old) :]] == [
            (r.topic, r.queue_id, r.queue_offset) for r in results
        ]
        assert [m.message_id for m in again[len(old) :]] == [r.message_id for r in results]
        for key, (first, end) in store.queues().items():
            old_first, old_end = before.get(key, (0, 0))
            assert first == old_first
            assert end == old_end + sum((r.topic, r.queue_id) == key for r in results)
    assert_clean(path)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", ["abort", "abort-cqlag", "abort-late", "abort-reopen", "abort-torn"])
def test_a_halted_store_is_recovered_once(
    name: str,
    golden_set: GetSet,
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    monkeypatch.setattr(recovery, "ROCKETMQ_QUEUES_LAG_MS", 0)  # these stores lived for less than two minutes
    golden, path = golden_set(name), golden_copy(name) / "store"
    with flightlog.open(path, clock=clock) as store:
        report = store.recovery_report
        assert report.last_writer is LastWriter.ROCKETMQ_KILLED
        last = stored(golden)[-1]
        assert report.end == last["commitLogOffset"] + last["size"]
        if name == "abort-cqlag":
            assert report.entries_dispatched == golden.note("cqlag.json")["entriesZeroed"]
        if name == "abort-late":
            assert report.scanned_from > 0
        assert bool(report.cut) == (name == "abort-torn")
    assert not (path / "abort").exists()
    assert_clean(path)


def test_torn_bytes_are_kept_and_the_tail_is_zeroed(
    golden_set: GetSet, golden_copy: Callable[[str], Path], clock: ManualClock, assert_clean: AssertClean
) -> None:
    golden, path = golden_set("abort-torn"), golden_copy("abort-torn") / "store"
    torn = golden.note("torn.json")
    segment = path / "commitlog" / f"{0:020d}"
    original = segment.read_bytes()
    start = torn["tornMessageOffset"]
    removed = original[start:].rstrip(b"\0")
    assert removed and start + len(removed) <= torn["zeroedFrom"]
    with flightlog.open(path, clock=clock) as store:
        assert store.recovery_report.end == start
        cut, removed_segment = store.recovery_report.cut
        kept = path / "flightlog" / f"cut-{start:020d}"
        assert str(kept) in cut and f"cut {len(removed)} bytes" in cut
        assert f"{262_144:020d}" in removed_segment  # an empty one, which the halted writer had prepared
        assert not (path / "commitlog" / f"{262_144:020d}").exists()
        assert kept.read_bytes() == removed
        now = segment.read_bytes()
        assert now[:start] == original[:start]
        assert now[start:] == bytes(len(original) - start)
    assert_clean(path)


def test_records_that_rocketmq_threw_away_do_not_come_back(
    golden_set: GetSet, golden_copy: Callable[[str], Path], clock: ManualClock, assert_clean: AssertClean
) -> None:
    """Its recovery of abort-crcflip left them behind the end, intact, with queue entries that point at them."""
    golden, path = golden_set("abort-crcflip"), golden_copy("abort-crcflip") / "store-after-java-open"
    end = golden.note("crcflip.json")["flippedMessageOffset"]
    segment = path / "commitlog" / f"{262_144:020d}"
    original = segment.read_bytes()
    with flightlog.open(path, clock=clock) as store:
        assert store.recovery_report.end == end
        kept = path / "flightlog" / f"cut-{end:020d}"
        assert kept.read_bytes() == original[end - 262_144 :].rstrip(b"\0")
        assert store.queues() == golden.java_bounds
        assert sum(1 for key in store.queues() for _ in store.read(*key)) == 761
        result = store.put(Message("T116_0", b"next"))
        assert result.physical_offset == end
        assert result.queue_offset == golden.java_bounds["T116_0", 0][1]
    assert_clean(path)


@pytest.mark.usefixtures("kernel")
def test_corrupt_middle_is_refused(
    golden_set: GetSet,
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    fingerprint: Callable[[Path], Fingerprint],
) -> None:
    golden, path = golden_set("abort-crcflip"), golden_copy("abort-crcflip") / "store"
    flipped = golden.note("crcflip.json")["flippedMessageOffset"]
    before = fingerprint(path)
    for _ in range(2):  # the refusal leaves the lock free, and nothing that a second try would stumble over
        with pytest.raises(CorruptLogError) as raised:
            flightlog.open(path, clock=clock)
    error = raised.value
    assert error.path == path / "commitlog" / f"{262_144:020d}"
    assert error.physical_offset == flipped
    assert error.records_behind == 190 == sum(m["commitLogOffset"] > flipped for m in golden.put)
    text = str(error)
    for words in (str(error.path), str(flipped), "190 intact records", "Nothing was changed", "open_read_only"):
        assert words in text
    assert fingerprint(path) == before


def test_flipped_byte_far_behind_does_not_hinder_a_writer(
    golden_set: GetSet, golden_copy: Callable[[str], Path], clock: ManualClock
) -> None:
    """A cleanly closed store is not scanned: the damage is met by whoever reads the message, and by verify."""
    golden, path = golden_set("clean-crcflip"), golden_copy("clean-crcflip") / "store"
    flipped = golden.note("crcflip.json")["flippedMessageOffset"]
    with flightlog.open(path, clock=clock) as store:
        store.put_many(new_messages(golden))
        assert sum(1 for key in store.queues() for _ in store.read(*key, on_corrupt="skip")) == 399 + 100
        assert store.corrupt_skipped == 1
    with flightlog.open_read_only(path) as view:
        assert [f.offset for f in view.verify().findings] == [flipped]


def test_what_flightlog_cannot_write_beside_is_refused(
    golden_copy: Callable[[str], Path], clock: ManualClock, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    path = golden_copy("v1-clean") / "store"
    (path / "compaction" / "compactionLog" / "topic").mkdir(parents=True)
    before = fingerprint(path)
    with pytest.raises(UnsupportedStoreError) as raised:
        flightlog.open(path, clock=clock)
    assert "compacted topics" in raised.value.feature and "open_read_only" in str(raised.value)
    assert fingerprint(path) == before
