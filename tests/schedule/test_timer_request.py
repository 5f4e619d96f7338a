"""What asks for a timer, where it waits, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from flightlog.schedule.timer_request import TIMER_TOPIC, TimerAdmission, cancellation, slot_time_ms
from flightlog.store.errors import InvalidMessageError
from flightlog.store.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from flightlog.store.message import Message
from flightlog.store.timer_errors import InvalidTimerError, TimersCongestedError, TimerTooFarError, TimerTooLateError

NOW_MS = 1_700_000_000_123
DAY_MS = 86_400_000
full_seconds: dict[int, int] = {}
admit = TimerAdmission(lambda: NOW_MS, 3 * DAY_MS, 10, lambda second: full_seconds.get(second, 0))


def asking(**properties: str) -> Message:
    return Message("orders", b"body", properties=properties, queue_id=2, tags="a", uniq_key="U1")


def parked_at(message: Message) -> int:
    found = admit(message)
    assert (found.topic, found.queue_id, found.body, found.tags) == (TIMER_TOPIC, 0, b"body", "a")
    assert found.properties is not None
    assert (found.properties["REAL_TOPIC"], found.properties["REAL_QID"]) == ("orders", "2")
    assert message.properties is not None
    assert set(found.properties) == {*message.properties, "TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID"}
    return int(found.properties["TIMER_OUT_MS"])


def test_a_second_is_over_at_the_time_or_less_than_a_second_later() -> None:
    for wanted_ms in (NOW_MS + 1, NOW_MS + 877, NOW_MS + 878, NOW_MS + 876, NOW_MS + 10_000):
        slot_ms = slot_time_ms(wanted_ms)
        assert slot_ms % 1000 == 0
        assert 0 <= slot_ms + 1000 - wanted_ms < 1000
    assert slot_time_ms(1_700_000_001_000) == 1_700_000_000_000, "a whole second waits no longer"


def test_the_first_property_that_is_there_counts() -> None:
    assert parked_at(asking(TIMER_DELAY_SEC="5", TIMER_DELAY_MS="70000", TIMER_DELIVER_MS="0")) == 1_700_000_005_000
    assert parked_at(asking(TIMER_DELAY_MS="70000", TIMER_DELIVER_MS="0")) == 1_700_000_070_000
    assert parked_at(asking(TIMER_DELIVER_MS=str(NOW_MS + 1))) == 1_700_000_000_000
    assert parked_at(asking(TIMER_DELAY_SEC="+5")) == 1_700_000_005_000, "as Java reads it"


@pytest.mark.parametrize("wanted", [{"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "-1"}, {"TIMER_DELIVER_MS": "5"}])
def test_what_is_due_is_put_at_once(wanted: dict[str, str]) -> None:
    message = asking(**wanted)
    assert admit(message) is message


def test_others_pass() -> None:
    for message in (
        Message("orders", b""),
        Message("orders", b"", properties={"a": "b"}),
        asking(TIMER_DELAY_SEC="5", TIMER_OUT_MS="1700000000000"),  # has waited already
    ):
        assert admit(message) is message
    prepared = Message("orders", b"", properties={"TIMER_DELAY_SEC": "5"}, sys_flag=TRANSACTION_PREPARED)
    assert admit(prepared) is prepared
    committed = Message("orders", b"", properties={"TIMER_DELAY_SEC": "5"}, sys_flag=TRANSACTION_COMMIT)
    assert admit(committed).topic == TIMER_TOPIC


@pytest.mark.parametrize("text", ["", "x", "5s", "1.5", "9" * 19, "1" * 30, " 5", "٥"])
@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_no_number(name: str, text: str) -> None:
    with pytest.raises(InvalidTimerError, match=name) as caught:
        admit(asking(**{name: text}))
    assert isinstance(caught.value, InvalidMessageError)


@pytest.mark.parametrize("ms", [1.5, "5", None, True])
def test_no_whole_number_of_milliseconds(ms: Any) -> None:
    for call in (Message("orders", b"").deliver_at_ms, Message("orders", b"").deliver_after_ms):
        with pytest.raises(InvalidTimerError, match="whole number of milliseconds"):
            call(ms)


def test_the_last_time_that_is_asked_for_counts() -> None:
    message = asking(TIMER_DELAY_SEC="5", DELAY="2")
    message.delay_level = 3
    assert message.deliver_at_ms(NOW_MS + 70_000) is message
    assert parked_at(message) == slot_time_ms(NOW_MS + 70_000)
    assert parked_at(message.deliver_after_ms(9_000)) == slot_time_ms(NOW_MS + 9_000)
    assert (message.properties, message.delay_level) == ({"TIMER_DELAY_MS": "9000"}, 0)


def test_the_horizon() -> None:
    assert parked_at(asking(TIMER_DELAY_SEC=str(3 * 86_400))) == slot_time_ms(NOW_MS + 3 * DAY_MS)
    for wanted in ({"TIMER_DELAY_MS": str(3 * DAY_MS + 1)}, {"TIMER_DELAY_SEC": "9" * 18}):
        with pytest.raises(TimerTooFarError, match="timer_max_delay_s"):
            admit(asking(**wanted))


def test_a_second_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(full_seconds, 1_700_000_005, 10)
    monkeypatch.setitem(full_seconds, 1_700_000_006, 9)
    with pytest.raises(TimersCongestedError, match="10 timers"):
        admit(asking(TIMER_DELAY_SEC="5"))
    assert parked_at(asking(TIMER_DELAY_SEC="6")) == 1_700_000_006_000


def test_a_cancellation_stands_beside_its_timer() -> None:
    deliver_at_ms = NOW_MS + 60_500
    timer = admit(asking(TIMER_DELIVER_MS=str(deliver_at_ms)))
    found = admit(cancellation("orders", "U1", deliver_at_ms))
    assert timer.properties is not None
    assert found.properties is not None
    assert found.topic == TIMER_TOPIC
    assert found.properties["TIMER_OUT_MS"] == timer.properties["TIMER_OUT_MS"]
    assert found.properties["TIMER_DEL_UNIQKEY"] == "orders+U1"
    with pytest.raises(TimerTooLateError):
        admit(cancellation("orders", "U1", NOW_MS))
    with pytest.raises(InvalidTimerError, match="uniq_key"):
        cancellation("orders", "", deliver_at_ms)


def test_queues_and_topics_that_cannot_be() -> None:
    message = Message("orders", b"", properties={"TIMER_DELAY_SEC": "5"}, queue_id=-1)
    with pytest.raises(InvalidMessageError, match="queue_id"):
        admit(message)
    with pytest.raises(InvalidMessageError, match="topic"):
        admit(Message("a/b", b"", properties={"TIMER_DELAY_SEC": "5"}))
