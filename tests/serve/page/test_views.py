"""The views of the page: what each shows of a store, and that nothing a client sent becomes HTML."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest

import flightlog
from flightlog import Message
from flightlog.serve.calls.clients import ConnectedClient
from flightlog.serve.page import topics
from flightlog.serve.page.groups import QueueRow, reasons
from flightlog.serve.page.page import READS
from flightlog.serve.page.shown import CLIP_SIZE, duration, size, time
from flightlog.serve.page.site import PageError, checked_time_ms
from flightlog.testing import FaultyDisk
from flightlog.tests.serve.page.conftest import HOSTILE, UNIQ_KEY, Browser, shown

if TYPE_CHECKING:
    from pathlib import Path

    from flightlog.tests.serve.page.conftest import Shown


def message_path(page: Shown, topic: str, queue_id: int = 0, queue_offset: int = 0) -> str:
    [found] = page.store.get(topic, queue_id, queue_offset, 1).messages
    return f"/message?at={found.physical_offset}"


def test_the_overview_shows_groups_by_lag_and_topics(browser: Browser) -> None:
    words = browser.get("/").words
    assert "The store takes messages." in words
    assert words.index("billing") < words.index("mailer")
    assert "orders 200 4 normal" in words
    assert "3 dead letters of mailer" in words


def test_a_topic_shows_its_newest_messages_and_its_queues(browser: Browser) -> None:
    words = browser.get("/topic?name=orders").words
    assert "200 messages in 4 queues" in words
    assert "order-199" in words and "order-175" in words and "order-174" not in words
    assert "read by billing , mailer" in words


def test_a_topic_says_how_many_empty_queues_are_not_listed(
    browser: Browser, page: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those above 65,536 were left out without a word, and not counted."""
    assert "not listed" not in browser.get("/topic?name=orders").words
    page.store.create_topic("wide", 10)
    page.store.put(Message("wide", b"x", queue_id=7))
    monkeypatch.setattr(topics, "MAX_ROUTED_QUEUES", 3)
    words = browser.get("/topic?name=wide").words
    listed = [f"Queue {queue_id} " in words for queue_id in range(10)]
    assert listed == [queue_id in (0, 1, 2, 7) for queue_id in range(10)]
    assert "1 message in 10 queues" in words and "6 more queues without messages are not listed." in words


def test_older_messages_of_a_queue_are_one_link_away(browser: Browser) -> None:
    first = browser.get("/topic?name=orders&queue=1")
    assert "order-197" in first.words and "order-101" in first.words
    [older] = re.findall(r'href="([^"]+)">Older', first.text)
    second = browser.get(older.replace("&amp;", "&")).words
    assert "order-97 " in second and "order-1 " in second and "Older" not in second


@pytest.mark.parametrize("by", ["key", "uniq", "id"])
def test_one_message_that_is_found_is_shown_at_once(browser: Browser, page: Shown, by: str) -> None:
    [found] = page.store.get("orders", 3, 1, 1).messages
    text = {"key": "order-7", "uniq": UNIQ_KEY, "id": found.message_id}[by]
    answer = browser.get("/find?" + urlencode({"by": by, "text": text}))
    assert answer.status == 303
    assert answer.headers["location"] == f"/message?at={found.physical_offset}"
    words = browser.get(answer.headers["location"]).words
    assert '{"order": 7}' in words and UNIQ_KEY in words and "trace t7" in words and found.message_id in words


def test_messages_are_found_from_a_time_on(browser: Browser, page: Shown) -> None:
    put = page.store.put(Message("orders", b"late", keys="late-1", queue_id=0))
    words = browser.get(f"/find?by=time&topic=orders&text={put.store_timestamp_ms}").words
    assert "All from then on, oldest first." in words and "late-1" in words
    nothing = browser.get("/find?by=time&topic=orders&text=2999-01-01T00:00Z").words
    assert "Topic orders has no message from then on." in nothing


def test_a_search_without_a_hit_says_where_it_looked(browser: Browser) -> None:
    assert "No message with the key nothing in all 3 topics." in browser.get("/find?text=nothing").words


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/topic?name=absent", 404, "there is no topic 'absent'"),
        ("/group?name=absent", 404, "there is no group 'absent'"),
        ("/message?at=3", 404, "there is no message at 3"),
        ("/message?at=x", 400, "at is 'x': expected a whole number"),
        ("/message", 400, "needs at="),
        ("/find?by=time&text=now&topic=orders", 400, "expected a time such as"),
        ("/find?by=id&text=zz", 400, "zz"),
        ("/find?by=who&text=zz", 400, "expected one of key, uniq, id, time"),
        ("/?store=other", 404, "no store 'other'"),
        ("/absent", 404, "Not Found"),
    ],
)
def test_what_is_not_there_is_one_sentence(browser: Browser, path: str, status: int, text: str) -> None:
    answer = browser.get(path)
    assert (answer.status, text in answer.words) == (status, True), answer.words


def test_a_long_body_is_clipped_and_says_so(browser: Browser, page: Shown) -> None:
    path = message_path(page, "mails")
    whole = HOSTILE.encode() * 1000
    words = browser.get(path).words
    assert f"the first {CLIP_SIZE:,} of {len(whole):,} bytes" in words
    downloaded = browser.get(path.replace("/message", "/body"))
    assert downloaded.body == whole
    assert downloaded.headers["content-type"] == "application/octet-stream"
    assert downloaded.headers["content-disposition"].startswith("attachment")


def test_a_body_is_shown_in_each_form(browser: Browser, page: Shown) -> None:
    path = message_path(page, "orders")
    assert "hex, all of it: 12 bytes" in (words := browser.get(f"{path}&form=hex").words)
    assert "00000000 7b 22 6f 72 64 65 72 22 3a 20 30 7d" in words
    assert "eyJvcmRlciI6IDB9" in browser.get(f"{path}&form=base64").words
    page.store.put(Message("mails", b"\x00\xff\xfe"))
    assert "hex, all of it: 3 bytes" in browser.get(message_path(page, "mails", 0, 1)).words


def test_a_body_that_a_client_compressed_is_shown_as_it_was_sent(browser: Browser, page: Shown) -> None:
    packed = zlib.compress(b"packed by a client " * 50)
    page.store.put(Message("mails", packed, sys_flag=1 | 3 << 8))
    words = browser.get(message_path(page, "mails", 0, 1)).words
    assert f"stored compressed, in {len(packed):,} bytes" in words
    assert "packed by a client packed by a client" in words


def test_nothing_that_a_client_sent_becomes_html(browser: Browser, page: Shown) -> None:
    place = message_path(page, "mails").partition("?")[2]
    queries = {
        "/topic": "name=mails",
        "/find": urlencode({"text": HOSTILE, "topic": "mails"}),
        "/message": place,
        "/group": urlencode({"name": HOSTILE}),
        "/dead": urlencode({"group": HOSTILE}),
    }
    for path in READS.keys() - {"/body"}:
        answer = browser.get(f"{path}?{queries.get(path, urlencode({'done': HOSTILE, 'by': 'key'}))}")
        assert "<script>alert" not in answer.text, path
        seen = re.sub(r'(?:value|href)="[^"]*"', "", answer.text)  # what is sent back must be what was sent
        assert "\u202e" not in seen and "\x07" not in seen, f"{path}: it would turn the text around, or be unseen"


def test_a_group_says_why_it_lags(browser: Browser) -> None:
    words = browser.get("/group?name=billing").words
    assert "46 messages behind" in words
    assert "No member is connected: nothing receives its messages." in words
    assert "100 % of the lag is in queue 3 of orders." in words
    assert "The first waiting message has been in the store for" in words


def test_a_group_shows_its_members_and_their_queues(browser: Browser, page: Shown) -> None:
    with page.store.subscribe("orders", "billing", member="worker-7") as subscription:
        while len(subscription.queues) < 4:
            subscription.poll()
        words = browser.get("/group?name=billing").words
        assert "worker-7 in this process" in words
        assert re.search(r"orders , queue 3 .*? worker-7", words)
        assert page.store.groups()["billing"].owners == {("orders", queue_id): "worker-7" for queue_id in range(4)}


def test_messages_that_failed_are_counted_among_the_reasons(page: Shown, browser: Browser) -> None:
    page.store.put(Message("%RETRY%billing", b"again", properties={"RETRY_TOPIC": "orders"}))
    assert "1 message failed before and wait" in browser.get("/group?name=billing").words


def test_reasons_name_what_is_switched_off(page: Shown) -> None:
    page.store.update_group("billing", is_enabled=False)
    page.store.update_topic("orders", perm=flightlog.TopicPermission.WRITE)
    state = page.store.groups()["billing"]
    rows = [QueueRow("orders", 3, 0, 50, 4, 46, "", None)]
    client = ConnectedClient("one", "127.0.0.1:1", "push consumer")
    found = reasons(page.store, state, rows, [client])
    assert found[0].startswith("The group is disabled")
    assert found[1].startswith("Topic orders is closed for consumers")
    assert found[-1].startswith("1 member is connected")


def test_a_message_says_what_became_of_it_in_each_group(browser: Browser, page: Shown) -> None:
    words = browser.get(message_path(page, "orders", 0, 10)).words
    assert "mailer dead letter: all attempts failed" in words and "%DLQ%mailer (3 deliveries before)" in words
    assert "billing the group is past it" in words
    assert "waits: 6 messages before it in its queue" in browser.get(message_path(page, "orders", 3, 10)).words


def test_a_dead_letter_leads_to_the_first_record(browser: Browser, page: Shown) -> None:
    [origin] = page.store.get("orders", 0, 10, 1).messages
    answer = browser.get(message_path(page, "%DLQ%mailer"))
    assert f'href="/message?at={origin.physical_offset}"' in answer.text
    assert "3 deliveries before this record." in answer.words


def test_delays_show_timers_and_levels(browser: Browser) -> None:
    words = browser.get("/delays").words
    assert "1 timer pending." in words and "reminder-1" in words
    assert "Level 18: 2 h 1 message pending." in words and "reminder-2" in words


def test_a_store_that_takes_nothing_says_so(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = flightlog.open(tmp_path / "store", flightlog.StoreSettings.small(), disk=disk)
    with shown(store) as page:
        browser = Browser(page.port, page.link)
        store.put(Message("orders", b"one"))
        store.flush()
        disk.fail_syncs()
        with pytest.raises(flightlog.DiskError):
            store.put(Message("orders", b"not flushed"))
            store.flush()
        assert "The store takes no more messages:" in browser.get("/").words
        disk.heal()
        store.close()
        assert browser.get("/").status == 503


def test_a_name_is_found_by_its_link(browser: Browser, page: Shown) -> None:
    group = "gr|%25oup-x"
    page.store.update_group(group, is_ordered=True)
    answer = browser.get("/groups")
    assert f"/group?name={quote(group, safe='')}" in answer.text
    assert "In order" in browser.get(f"/group?name={quote(group, safe='')}").words


def test_times_sizes_and_durations_are_short() -> None:
    assert time(0) == "1970-01-01 00:00:00.000 UTC"
    assert time(-1) == "-1 ms"
    assert [size(each) for each in (0, 1023, 1024, 1536, 5 << 30)] == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB"]
    assert [duration(each) for each in (0, 5, 59_999, 61_000, 7_200_000, 90_000_000)] == [
        *("0 s", "5 ms", "59 s", "1 min 1 s", "2 h", "1 d 1 h")
    ]


@pytest.mark.parametrize(
    "text", ["2026-11-26 19:28", "2026-11-26T19:28:00Z", "2026-11-26 20:28+01:00", "1795721280000"]
)
def test_a_time_is_read_as_people_write_it(text: str) -> None:
    assert checked_time_ms(text) == 1_795_721_280_000
    with pytest.raises(PageError, match="expected a time such as"):
        checked_time_ms(f"x{text}")
