"""Checks of half messages that were left: who is asked, how often, and what a crash between two records leaves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import (
    FlushMode,
    Message,
    Producer,
    Store,
    StoredMessage,
    StoreSettings,
    TransactionChecker,
)
from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import (
    CHECK_GROUP,
    CHECK_TIMES,
    DISCARDED_TOPIC,
    IMMUNITY_S,
    OP_TOPIC,
)
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.errors import InconsistentGroupError, StoreClosedError, TopicPermissionError, UsageError
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process

TOPIC, GROUP = "orders", "billing"
AssertClean = Callable[[Path], None]


class Application:
    """A store that is opened again and again, and somebody who answers."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, ManualClock()
        self.answers: dict[bytes, Resolution] = {}
        self.asked: list[StoredMessage] = []
        self.open()

    def open(self, settings: StoreSettings | None = None) -> Store:
        self.store = flightlog.open(self.path, settings or StoreSettings.small(), clock=self.clock)
        inside.transactions_by_hand(self.store)
        self.producer = Producer(self.store, producer_group=GROUP)
        self.checker = TransactionChecker(self.store, GROUP, self.answer)
        return self.store

    def answer(self, message: StoredMessage) -> Resolution:
        self.asked.append(message)
        return self.answers.get(message.body, Resolution.UNKNOWN)

    def leave(self, *bodies: bytes, **fields: object) -> None:
        for body in bodies:
            self.producer.transaction(Message(TOPIC, body, **fields)).unknown()  # type: ignore[arg-type]

    def look(self, after_ms: int = 7000) -> list[bytes]:
        """Run one check round, and return the bodies that it asked about."""
        self.clock.advance(after_ms)
        self.asked.clear()
        self.checker.check_now()
        return [message.body for message in self.asked]

    def seen(self, topic: str = TOPIC) -> list[bytes]:
        queues = [queue_id for name, queue_id in self.store.queues() if name == topic]
        return sorted(m.body for queue_id in queues for m in self.store.read(topic, queue_id))


@pytest.fixture
def application(tmp_path: Path, assert_clean: AssertClean) -> Iterator[Application]:
    found = Application(tmp_path / "store")
    yield found
    found.store.close()
    assert_clean(found.path)


def test_what_a_crash_left_is_asked_about_and_ended(application: Application) -> None:
    opened = [application.producer.transaction(Message(TOPIC, body, flag=3)) for body in (b"a", b"b", b"c")]
    kill(application.store)
    application.open()
    application.answers = {b"a": Resolution.COMMIT, b"b": Resolution.ROLLBACK}
    assert application.look() == [b"a", b"b", b"c"] and application.seen() == [b"a"]
    [asked] = (m for m in application.asked if m.body == b"a")
    assert asked.topic == TOPIC and asked.uniq_key == opened[0].transaction_id
    assert asked.properties[CHECK_TIMES] == "1"
    [committed] = application.store.read(TOPIC, asked.queue_id)
    assert committed.prepared_transaction_offset == asked.physical_offset and committed.flag == 3
    assert application.look() == [b"c"], "the others are over with"
    application.store.close()
    application.open()
    application.answers[b"c"] = Resolution.COMMIT
    assert application.look() == [b"c"] and application.seen() == [b"a", b"c"] and application.look() == []


def test_who_never_answers_is_given_up(
    application: Application, caplog: pytest.LogCaptureFixture, told: Callable[[], list[logging.LogRecord]]
) -> None:
    application.leave(b"a", keys="k")
    for _ in range(15):
        assert application.look() == [b"a"]
    assert application.seen(DISCARDED_TOPIC) == [] and not told()
    assert application.look() == [] and application.seen(DISCARDED_TOPIC) == [b"a"]
    [given_up] = application.store.read(DISCARDED_TOPIC)
    assert given_up.properties[CHECK_TIMES] == "15" and given_up.properties["REAL_TOPIC"] == TOPIC
    assert "given up after 15 checks" in caplog.text
    assert application.look() == [] and application.seen() == []


def test_what_was_given_up_has_a_topic_that_consumers_read_and_nobody_puts_to(application: Application) -> None:
    """As a broker makes it with the first of them. A kill leaves its queue alone."""
    application.leave(b"a")
    for _ in range(16):
        application.look()
    for end in (kill, Store.close):
        found = application.store.topic(DISCARDED_TOPIC)
        assert found is not None and (found.read_queue_count, found.write_queue_count, found.perm) == (1, 1, 6)
        with pytest.raises(TopicPermissionError):
            application.store.put(Message(DISCARDED_TOPIC, b"x"))
        end(application.store)
        application.open()
    with application.store.subscribe(DISCARDED_TOPIC, "audit") as member:
        received = member.receive()
        assert received is not None and received.body == b"a"


def test_who_was_given_up_is_not_asked_about_again(application: Application) -> None:
    """A death before the round's offset was saved: its older copies were checked, and one answer committed them."""
    application.leave(b"a")
    for _ in range(16):
        application.look()
    assert application.seen(DISCARDED_TOPIC) == [b"a"]
    offsets = application.store.message_store.offsets
    offsets.set(CHECK_GROUP, HALF_TOPIC, 0, 0)
    offsets.save()
    kill(application.store)
    application.open()
    application.answers[b"a"] = Resolution.COMMIT
    assert application.look() == [] and application.seen() == [] and application.seen(DISCARDED_TOPIC) == [b"a"]


def test_a_half_message_that_is_older_than_the_retention_is_given_up(application: Application) -> None:
    application.leave(b"a")
    assert application.look(72 * 3_600_000) == [b"a"]
    assert application.look(1) == [] and application.seen(DISCARDED_TOPIC) == [b"a"]


def test_young_half_messages_wait(application: Application) -> None:
    application.leave(b"a")
    assert application.look(6000) == []
    application.leave(b"b")
    assert application.look(1) == [b"a"]
    assert application.look(5999) == [], "a round ends at the first young one, as in RocketMQ"
    assert application.look(1) == [b"b", b"a"]


def test_an_immunity_time_of_its_own(application: Application) -> None:
    application.leave(b"late", properties={IMMUNITY_S: "20"})
    application.leave(b"soon", properties={IMMUNITY_S: "0"})
    application.leave(b"plain")
    assert application.look(7000) == [b"soon", b"plain"]
    assert application.look(13_000) == [b"soon", b"plain"] and set(application.look(1)) == {b"late", b"soon", b"plain"}
    [asked] = (m for m in application.asked if m.body == b"late")
    assert asked.properties[CHECK_TIMES] == "1", "what was only put back is not counted"


def test_a_clock_that_was_set_back(application: Application) -> None:
    """As in RocketMQ: what was born in the future is asked about at once."""
    application.leave(b"a")
    application.clock.at_ms -= 1000
    assert application.look(0) == [b"a"]


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("key_index", [True, False])
def test_a_crash_between_commit_record_and_op_message(tmp_path: Path, mode: FlushMode, key_index: bool) -> None:
    """RocketMQ's broker asks, and the answer makes a second record."""
    application = Application(tmp_path / "store")
    application.store.close()
    settings = StoreSettings.small(flush_mode=mode, key_index=key_index, sync_flush_timeout_ms=240_000)
    application.open(settings)
    application.producer.transaction(Message(TOPIC, b"a")).commit()
    kill(application.store)
    application.open(settings)
    assert application.seen(OP_TOPIC) == [], "the crash took it"
    assert application.look() == [] and application.seen() == [b"a"]
    application.store.close()
    application.open(settings)
    assert application.seen(OP_TOPIC) == [b"0,"] and application.look() == []
    application.store.close()


def test_a_round_that_a_crash_cut_short(application: Application) -> None:
    """The half message is there twice then: where it was, and where it was put back."""

    def die(message: StoredMessage) -> Resolution:
        raise KeyboardInterrupt

    application.leave(b"a", b"b")
    application.checker.close()
    dying = TransactionChecker(application.store, GROUP, die)
    application.clock.advance(7000)
    application.store.message_store.offsets.set(CHECK_GROUP, HALF_TOPIC, 0, 0)
    with pytest.raises(KeyboardInterrupt):
        dying.check_now()
    application.store.message_store.offsets.set(CHECK_GROUP, HALF_TOPIC, 0, 0)
    kill(application.store)
    application.open()
    assert len(application.seen(HALF_TOPIC)) == 3
    application.answers = dict.fromkeys((b"a", b"b"), Resolution.COMMIT)
    assert application.look() == [b"a", b"b"] and application.seen() == [b"a", b"b"]
    assert application.look() == [] and application.seen() == [b"a", b"b"]


def test_open_transactions_are_not_asked_about(application: Application) -> None:
    opened = application.producer.transaction(Message(TOPIC, b"a"))
    immune = application.producer.transaction(Message(TOPIC, b"i", properties={IMMUNITY_S: "60"}))
    application.leave(b"b")
    for _ in range(20):
        assert b"a" not in application.look() + application.look(0)
    assert application.seen(DISCARDED_TOPIC) == [b"b"], "it did not have to wait"
    opened.commit()
    immune.commit()
    assert application.seen() == [b"a", b"i"] and application.look() == []
    kill(application.store)
    application.open()
    assert application.look() == [] and application.seen() == [b"a", b"i"]


def test_a_transaction_that_nobody_holds_is_asked_about(application: Application) -> None:
    opened = application.producer.transaction(Message(TOPIC, b"a"))
    assert application.look() == []
    del opened
    assert application.look() == [b"a"]


def test_a_group_without_a_checker_keeps_its_half_messages(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    other = Producer(application.store, producer_group="other")
    other.transaction(Message(TOPIC, b"o")).unknown()
    for _ in range(20):
        assert application.look() == []
    assert application.seen(DISCARDED_TOPIC) == []
    assert caplog.text.count("'other'") == 1, "told once"
    with TransactionChecker(application.store, "other", lambda message: Resolution.COMMIT):
        application.look()
    assert application.seen() == [b"o"]


@pytest.mark.parametrize("answer", ["COMMIT", None, True])
def test_an_answer_that_is_none(application: Application, caplog: pytest.LogCaptureFixture, answer: object) -> None:
    application.answers = {b"a": answer}  # type: ignore[dict-item]
    application.leave(b"a")
    assert application.look() == [b"a"] == application.look() and application.seen() == []
    assert f"answered {answer!r}: expected a TransactionResolution" in caplog.text


def test_a_check_that_fails(application: Application, caplog: pytest.LogCaptureFixture) -> None:
    def check(message: StoredMessage) -> Resolution:
        if message.body == b"a":
            raise ZeroDivisionError
        return Resolution.COMMIT

    application.checker.close()
    application.leave(b"a", b"b")
    with TransactionChecker(application.store, GROUP, check) as checker:
        application.clock.advance(7000)
        checker.check_now()
        assert application.seen() == [b"b"] and "ZeroDivisionError" in caplog.text


def test_one_checker_a_group(application: Application) -> None:
    with pytest.raises(InconsistentGroupError, match=GROUP):
        TransactionChecker(application.store, GROUP, application.answer)
    application.checker.close()
    application.checker.close()
    assert "closed" in repr(application.checker)
    TransactionChecker(application.store, GROUP, application.answer).close()


def test_the_last_checker_leaves_while_the_thread_looks_at_the_time(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions, now_s = inside.transactions_by_hand(application.store), application.clock.monotonic_s

    def leave_and_look() -> float:
        application.checker.close()
        return now_s()

    with monkeypatch.context() as patched:
        patched.setattr(application.clock, "monotonic_s", leave_and_look)
        assert transactions.run_due() is None


def test_a_check_uses_the_store(application: Application) -> None:
    application.checker.close()
    raised: list[Exception] = []

    def check(message: StoredMessage) -> Resolution:
        application.store.put(Message("notes", message.body))
        application.producer.transaction(Message("notes", b"t")).commit()
        try:
            checker.check_now()
        except UsageError as e:
            raised.append(e)
        return Resolution.COMMIT

    application.leave(b"a")
    with TransactionChecker(application.store, GROUP, check) as checker:
        application.clock.advance(7000)
        checker.check_now()
    assert application.seen() == [b"a"] and application.seen("notes") == [b"a", b"t"] and len(raised) == 1


@pytest.mark.parametrize("how", ["asked", "closes the store"])
def test_the_thread_of_the_store(tmp_path: Path, how: str) -> None:
    settings = StoreSettings.small(transaction_timeout_ms=1, transaction_check_interval_ms=1)
    store = flightlog.open(tmp_path / "store", settings)
    done, threads = threading.Event(), []

    def check(message: StoredMessage) -> Resolution:
        threads.append(threading.current_thread())
        if how == "closes the store":
            store.close()
        done.set()
        return Resolution.COMMIT

    checker = TransactionChecker(store, "DEFAULT_PRODUCER", check)
    with store.subscribe(TOPIC, "group") as member:
        Producer(store).transaction(Message(TOPIC, b"a")).unknown()
        assert done.wait(process.LIMIT_S) and threads[0].name == "flightlog-transactions"
        if how == "asked":
            received = member.receive(process.LIMIT_S)
            assert received is not None and received.body == b"a"
    store.close()
    threads[0].join(process.LIMIT_S)
    assert not threads[0].is_alive()
    with pytest.raises(StoreClosedError):
        checker.check_now()
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert view.verify().is_clean
        assert [m.body for q in range(4) for m in view.read(TOPIC, q)] == [b"a"] * (how == "asked")


def test_a_store_without_transactions_has_no_thread_for_them(tmp_path: Path) -> None:
    before = process.threads()
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        Producer(store).send(Message(TOPIC, b"a"))
        assert "flightlog-transactions" not in process.names_since(before)


def test_half_messages_that_name_no_place(
    application: Application, caplog: pytest.LogCaptureFixture, assert_clean: AssertClean
) -> None:
    """A broker's folder may hold anything."""
    put = application.store.message_store.putter.put_internal
    born_ms = application.clock.now_ms()
    for properties in ({}, {"PGROUP": GROUP, "REAL_TOPIC": "../x", "REAL_QID": "0"}, {"PGROUP": GROUP}):
        put(Message(HALF_TOPIC, b"?", properties=properties, born_timestamp_ms=born_ms))
    put(Message(OP_TOPIC, b"x,,700,-1,9999999999999999999999,", tags="d"))
    put(Message(OP_TOPIC, b"0,", tags="e"))
    application.answers = {b"?": Resolution.COMMIT}
    with caplog.at_level(logging.ERROR, "flightlog.produce"):
        assert application.look() == [b"?", b"?"]
    assert caplog.text.count("cannot be committed") == 2
    for _ in range(16):
        application.look()
    assert application.seen(DISCARDED_TOPIC) == [b"?", b"?"]
