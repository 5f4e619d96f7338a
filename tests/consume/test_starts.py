"""What a crash leaves of messages in process: attempts that ended the process are counted, bystanders go on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import CorruptRecordError, GetResult, Message, MessageQueue, ReceivedMessage, Store, StoreSettings
from flightlog.consume.retry import sent_back
from flightlog.consume.retry.starts import EMPTY, SLOT_SIZE, FailedAttempts, Start, Starts
from flightlog.store.disk.disk import RealDisk
from flightlog.testing.clock import ManualClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, killed_by_message
from flightlog.tests.support.killed_copy import copy_as_killed

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

LEVELS = " ".join(["10s"] * 18)
Opened = Callable[..., Store]


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(tmp_path: Path, time: ManualClock, assert_clean: AssertClean) -> Iterator[Opened]:
    stores: list[Store] = []

    def opener(name: str = "0", **options: Any) -> Store:
        stores.append(flightlog.open(tmp_path / name, StoreSettings.small(delay_levels=LEVELS), clock=time, **options))
        return stores[-1]

    yield opener
    for store in stores:
        store.close()
        assert_clean(store.path)


class Lives:
    """One store after the other, each what a kill has left of the one before."""

    def __init__(self, opened: Opened, root: Path) -> None:
        self._opened, self._root, self._number = opened, root, 0
        self.store = opened()

    def kill(self) -> Store:
        self._number += 1
        copy_as_killed(self.store.path, self._root / str(self._number))
        self.store.close()
        self.store = self._opened(str(self._number))
        return self.store


@pytest.fixture
def lives(opened: Opened, tmp_path: Path) -> Lives:
    return Lives(opened, tmp_path)


def dead(store: Store) -> list[tuple[bytes, int]]:
    return [(letter.body, letter.reconsume_times) for letter in store.dead_letters("g")]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_message_that_ends_the_process_again_and_again_is_a_dead_letter(
    lives: Lives, time: ManualClock, ordered: bool
) -> None:
    lives.store.put_many(Message("orders", b"%d" % n, queue_id=n % 2) for n in range(80))
    done: set[bytes] = set()
    deaths = 0
    while not dead(lives.store):
        assert deaths <= 9, "each attempt costs three deaths at most"
        with lives.store.subscribe("orders", "g", ordered=ordered, max_attempts=3) as member:
            member.has_listener = True
            for _ in range(300):
                message = member.receive(0)
                if message is None:  # a retry waits, or an ordered queue rests
                    time.advance(10_000)
                elif message.body == b"33":
                    deaths += 1
                    lives.kill()
                    break
                else:
                    done.add(message.body)
                    assert message.ack()
    with lives.store.subscribe("orders", "g", ordered=ordered) as member:
        while (message := member.receive(0)) is not None:
            done.add(message.body)
            message.ack()
    assert dead(lives.store) == [(b"33", 3)] and done == {b"%d" % n for n in range(80) if n != 33}


def test_after_a_kill_what_was_in_process_comes_one_by_one_and_alone(lives: Lives) -> None:
    lives.store.put_many(Message("orders", b"%d" % n, queue_id=n % 4) for n in range(200))
    before = lives.store.subscribe("orders", "g")
    assert len(before.receive_batch(5)) == 5
    store = lives.kill()
    with store.subscribe("orders", "g") as one, store.subscribe("orders", "g") as other:
        one.has_listener = other.has_listener = True
        for _ in range(32):
            batches = [member.poll(9) for member in (one, other)]
            (message,) = [message for batch in batches for message in batch]
            assert not one.poll(9) and not other.poll(9), "nothing else while it is out"
            assert message.attempt == 1 and message.ack()
        assert len(one.poll(9)) == len(other.poll(9)) == 9, "then as ever"


def test_a_loop_need_not_acknowledge_what_comes_one_by_one(lives: Lives) -> None:
    lives.store.put_many(Message("orders", b"%d" % n) for n in range(100))
    before = lives.store.subscribe("orders", "g")
    assert len(before.receive_batch(5)) == 5
    with lives.kill().subscribe("orders", "g") as member:
        assert [member.poll(9)[0].body for _ in range(32)] == [b"%d" % n for n in range(32)]
        assert len(member.poll(9)) == 9


def test_a_queue_that_is_paused_or_moved_holds_up_nobody(lives: Lives) -> None:
    lives.store.put_many(Message("orders", b"%d" % n, queue_id=n % 4) for n in range(100))
    before = lives.store.subscribe("orders", "g")
    assert before.poll()
    store = lives.kill()
    with store.subscribe("orders", "g") as member:
        member.has_listener = True
        (first,) = member.poll(9)
        member.pause(first.queue)
        batch = member.poll(9)
        assert first.ack() and len(batch) == 9 and all(message.ack() for message in batch)
        member.resume()
        (second,) = member.poll(9)
        assert second.queue == first.queue
        member.seek(first.queue, 20)
        assert len(member.poll(9)) > 1


def test_a_member_that_nobody_holds_lets_go_of_the_one_message(lives: Lives) -> None:
    lives.store.put_many(Message("orders", b"%d" % n) for n in range(10))
    before = lives.store.subscribe("orders", "g")
    assert before.poll()
    store = lives.kill()
    inside.groups_without_thread(store)  # which may hold a member for a moment
    first = store.subscribe("orders", "g")
    first.has_listener = True
    assert len(first.poll(9)) == 1
    del first
    with store.subscribe("orders", "g") as member:
        member.has_listener = True
        assert [message.body for message in member.poll(9)] == [b"0"]


def test_a_clean_close_leaves_nothing(opened: Opened) -> None:
    store = opened()
    store.put_many(Message("orders", b"%d" % n) for n in range(100))
    with store.subscribe("orders", "g", max_attempts=1) as member:
        batch = member.receive_batch(5)
        assert len(batch) == 5 and batch[0].send_back()
        assert (store.path / "flightlog" / "starts").stat().st_size
    store.close()
    assert not (store.path / "flightlog" / "starts").stat().st_size
    with opened().subscribe("orders", "g") as member:
        assert len(member.poll(9)) == 9


def test_copies_of_what_was_sent_back_before_a_kill_are_passed_over(lives: Lives, time: ManualClock) -> None:
    lives.store.put_many(Message("orders", b"%d" % n) for n in range(3))
    member = lives.store.subscribe("orders", "g", max_attempts=2)
    message = member.receive()
    assert message is not None and message.send_back()
    with lives.kill().subscribe("orders", "g", max_attempts=2) as member:
        rest = [member.receive(), member.receive()]
        assert [each.body for each in rest if each] == [b"1", b"2"] and member.receive(0) is None
        assert all(each.ack() for each in rest if each)
        time.advance(10_000)
        again = member.receive()
        assert again is not None and (again.body, again.attempt) == (b"0", 2) and again.send_back()
    assert dead(lives.store) == [(b"0", 2)]
    member = lives.store.subscribe("orders", "g", max_attempts=2)
    member.seek(MessageQueue("orders", "store", 0), 0)
    first = member.receive(0)
    assert first is not None and first.body == b"0", "a seek has all that is there"


@pytest.mark.parametrize("most", [1, 17], ids=["dead letters", "retries"])
def test_the_last_65_536_that_were_sent_back_are_looked_at(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    assert sent_back.COPIES_COUNT == 65_536
    monkeypatch.setattr(sent_back, "COPIES_COUNT", 3)
    lives.store.put_many(Message("orders", b"%d" % n) for n in range(8))
    for message in lives.store.subscribe("orders", "g", max_attempts=most).receive_batch(8):
        assert message.send_back()
    with lives.kill().subscribe("orders", "g", max_attempts=most) as member:
        again = []
        while found := member.receive(0):
            again.append(found.body)
            assert found.ack()
    assert again == [b"0", b"1", b"2", b"3", b"4"], "rather twice than never"


def test_a_group_without_members_that_is_reset_has_all_that_is_there(lives: Lives) -> None:
    for topic, group in (("orders", "g"), ("bills", "h")):
        lives.store.put(Message(topic, b"0"))
        message = lives.store.subscribe(topic, group, max_attempts=1).receive()
        assert message is not None and message.send_back()
    store = lives.kill()
    store.reset_offset("g", "orders", "first")
    for _ in range(2):
        with store.subscribe("orders", "g") as member, store.subscribe("bills", "h") as other:
            assert [message.body for message in member.poll()] == [b"0"]
            assert other.poll() == [], "other groups are not concerned"
        store = lives.kill()


def test_an_ordered_queue_of_nothing_but_copies_goes_on(lives: Lives) -> None:
    lives.store.put(Message("orders", b"0"))
    (message,) = lives.store.subscribe("orders", "g", ordered=True, max_attempts=1).poll()
    assert message.send_back() and dead(lives.store) == [(b"0", 1)]
    store = lives.kill()
    with store.subscribe("orders", "g", ordered=True, max_attempts=1) as member:
        assert member.poll() == []
        store.put(Message("orders", b"1"))
        assert [message.body for message in member.poll()] == [b"1"]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_damaged_message_after_a_kill_holds_up_its_queue_alone(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    lives.store.put_many(Message("orders", b"%d" % n, queue_id=n % 2) for n in range(8))
    before = lives.store.subscribe("orders", "g", ordered=ordered)
    assert {message.queue_id for _ in range(2) for message in before.poll(4)} == {0, 1}
    store = lives.kill()
    get = inside.engine(store).get

    def damaged(topic: str, queue_id: int, *rest: Any, **options: Any) -> GetResult:
        if queue_id == 0:
            raise CorruptRecordError(store.path, 0, "bytes that are no record", "a record")
        return get(topic, queue_id, *rest, **options)

    monkeypatch.setattr(inside.engine(store), "get", damaged)
    with store.subscribe("orders", "g", ordered=ordered) as member:
        member.has_listener = True
        with pytest.raises(CorruptRecordError):
            member.poll()
        for number in (1, 3, 5, 7):
            (message,) = member.poll()
            assert message.body == b"%d" % number and message.ack()


def test_an_attempt_that_ended_the_process_counts_once(
    lives: Lives, time: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lives.store.put(Message("orders", b"0"))
    assert lives.store.subscribe("orders", "g", ordered=True).poll()
    assert lives.kill().subscribe("orders", "g", ordered=True).poll()
    member = lives.kill().subscribe("orders", "g", ordered=True)
    polled: list[ReceivedMessage] = []
    fail = member.fail

    def fail_and_poll(messages: Sequence[ReceivedMessage], delay_s: float | None = None) -> int:
        count = fail(messages, delay_s)
        time.advance(1_000)
        polled.extend(member.poll())  # as another thread would
        return count

    monkeypatch.setattr(member, "fail", fail_and_poll)
    assert member.poll() == [] and [message.attempt for message in polled] == [2]
    assert caplog.text.count("the process died in attempt 1") == 1
    member.close()


def test_a_message_that_was_put_again_by_hand_is_not_taken_for_the_one_that_was_sent_back(lives: Lives) -> None:
    lives.store.put(Message("orders", b"0"))
    (message,) = lives.store.subscribe("orders", "g", max_attempts=1).poll()
    assert message.send_back()
    store = lives.kill()
    (letter,) = store.dead_letters("g")
    store.put(Message("orders", b"again", properties=letter.properties))
    with store.subscribe("orders", "g", max_attempts=1) as member:
        (message,) = member.poll(9)
        assert message.body == b"again" and message.send_back()
    assert dead(store) == [(b"0", 1), (b"again", 1)]


@pytest.mark.parametrize("has_keys", [False, True])
def test_messages_of_one_batch_are_not_taken_for_each_other(lives: Lives, has_keys: bool) -> None:
    lives.store.create_topic("orders", 1, attributes={"queue.type": "BatchCQ"})
    bodies = [b"same", b"same"]
    properties = [{"UNIQ_KEY": f"{number:032X}"} if has_keys else {} for number in range(2)]
    lives.store.put_batch(
        Message("orders", body, properties=each) for body, each in zip(bodies, properties, strict=True)
    )
    batch = lives.store.subscribe("orders", "g", max_attempts=1).poll(9)
    assert len(batch) == 2 and batch[0].send_back()
    store = lives.kill()
    with store.subscribe("orders", "g", max_attempts=1) as member:
        left = []
        while message := member.receive(0):
            left.append(message.queue_offset)
            message.ack()
    assert left == ([1] if has_keys else [0, 1]), "rather twice than never"


def test_a_message_that_was_sent_back_behind_one_in_process_comes_no_second_time(opened: Opened) -> None:
    store = opened()
    store.put_many(Message("orders", b"%d" % n) for n in range(3))
    with store.subscribe("orders", "g", max_attempts=1) as member:
        batch = member.poll(9)
        assert batch[1].send_back()
    with store.subscribe("orders", "g", max_attempts=1) as member:
        assert [message.body for message in member.poll(9)] == [b"0", b"2"], "after its queue went to another member"
    store.close()
    store = opened()
    with store.subscribe("orders", "g", max_attempts=1) as member:
        assert [message.body for message in member.poll(9)] == [b"0", b"2"], "after a clean close"


def test_the_file_of_starts(tmp_path: Path) -> None:
    (tmp_path / "flightlog").mkdir()
    path = tmp_path / "flightlog" / "starts"

    def loaded() -> Starts:
        starts = Starts(RealDisk(), tmp_path)
        starts.load()
        return starts

    starts = loaded()
    assert starts.left("g", "t", 0) is None and not path.exists()
    starts.note("g", "t", 0, Start(3, 9))
    starts.note("g", "t", 1, Start(3, 4, 77, 2), sync=True)
    starts.note("g", "u", 0, EMPTY)
    starts.note_floor("g", 99)
    starts.note_crash_end(55)
    starts.note_crash_end(77)
    assert starts.left("g", "t", 0) is None and path.stat().st_size == 5 * SLOT_SIZE
    starts = loaded()
    assert starts.left("g", "t", 0) == Start(3, 9) and starts.left("g", "t", 1) == Start(3, 4, 77, 2)
    assert starts.left("g", "u", 0) is None and starts.left("h", "t", 0) is None
    assert (starts.floor("g"), starts.floor("h"), starts.crash_end()) == (99, 0, 77)
    starts.settle("g", "t", 0)
    assert starts.left("g", "t", 0) is None
    data = bytearray(path.read_bytes())
    data[SLOT_SIZE + 30] ^= 1
    path.write_bytes(data + b"torn")
    starts = loaded()
    assert starts.left("g", "t", 0) and starts.left("g", "t", 1) is None, "a damaged slot has nothing to say"
    failed = FailedAttempts(500, 700, 3, 2)
    for group, topic in (("g", "t"), ("h", "t"), ("h", "lost")):
        starts.note_failed(group, topic, 0, failed if topic == "t" else failed._replace(last=800))
    starts = loaded()
    assert starts.failed("g", "t", 0) == starts.failed("h", "t", 0) == failed and starts.failed("g", "t", 1) is None
    starts.forget_lost(701)
    assert starts.failed("h", "lost", 0) is None and starts.failed("h", "t", 0) == failed
    starts.end_failed("g", "t", 0, 2)
    assert starts.failed("g", "t", 0) == failed, "some of them are not done"
    starts.end_failed("g", "t", 0, 3)
    assert starts.failed("g", "t", 0) is None and loaded().failed("g", "t", 0) is None
    starts.forget_failed("h")
    assert starts.failed("h", "t", 0) is None and loaded().failed("h", "t", 0) is None
    starts.note("g", "w", 0, Start(1, 2))
    assert loaded().left("g", "t", 0) and loaded().left("g", "w", 0) == Start(1, 2), "and no slot has two owners"


def test_a_disk_that_takes_no_note_stops_no_delivery(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk()
    store = opened(disk=disk)
    store.put_many(Message("orders", b"%d" % n) for n in range(100))
    disk.fail("write", "starts", 28)
    with store.subscribe("orders", "g", idle_s=0) as member:
        assert sum(message.ack() for message in member) == 100
    assert caplog.text.count("are not counted meanwhile") == 1
    disk.heal()


def run(path: Path, count: int, mode: str, *, threads: int, hang_timeout_s: float = 0) -> int:
    """Lives until all is done."""
    for life in range(1, 60):
        command = [sys.executable, "-P", killed_by_message.__file__, *(str(path), str(count), str(threads), mode)]
        ended = subprocess.run([*command, str(hang_timeout_s)], check=False).returncode
        if ended != -signal.SIGKILL:
            assert ended == 0
            return life
    raise AssertionError("it does not end")


def check_outcome(path: Path, count: int, mode: str, *, hangs: bool) -> None:
    """Each message that cannot be done is a dead letter, once, after its last attempt, and all others were done. That
    of a pop counts the receive that gave it up, too, as RocketMQ's does."""
    kinds = killed_by_message.kinds(count, hangs=hangs)
    attempts = killed_by_message.max_attempts(count) + (mode == "pop")
    with flightlog.open(path, killed_by_message.SETTINGS) as store:
        letters = sorted(dead(store))
    assert letters == sorted((f"{kind} {number}".encode(), attempts) for number, kind in kinds.items())
    fine = {f"fine {number}" for number in range(count)} - {f"fine {number}" for number in kinds}
    assert set(path.with_suffix(".done").read_text().splitlines()) == fine
    acked = path.with_suffix(".acked").read_text().splitlines()
    assert len(acked) == len(set(acked))


@pytest.mark.parametrize("mode", killed_by_message.MODES)
@pytest.mark.parametrize("count", [500, pytest.param(5_000, marks=pytest.mark.ci)])
def test_messages_that_raise_and_kill_let_all_others_through(
    tmp_path: Path, assert_clean: AssertClean, mode: str, count: int
) -> None:
    path, is_popped = tmp_path / "store", mode.startswith("pop")
    lives = run(path, count, mode, threads=8 if is_popped else 3)
    check_outcome(path, count, mode, hangs=is_popped)
    kills = list(killed_by_message.kinds(count, hangs=False).values()).count("kills")
    assert lives <= 1 + kills * killed_by_message.max_attempts(count) * (1 if is_popped else 3)
    assert_clean(path)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mode", killed_by_message.MODES)
def test_messages_that_raise_hang_and_kill_let_100_000_others_through(
    tmp_path: Path, assert_clean: AssertClean, mode: str
) -> None:
    """A listener that takes messages in order has no timeout: it never hangs here."""
    path, count, hangs = tmp_path / "store", 100_000 + len(killed_by_message.KINDS), mode != "ordered"
    run(path, count, mode, threads=8, hang_timeout_s=60 if hangs else 0)
    check_outcome(path, count, mode, hangs=hangs)
    assert_clean(path)
