"""What RocketMQ's own ways leave in a store: lagging and lost entries, phantoms, keys twice, equal hashes.

flightlog has everything that was put, and verify tells what is a defect and what is RocketMQ's habit.
"""

from __future__ import annotations

import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import GetStatus, Message, ReadOnlyStore, Store
from flightlog.store.format.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK, has_queue_entry

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet, ManualClock

    GetSet = Callable[[str], GoldenSet]
    Line = dict[str, Any]

DATA = Path(__file__).resolve().parents[1] / "data"
MANY = 1_000_000


@pytest.fixture
def committed(tmp_path: Path) -> Callable[[str], Path]:
    """`committed("phantoms")` is the folder of that small store, for this test alone."""

    def unpack(name: str) -> Path:
        with tarfile.open(DATA / f"rocketmq-{name}.tar.xz") as tar:
            tar.extractall(tmp_path / name)
        return tmp_path / name

    return unpack


@pytest.fixture
def small(committed: Callable[[str], Path], golden_type: type[GoldenSet]) -> Callable[[str], GoldenSet]:
    """`small("phantoms")`: the same as a set with its manifest."""
    return lambda name: golden_type(committed(name))


def by_key(lines: Iterable[Line]) -> dict[tuple[str, str], list[int]]:
    """(topic, key) -> physical offsets of the messages that have it, newest first."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: -int(line["commitLogOffset"])):
        if line["sysFlag"] & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            for key in {line["uniqKey"], *(line["keys"] or "").split(" ")} - {None, ""}:
                found[line["topic"], key].append(line["commitLogOffset"])
    return dict(found)


def check_everything(store: Store | ReadOnlyStore, lines: list[Line]) -> None:
    """Every queue from its first message to its last, and every key."""
    queues: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: int(line["commitLogOffset"])):
        if has_queue_entry(line["sysFlag"]):
            queues[line["topic"], line["queueId"]].append((line["queueOffset"], line["commitLogOffset"]))
    assert store.queues() == {queue: (found[0][0], found[-1][0] + 1) for queue, found in queues.items()}
    for queue, found in queues.items():
        assert [(m.queue_offset, m.physical_offset) for m in store.read(*queue)] == found
    for (topic, key), offsets in by_key(lines).items():
        answer = store.query(topic, key, max_count=MANY)
        assert [m.physical_offset for m in answer.messages] == offsets and not answer.has_more, (topic, key)


def check_both_ways(
    path: Path, lines: list[Line], clock: ManualClock, assert_clean: AssertClean, *, next_offset: int | None = None
) -> None:
    """Read-only, for writing, with something added, and once more read-only."""
    with flightlog.open_read_only(path) as view:
        check_everything(view, lines)
    with flightlog.open(path, clock=clock) as store:
        check_everything(store, lines)
        result = store.put(Message("added", b"x", keys="added"))
        assert next_offset is None or result.physical_offset == next_offset
    assert_clean(path)
    with flightlog.open_read_only(path) as view:
        (added,) = view.query("added", "added").messages
        line = {"commitLogOffset": added.physical_offset, "topic": "added", "queueId": 0, "queueOffset": 0}
        check_everything(view, [*lines, {**line, "sysFlag": 0, "uniqKey": None, "keys": "added"}])


@pytest.mark.ci
@pytest.mark.parametrize("part", ["store", "store-after-java-open"])
@pytest.mark.parametrize(("name", "count"), [("abort-late", 5321), ("clean-cqlag", 926), ("abort-reopen", 1315)])
def test_every_message_and_key_of_the_manifest(
    name: str,
    count: int,
    part: str,
    golden_set: GetSet,
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    assert_clean: AssertClean,
) -> None:
    """Also where RocketMQ has been in between and lost some for good."""
    lines = golden_set(name).put
    assert sum(has_queue_entry(line["sysFlag"]) for line in lines) == count
    check_both_ways(golden_copy(name) / part, lines, clock, assert_clean)


def left_behind(cut: list[int], golden: GoldenSet) -> int:
    """How many of these consecutive queue offsets RocketMQ leaves on disk: it deletes queue files that begin with one
    of them, and no more."""
    a_file = golden.spec("cqBytes") // 20
    file_end = -(-cut[0] // a_file) * a_file
    return sum(queue_offset < file_end for queue_offset in cut)


@pytest.mark.parametrize(("name", "note"), [("abort-torn", "torn.json"), ("abort-crcflip", "crcflip.json")])
def test_phantom_entries_that_rocketmq_left(
    name: str,
    note: str,
    golden_set: GetSet,
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    assert_clean: AssertClean,
) -> None:
    """It cut the log in memory alone; the entries of what it cut are in its queues still."""
    golden, path = golden_set(name), golden_copy(name) / "store-after-java-open"
    end = golden.note(note)["tornMessageOffset" if name == "abort-torn" else "flippedMessageOffset"]
    kept = [line for line in golden.put if line["commitLogOffset"] < end]
    cut = [line for line in golden.put if line["commitLogOffset"] >= end]
    with flightlog.open_read_only(path) as view:
        findings = [finding for finding in view.verify().findings if "phantom" in finding.meaning]
        found = {(f.path.parent.name, int(f.path.name)): (f.offset, int(f.meaning.split()[0])) for f in findings}
    expected: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in filter(lambda line: has_queue_entry(line["sysFlag"]), cut):
        expected[line["topic"], line["queueId"]].append(line["queueOffset"])
    assert found == {queue: (offsets[0], left_behind(offsets, golden)) for queue, offsets in expected.items()}
    check_both_ways(path, kept, clock, assert_clean, next_offset=end)


def test_a_phantom_that_later_messages_lie_over(small: GetSet, clock: ManualClock, assert_clean: AssertClean) -> None:
    """RocketMQ shows 80 messages here: the entry of a record that it cut points into those of another topic."""
    golden = small("phantoms")
    torn = golden.note("torn.json")["tornMessageOffset"]
    lines = [line for line in golden.put if line["commitLogOffset"] != torn or line["topic"] == "parcels"]
    assert len(lines) == 79
    with flightlog.open_read_only(golden.store) as view:
        (finding,) = view.verify().findings
        end = view.queues()["stock", 0][1]
        assert view.get("stock", 0, end).status is GetStatus.OFFSET_OVERFLOW_ONE
    assert finding.path == golden.store / "consumequeue" / "stock" / "0"
    assert finding.offset == end and finding.meaning.startswith("1 phantom")
    check_both_ways(golden.store, lines, clock, assert_clean)


def test_an_index_that_was_left_behind(small: GetSet, clock: ManualClock, assert_clean: AssertClean) -> None:
    golden = small("index-behind")
    behind = by_key(golden.put[50:])
    with flightlog.open_read_only(golden.store) as view:
        (finding,) = view.verify().findings
    assert finding.path == golden.store / "index"
    assert finding.meaning.startswith(f"{sum(map(len, behind.values()))} keys of the log are in no index file")
    check_both_ways(golden.store, golden.put, clock, assert_clean)


def test_keys_with_one_hash(small: GetSet, clock: ManualClock, assert_clean: AssertClean) -> None:
    """`Aa` and `BB`, and what is made of two of them: the index cannot tell them apart, the messages can."""
    golden = small("collisions")
    known = by_key(golden.put)
    colliding = [(topic, key) for topic, key in known if set(key) <= {"A", "a", "B"}]
    assert len(colliding) >= 8
    check_both_ways(golden.store, golden.put, clock, assert_clean)
    with flightlog.open_read_only(golden.store) as view:
        for topic, key in colliding:
            assert all(key in message.keys for message in view.query(topic, key, max_count=MANY).messages)
            newest = view.query(topic, key, max_count=1)
            assert [m.physical_offset for m in newest.messages] == known[topic, key][:1]
            assert newest.has_more == (len(known[topic, key]) > 1)


def test_tags_with_one_hash(small: GetSet) -> None:
    golden = small("collisions")
    with flightlog.open_read_only(golden.store) as view:
        for tags in ("Aa", "BB", "Aa || TagA", "BB || Aa"):
            wanted = set(tags.split(" || "))
            expected = [line["commitLogOffset"] for line in golden.put if line["tags"] in wanted]
            read = [m.physical_offset for queue in view.queues() for m in view.read(*queue, tags=tags)]
            assert sorted(read) == expected and expected


def test_uniq_keys_that_come_again(small: GetSet) -> None:
    golden = small("collisions")
    known = by_key(golden.put)
    again = [line for line in golden.put if line["uniqKey"] and len(known[line["topic"], line["uniqKey"]]) > 1]
    assert again
    with flightlog.open_read_only(golden.store) as view:
        for line in again:
            found = view.message_by_uniq_key(line["topic"], line["uniqKey"])
            assert found is not None and found.physical_offset == known[line["topic"], line["uniqKey"]][0]
            assert view.was_stored(line["uniqKey"]) and view.was_stored(line["uniqKey"], line["topic"])
            assert not view.was_stored(line["uniqKey"], "orders")


@pytest.mark.parametrize(("name", "twice"), [("abort-late", 2), ("abort-reopen", 3)])
def test_verify_calls_keys_that_stand_twice_an_oddity(name: str, twice: int, golden_set: GetSet) -> None:
    """RocketMQ's recovery indexes the last message of the index file that it kept once more."""
    with flightlog.open_read_only(golden_set(name).after_java) as view:
        report = view.verify()
    assert report.is_clean
    (oddity,) = report.oddities
    assert f"{twice} keys stand twice for one record" in oddity


def test_verify_tells_keys_that_a_message_has_twice_from_those_of_a_border(
    small: GetSet, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open_read_only(small("collisions").store) as view:
        (of_rocketmq,) = view.verify().oddities
    path = tmp_path / "ours"
    with flightlog.open(path) as store:
        store.put(Message("t", b"x", keys=["a", "b", "a", "a"]))
        store.put(Message("t", b"x", keys=["a"]))
    (of_ours,) = assert_clean(path).oddities
    for oddity, count in ((of_rocketmq, 13), (of_ours, 2)):
        assert oddity.endswith(f": {count} keys stand more than once for a record that has them more than once")


def test_verify_names_filler(golden_set: GetSet) -> None:
    with flightlog.open_read_only(golden_set("preblank").store) as view:
        report = view.verify()
        first = {queue: bounds[0] for queue, bounds in view.queues().items()}
    assert report.is_clean and len(report.oddities) == 11
    for (topic, queue_id), begin in first.items():
        told = [oddity for oddity in report.oddities if f"/{topic}/{queue_id}: " in oddity]
        assert len(told) == (1 if begin % 50 else 0)
        assert all(f": {begin % 50} entries of filler before the first message at {begin}, " in line for line in told)


def test_opening_for_writing_mends_what_verify_says_it_mends(
    golden_copy: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    """The set whose torn record is in a queue and in the index."""
    path = golden_copy("abort-torn") / "store"
    with flightlog.open_read_only(path) as view:
        findings = view.verify().findings
    assert len(findings) == 3 and all(finding.mend.startswith("open the store for writing") for finding in findings)
    flightlog.open(path).close()
    assert_clean(path)
