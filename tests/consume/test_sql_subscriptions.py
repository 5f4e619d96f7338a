"""SQL92 filters where tags are taken: read, get, pull, subscriptions and consumers."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

import flightlog
from flightlog import GetStatus, Message, StoreSettings, sql
from flightlog.tests.support import process

LARGE = sql("amount > 100 AND region IS NOT NULL")
AMOUNTS = (50, 150, 100, 101, 5_000_000_000)


@pytest.fixture
def store(tmp_path: Path) -> flightlog.Store:
    store = flightlog.open(tmp_path / "store", StoreSettings.small())
    for amount in AMOUNTS:
        for region in ("eu", None):
            properties = {"amount": str(amount)} | ({"region": region} if region else {})
            store.put(Message("orders", f"{amount} {region}".encode(), tags="paid", properties=properties, queue_id=0))
    return store


EXPECTED = [b"150 eu", b"101 eu"]
"""5,000,000,000 is no Integer, and cannot be compared with 100."""


def test_reads(store: flightlog.Store) -> None:
    with store:
        assert [message.body for message in store.read("orders", filter=LARGE)] == EXPECTED
        assert [message.body for message in store.read("orders", 0, 3, filter=LARGE)] == EXPECTED[1:]
        found = store.get("orders", 0, 0, filter=LARGE)
        assert (found.status, found.next_queue_offset) == (GetStatus.FOUND, 10)
        assert [message.body for message in found.messages] == EXPECTED
        one = store.get("orders", 0, 0, 1, filter=LARGE)
        assert ([message.body for message in one.messages], one.next_queue_offset) == (EXPECTED[:1], 3)
        none = store.get("orders", 0, 0, filter=sql("amount > 2147483648 AND region = 'us'"))
        assert (none.status, none.next_queue_offset) == (GetStatus.NO_MATCHED_MESSAGE, 10)
        assert [m.body for m in store.pull("orders", 0, 0, filter=LARGE).result(process.LIMIT_S).messages] == EXPECTED
        is_paid = sql("TAGS IN ('paid', 'sent') AND amount = 50")
        assert len(list(store.read("orders", tags="*", filter=is_paid))) == 2


def test_a_read_only_view_reads(store: flightlog.Store) -> None:
    with store, flightlog.open_read_only(store.path) as view:
        assert [message.body for message in view.read("orders", filter=LARGE)] == EXPECTED
        assert [message.body for message in view.get("orders", 0, 0, filter=LARGE).messages] == EXPECTED


def test_a_pull_waits_for_a_message_that_matches(store: flightlog.Store) -> None:
    with store:
        found = store.pull("orders", 0, 10, filter=LARGE, wait_s=30)
        store.put(Message("orders", b"small", properties={"amount": "1", "region": "eu"}, queue_id=0))
        assert not found.done() or not found.result().messages
        pulled = store.pull("orders", 0, 11, filter=LARGE, wait_s=30)
        store.put(Message("orders", b"large", properties={"amount": "200", "region": "eu"}, queue_id=0))
        assert [message.body for message in pulled.result(process.LIMIT_S).messages] == [b"large"]


def test_a_subscription_passes_over_what_does_not_match(store: flightlog.Store) -> None:
    with store:
        with store.subscribe("orders", "billing", filter=LARGE, idle_s=0) as member:
            bodies = []
            for message in member:
                bodies.append(message.body)
                message.ack()
        assert sorted(bodies) == sorted(EXPECTED)
        assert store.group_offsets("billing", "orders")[0] == 10


def test_each_topic_of_a_subscription_has_its_own(store: flightlog.Store) -> None:
    with store:
        store.put(Message("bills", b"a bill", tags="x"))
        topics: dict[str, str | flightlog.SqlFilter | None] = {"orders": LARGE, "bills": "x || y"}
        with store.subscribe(topics, "both", idle_s=0) as member:
            assert sorted(message.body for message in member) == sorted([*EXPECTED, b"a bill"])


def test_members_of_a_group_agree_on_the_filter(store: flightlog.Store) -> None:
    with store, store.subscribe("orders", "g", filter=LARGE):
        with store.subscribe("orders", "g", filter=sql(LARGE.expression)):
            pass
        for other in ({"filter": sql("amount > 100")}, {"tags": "paid"}, {}):
            with pytest.raises(flightlog.InconsistentGroupError, match="amount > 100"):
                store.subscribe("orders", "g", **other)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_consumer_has_what_matches(store: flightlog.Store, ordered: bool) -> None:
    found, done = [], threading.Event()

    def take(message: flightlog.ReceivedMessage) -> None:
        found.append(message.body)
        if len(found) == len(EXPECTED):
            done.set()

    with store, flightlog.Consumer(store, "orders", "g", take, filter=LARGE, ordered=ordered):
        assert done.wait(process.LIMIT_S)
    assert sorted(found) == sorted(EXPECTED)


def test_several_stores(store: flightlog.Store) -> None:
    with (
        store,
        flightlog.Stores({"disk-a": store}) as stores,
        stores.subscribe("orders", "g", filter=LARGE, idle_s=0) as member,
    ):
        assert sorted(message.body for message in member) == sorted(EXPECTED)


def test_an_answer_ends_where_one_by_tags_does(tmp_path: Path) -> None:
    """A filter reads many records at once, tags one by one: limits of count, size and entries hold the same way."""
    rng = random.Random(22)
    for number, limits in enumerate(
        ({}, {"get_memory_max_count": 5}, {"get_memory_max_size": 900, "get_scan_size": 300})
    ):
        with flightlog.open(tmp_path / f"store-{number}", StoreSettings.small(**limits)) as store:
            for _ in range(600):
                store.put(Message("t", b"x" * 50, tags=rng.choice("AAB"), queue_id=0))
            for _ in range(300):
                at, count, size = rng.randint(-1, 601), rng.randint(1, 40), rng.choice((None, 1, 500, 2_000, 100_000))
                tag = rng.choice("ABC")
                by_filter = store.get("t", 0, at, count, filter=sql(f"TAGS = '{tag}'"), max_size=size)
                assert by_filter == store.get("t", 0, at, count, tags=tag, max_size=size), (
                    at,
                    count,
                    size,
                    tag,
                    limits,
                )
