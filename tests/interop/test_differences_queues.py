"""Where RocketMQ's and flightlog's answers about queues and records differ: a test for each reason, named after it.

What each test asserts of RocketMQ is what it really does, so that none of these can hide a mistake of flightlog's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.store.errors import CorruptRecordError, UsageError
from flightlog.tests.interop import asking, harness, mixed, rules
from flightlog.tests.interop.asking import Get
from flightlog.tests.interop.cases import Asked
from flightlog.tests.interop.harness import RocketMq

if TYPE_CHECKING:
    BothWays = Callable[[Asked], AbstractContextManager[list[Any]]]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]

DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"  # its queues hold times in place of hashes


@pytest.mark.parametrize("name", ["fresh-clean", "fresh-long", "rocketmq-collisions"])
def test_rocketmq_returns_messages_of_a_colliding_tag(name: str, asked: dict[str, Asked], both_ways: BothWays) -> None:
    """`Aa` and `BB` hash alike. RocketMQ leaves it to its consumers to compare the text; all else is by one rule."""
    found = asked[name]
    lines, file_entries = found.case.by_queue, found.case.geometry["queue_entries"]

    def expected(get: Get, alike: set[str]) -> Any:
        names = {tag.strip() for tag in (get.tags or "*").split("||")}
        names |= alike if names & alike else set()
        bounds, queue = found.bounds[get.topic, get.queue_id], lines[get.topic, get.queue_id]
        return rules.expected_get(get, bounds, queue, file_entries, lambda tag: "*" in names or tag in names)

    gets = [(get, theirs) for get, theirs in found.pairs["gets"] if get.topic != DELAY_TOPIC]
    for get, theirs in gets:
        assert theirs == expected(get, {"Aa", "BB"}), get
    with both_ways(found) as stores:
        for store in stores:
            for get, _ in gets:
                assert get.ours(store) == expected(get, set()), get
            wrong = asking.differing(gets, store)
            assert len(wrong) >= 20 and all(found.case.collides(get.tags) for get, _ in wrong)


def test_rocketmq_loses_one_message_of_a_lagging_queue(asked: dict[str, Asked], both_ways: BothWays) -> None:
    """After a clean exit it dispatches what starts behind the end of the last queued message, not what starts there."""
    found = asked["clean-cqlag"]
    with both_ways(found) as stores:
        for store in stores:
            bounds = store.queues()
            (lost,) = {queue for queue in bounds if bounds[queue] != found.bounds[queue]}
            assert bounds[lost] == (0, found.bounds[lost][1] + 1)
            assert sum(1 for queue in bounds for _ in store.read(*queue)) == 926
            for kind in ("gets", "times", "estimates"):
                wrong = asking.differing(found.pairs[kind], store)
                assert wrong and {(q.topic, q.queue_id) for q, _ in wrong} == {lost}
            assert not asking.differing(found.pairs["looks"], store)


def test_rocketmq_looks_into_the_filler_of_a_queue(asked: dict[str, Asked], both_ways: BothWays) -> None:
    """It takes filler for the beginning of a queue that starts above zero: whoever begins there does not get what lies
    in the first segment."""
    found = asked["preblank"]
    segment_size = found.case.geometry["segment_size"]
    first = {queue: lines[0]["queueOffset"] for queue, lines in found.case.by_queue.items()}
    bounds = {queue: (first[queue], lines[-1]["queueOffset"] + 1) for queue, lines in found.case.by_queue.items()}
    in_filler = [
        (get, theirs)
        for get, theirs in found.pairs["gets"]
        if found.bounds[get.topic, get.queue_id][0] <= get.queue_offset < first[get.topic, get.queue_id]
        and get.tags in (None, "*")  # a filter that filler does not pass leads past it
    ]
    assert sum(found.bounds[queue][0] < first[queue] for queue in first) == 11
    with both_ways(found) as stores:
        for store in stores:
            assert store.queues() == bounds
            read = {m.physical_offset for queue in bounds for m in store.read(*queue)}
            assert read == {line["commitLogOffset"] for line in found.case.lines}
            for get, theirs in in_filler:
                assert not [at for at in theirs[-1] if at < segment_size]
                assert get.ours(store)[:3] == ("OFFSET_TOO_SMALL", (begin := first[get.topic, get.queue_id]), begin)
            for get, (status, next_offset, least, *rest) in found.pairs["gets"]:
                begin = first[get.topic, get.queue_id]
                if get.queue_offset >= begin:
                    assert get.ours(store) == (status, next_offset, begin, *rest), (get, least)
            assert not asking.differing(found.pairs["looks"], store)
            assert all(store.offset_at(*queue, 0) == first[queue] for queue in first)
    assert len(in_filler) >= 10


def test_rocketmq_adds_an_entry_to_an_empty_queue_file(asked: dict[str, Asked], both_ways: BothWays) -> None:
    """A queue file that was made, but never written to, as a process leaves it that dies in between: RocketMQ keeps its
    first entry without a look at it."""
    found = asked["fresh-empty-file"]
    assert found.bounds == {("full", 0): (0, 101)}
    with both_ways(found) as stores:
        for store in stores:
            assert store.queues() == {("full", 0): (0, 100)}
            assert [m.queue_offset for m in store.read("full")] == list(range(100))
            assert store.get("full", 0, 100).status is flightlog.GetStatus.OFFSET_OVERFLOW_ONE


def test_rocketmq_shows_a_phantom(asked: dict[str, Asked], both_ways: BothWays) -> None:
    """The entry of a record that its recovery cut off, long since overwritten by a message of another topic."""
    found = asked["rocketmq-phantoms"]
    with flightlog.open_read_only(found.case.path) as view:
        (phantom,) = view.verify().findings
    assert "phantom" in phantom.meaning and phantom.path.parts[-2:] == ("stock", "0")
    assert found.bounds["stock", 0] == (0, phantom.offset + 1)
    with both_ways(found) as stores:
        for store in stores:
            assert store.queues() == {**found.bounds, ("stock", 0): (0, phantom.offset)}
            assert sum(1 for queue in store.queues() for _ in store.read(*queue)) == 79
            wrong = {kind: asking.differing(found.pairs[kind], store) for kind in ("gets", "times", "estimates")}
            assert wrong["gets"]
            assert {(q.topic, q.queue_id) for pairs in wrong.values() for q, _ in pairs} == {("stock", 0)}
            assert not asking.differing(found.pairs["looks"], store)


def test_rocketmq_takes_a_get_of_no_messages_for_one_of_one(rocketmq: RocketMq, tmp_path: Path) -> None:
    """And one of fewer than none. flightlog asks its caller for a number of messages."""
    path = tmp_path / "store"
    with flightlog.open(path, mixed.small_settings()) as store:
        store.put_many([flightlog.Message("t", b"%d" % i) for i in range(3)])
        gets = [asking.Get("t", 0, 1, count) for count in (0, -1)]
    answers = rocketmq.ask([harness.Questions(path, [get.words() for get in gets], mixed.SMALL)])
    with flightlog.open_read_only(path) as view:
        for get, line in zip(gets, answers[0].lines, strict=True):
            assert get.theirs(line)[:2] == ("FOUND", 2)
            with pytest.raises(UsageError, match="1 or more"):
                view.get(get.topic, get.queue_id, get.queue_offset, get.max_count)
        assert view.verify().is_clean


def test_rocketmq_counts_nothing_of_a_queue_file_past_the_end(
    asked: dict[str, Asked],
) -> None:
    """An estimate by tags for a range that goes on behind the queue's end: RocketMQ leaves the last file out of it, or
    takes the whole range for messages where there is no such file. flightlog counts what is there."""
    found = asked["fresh-clean"]
    with flightlog.open_read_only(found.case.path) as view:
        wrong = asking.differing(found.pairs["past_the_end"], view)
        assert len(wrong) >= 10
        for q, theirs in wrong:
            end = view.queues()[q.topic, q.queue_id][1]
            has_full_files = end > found.case.geometry["queue_entries"]
            assert q.stop > end and (has_full_files or theirs in (0, q.stop - q.start))
            expected = view.estimate_count(q.topic, q.queue_id, q.start, end, tags=q.tags) if q.start < end else 0
            assert q.ours(view) == expected


# -- damage


def test_rocketmq_drops_what_follows_a_corrupt_record(asked: dict[str, Asked]) -> None:
    """After an unclean exit, and silently. flightlog refuses to open such a store for writing; a view goes past it."""
    found = asked["abort-crcflip"]
    flipped = 281747
    with flightlog.open_read_only(found.case.path) as view:
        bounds = view.queues()
        assert sum(bounds[queue][1] - found.bounds[queue][1] for queue in bounds) == 191
        for query, theirs in found.pairs["queries"]:
            known = found.case.answer(query)
            assert sorted(set(theirs)) == sorted(at for at in known if at < flipped), query
            if flipped not in known:
                assert query.ours(view) == known
        for queue in bounds:
            theirs = {
                at for get, answer in found.pairs["gets"] if (get.topic, get.queue_id) == queue for at in answer[-1]
            }
            read = [m.physical_offset for m in view.read(*queue, on_corrupt="skip")]
            assert theirs <= {at for at in read if at < flipped}
            assert read == [m["commitLogOffset"] for m in found.case.by_queue[queue] if m["commitLogOffset"] != flipped]


def test_rocketmq_hands_out_a_corrupt_record(
    asked: dict[str, Asked],
) -> None:
    """It checks bodies while it recovers, never when it reads."""
    found = asked["clean-crcflip"]
    flipped = 116333
    (damaged,) = [line for line in found.case.lines if line["commitLogOffset"] == flipped]
    met = 0
    with flightlog.open_read_only(found.case.path) as view:
        for get, theirs in found.pairs["gets"]:
            if flipped not in theirs[-1]:
                assert get.ours(view) == theirs
                continue
            met += 1
            ours, before = get.ours(view), theirs[-1][: theirs[-1].index(flipped)]
            if get.queue_offset == damaged["queueOffset"]:
                assert ours == ("CorruptRecordError",)
            else:  # it stops before the damaged one
                status = "FOUND" if before else "NO_MATCHED_MESSAGE"
                assert (ours[0], ours[1], ours[-1]) == (status, damaged["queueOffset"], before), get
        for query, theirs in found.pairs["queries"]:
            if flipped not in theirs:
                assert query.ours(view) == found.case.answer(query) == sorted(theirs, reverse=True)
                continue
            met += 1
            with pytest.raises(CorruptRecordError):
                query.ours(view)
            rest = view.query(query.topic, query.key, max_count=100, on_corrupt="skip").messages
            assert [m.physical_offset for m in rest] == [at for at in found.case.answer(query) if at != flipped]
        with pytest.raises(CorruptRecordError):
            view.message_at(flipped)
        for kind in ("times", "estimates"):
            assert not asking.differing(found.pairs[kind], view)
    assert met >= 5


# -- topics


def test_rocketmq_cannot_read_a_topic_of_many_bytes_and_few_characters(rocketmq: RocketMq, tmp_path: Path) -> None:
    """67 characters in 187 bytes: it counts characters, writes the length into one byte, and reads that as -69."""
    topic, path = "%RETRY%" + "组" * 60, tmp_path / "store"
    with pytest.raises(harness.InteropError, match="what was put at 0 does not read back"):
        rocketmq.write_store(path, seed=1, count=1, topics=(topic,), queues=1, segment_size=1 << 16)
    with flightlog.open_read_only(path) as view:
        (message,) = view.read(topic)
        assert message.physical_offset == 0 and message.magic & 0xFFFFFFFF == 0xDAA320A7
    with flightlog.open(path) as store:
        assert store.queues() == {(topic, 0): (0, 1)}
        store.put(flightlog.Message(topic, b"next"))
        assert [m.magic & 0xFFFFFFFF for m in store.read(topic)] == [0xDAA320A7, 0xDAA320AB]
    with flightlog.open_read_only(path) as view:
        assert view.verify().is_clean
