"""What the page changes, and that it asks before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flightlog import Message
from flightlog.serve.page.guard import FORM_TOKEN

if TYPE_CHECKING:
    from flightlog.tests.serve.page.conftest import Browser, Shown


@pytest.fixture
def token(browser: Browser) -> dict[str, str]:
    return {FORM_TOKEN: browser.form_token("/dead?group=mailer")}


def test_chosen_dead_letters_are_redriven_after_a_question(
    browser: Browser, page: Shown, token: dict[str, str]
) -> None:
    first, second, _ = page.store.redrive("mailer", dry_run=True).message_ids
    fields = {**token, "group": "mailer", "id": [first, second]}
    asked = browser.post("/redrive", fields)
    assert "Redrive 2 dead letters of group mailer?" in asked.words and "orders 2" in asked.words
    assert len(page.store.redrive("mailer", dry_run=True)) == 3, "it only asks"
    done = browser.post("/redrive", {**fields, "confirmed": "1"})
    assert (done.status, done.headers["location"]) == (303, "/dead?group=mailer&done=2")
    words = browser.get(done.headers["location"]).words
    assert "2 dead letters redriven." in words and "3 dead letters, 1 not redriven." in words
    assert words.count(" redriven") >= 3
    assert page.store.queue_bounds("orders", 0)[1] == 51


def test_all_dead_letters_are_redriven(browser: Browser, page: Shown, token: dict[str, str]) -> None:
    browser.post("/redrive", {**token, "group": "mailer", "all": "1", "confirmed": "1"})
    assert len(page.store.redrive("mailer", dry_run=True)) == 0
    again = browser.post("/redrive", {**token, "group": "mailer", "all": "1"})
    assert "Nothing would change." in again.words


def test_dead_letters_that_have_nowhere_to_go_say_so(browser: Browser, page: Shown, token: dict[str, str]) -> None:
    page.store.put(Message("%DLQ%mailer", b"lost", properties={"RETRY_TOPIC": "removed"}))
    assert "They cannot be redriven:" in browser.get("/dead?group=mailer").words
    answer = browser.post("/redrive", {**token, "group": "mailer", "all": "1"})
    assert answer.status == 400 and "removed" in answer.words


def test_no_letter_chosen_is_one_sentence(browser: Browser, token: dict[str, str]) -> None:
    answer = browser.post("/redrive", {**token, "group": "mailer"})
    assert answer.status == 400 and "no dead letter was chosen" in answer.words


@pytest.mark.parametrize(("to", "offset", "what"), [("last", 50, "46 skipped"), ("first", 0, "4 delivered again")])
def test_offsets_are_reset_after_a_question(
    browser: Browser, page: Shown, token: dict[str, str], to: str, offset: int, what: str
) -> None:
    fields = {**token, "name": "billing", "topic": "orders", "to": to}
    asked = browser.post("/reset", fields)
    assert "Reset the offsets of group billing in orders?" in asked.words
    assert f"3 4 {offset} {what}" in asked.words
    assert page.store.group_offsets("billing", "orders")[3] == 4, "it only asks"
    done = browser.post("/reset", {**fields, "confirmed": "1"})
    assert "The offsets were reset." in browser.get(done.headers["location"]).words
    assert page.store.group_offsets("billing", "orders")[3] == offset


def test_one_queue_is_reset(browser: Browser, page: Shown, token: dict[str, str]) -> None:
    fields = {**token, "name": "billing", "topic": "orders", "queue": "3", "to": "offset", "offset": "7"}
    asked = browser.post("/reset", fields)
    assert "Reset the offsets of group billing in queue 3 of orders?" in asked.words
    assert "3 4 7 3 skipped" in asked.words and "50" not in asked.words
    assert "Remoting clients" not in asked.words
    browser.post("/reset", {**fields, "confirmed": "1"})
    assert page.store.group_offsets("billing", "orders") == {0: 50, 1: 50, 2: 50, 3: 7}
    for wrong in ({"queue": "x"}, {"queue": "-1"}, {"queue": "9" * 30}, {"offset": ""}, {"offset": "1.5"}):
        refused = browser.post("/reset", {**fields, **wrong, "confirmed": "1"})
        assert refused.status == 400 and "expected a whole number" in refused.words, wrong
    assert browser.post("/reset", {**fields, "queue": "4", "confirmed": "1"}).status == 400
    assert browser.post("/reset", {**fields, "form_token": "?"}).status == 403
    assert page.store.group_offsets("billing", "orders")[3] == 7


def test_offsets_are_reset_to_a_time(browser: Browser, page: Shown, token: dict[str, str]) -> None:
    fields = {**token, "name": "billing", "topic": "orders", "to": "time", "time": "2020-01-01"}
    browser.post("/reset", {**fields, "confirmed": "1"})
    assert set(page.store.group_offsets("billing", "orders").values()) == {0}
    assert browser.post("/reset", {**fields, "time": "soon"}).status == 400
    assert browser.post("/reset", {**fields, "to": "elsewhere"}).status == 400


def test_a_delayed_message_is_cancelled_after_a_question(browser: Browser, page: Shown, token: dict[str, str]) -> None:
    [timer] = page.store.get("rmq_sys_wheel_timer", 0, 0, 1).messages
    due = str(int(timer.properties["TIMER_OUT_MS"]) + 1000)
    assert f'name="due" value="{due}"' in browser.get("/delays").text
    fields = {**token, "topic": "mails", "uniq_key": "AB01", "due": due}
    assert "Cancel the delayed message?" in browser.post("/cancel", fields).words
    assert page.store.queue_bounds("rmq_sys_wheel_timer", 0)[1] == 1, "it only asks"
    done = browser.post("/cancel", {**fields, "confirmed": "1"})
    words = browser.get(done.headers["location"]).words
    assert "The delayed message was cancelled." in words and "reminder-1" not in words
    assert browser.post("/cancel", {**fields, "uniq_key": "other", "confirmed": "1"}).status == 400
