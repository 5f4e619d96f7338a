"""`flightlog topic`, `group commit`, `dead-letters list`, `delays`, `config`: shown first, done with --write alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings, TopicPermission

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

HOUR_MS = 3_600_000


def topic(path: Path, name: str) -> flightlog.Topic | None:
    with flightlog.open_read_only(path) as view:
        return view.topic(name)


@pytest.mark.ci
def test_topics(cli: Cli, clean_store: Path) -> None:
    create = ("topic", "create", clean_store, "bills", "--queues", "3", "--perm", "r", "--attribute", "a=b")
    finished = cli(*create)
    assert finished.code == 0
    assert finished.out == "to be created: bills: 3 read queues, 3 write queues, r, a=b. Create it with --write\n"
    assert topic(clean_store, "bills") is None
    assert cli(*create, "--write").out == "created: bills: 3 read queues, 3 write queues, r, a=b\n"
    again = cli(*create)
    assert again.code == 2 and "there is a topic 'bills' already" in again.err
    alter = ("topic", "alter", clean_store, "bills", "--read-queues", "5", "--perm", "rw")
    assert "to be: bills: 5 read queues, 3 write queues, rw, a=b. Change it" in cli(*alter).out
    assert "is: bills: 5 read queues" in cli(*alter, "--write").out
    found = topic(clean_store, "bills")
    assert found is not None and (found.read_queue_count, found.write_queue_count) == (5, 3)
    assert found.perm == TopicPermission.READ | TopicPermission.WRITE
    nothing = cli("topic", "alter", clean_store, "bills")
    assert nothing.code == 2 and "nothing to change" in nothing.err
    assert cli("topic", "create", clean_store, "x", "--perm", "q").code == 2
    delete = ("topic", "delete", clean_store, "orders")
    assert cli(*delete).out == "to be deleted: topic orders: 900 messages in 3 queues. Delete it with --write\n"
    assert topic(clean_store, "orders") is not None
    with flightlog.open(clean_store):
        refused = cli(*delete, "--write")
    assert refused.code == 4, "another writer has the store open"
    assert cli(*delete, "--write").code == 0 and topic(clean_store, "orders") is None
    missing = cli(*delete)
    assert missing.code == 2 and "'orders'" in missing.err


@pytest.mark.ci
def test_a_groups_offset_and_settings(cli: Cli, clean_store: Path) -> None:
    commit = ("group", "commit", clean_store, "billing", "orders", "1", "77")
    shown = cli(*commit)
    assert shown.code == 0 and "queue 1 (0 to 300): none -> 77. Commit it with --write" in shown.out
    assert cli(*commit, "--write").code == 0
    assert cli("group", "commit", clean_store, "billing", "nothing", "0", "1").code == 2
    change = ("config", "set", clean_store, "billing", "--retry-max-times", "3", "--disabled")
    assert cli(*change).out.splitlines() == [
        "billing is_enabled: True -> False",
        "billing retry_max_times: 16 -> 3",
        "to be set. Set it with --write",
    ]
    assert cli("config", "set", clean_store, "billing").code == 2
    assert cli(*change, "--write").code == 0
    with flightlog.open(clean_store) as store:
        assert store.group_offsets("billing", "orders") == {1: 77}
        settings = store.group_settings("billing")
        assert settings.retry_max_times == 3 and not settings.is_enabled
    kept = json.loads(cli("config", "show", clean_store, "--json").out)
    assert set(kept) == {"sizes", "topics", "groups"} and kept["sizes"]["segment_size"] == 64 << 10
    assert kept["groups"]["billing"]["retry_max_times"] == 3 and kept["topics"]["orders"]["name"] == "orders"
    shown = cli("config", "show", clean_store)
    assert shown.code == 0 and "segment_size" in shown.out and "orders: " in shown.out and "billing" in shown.out


def test_dead_letters_are_listed(cli: Cli, clean_store: Path) -> None:
    with flightlog.open(clean_store) as store:
        store.create_topic("late", 1)
        properties = {"RETRY_TOPIC": "late"}
        store.put(Message("%DLQ%billing", b"no", tags="t", keys=["a", "b"], properties=properties))
    listed = json.loads(cli("dead-letters", "list", clean_store, "billing", "--json").out)
    assert [(each["topic"], each["keys"], each["tags"], each["is_redriven"]) for each in listed] == [
        ("late", ["a", "b"], "t", False)
    ]
    assert cli("dead-letters", "redrive", clean_store, "billing", "--write").code == 0
    finished = cli("dead-letters", "list", clean_store, "billing")
    assert finished.code == 0 and finished.out.endswith("1 dead letter, 0 of them not redriven\n")
    assert ["yes", "late"] in [line.split()[3:5] for line in finished.out.splitlines()]


@pytest.mark.parametrize("kind", ["TIMER_DELIVER_MS", "TIMER_DELAY_SEC"])
def test_delays_are_listed_and_timers_cancelled(cli: Cli, clean_store: Path, kind: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    wanted = str(now_ms + HOUR_MS) if kind == "TIMER_DELIVER_MS" else "3600"
    with flightlog.open(clean_store, StoreSettings(deliver_delayed=False)) as store:
        for _ in range(2):
            store.put(Message("orders", b"later", delay_level=18))
        for key in ("A", "B"):
            properties = {kind: wanted, "UNIQ_KEY": key}
            store.put(Message("orders", b"timer", properties=properties))
        found = list(flightlog.waiting_delays(store))
        assert [(each.level, each.topic, each.message.body) for each in found] == [
            *[(18, "orders", b"later")] * 2,
            *[(None, "orders", b"timer")] * 2,
        ]
        assert all(now_ms + HOUR_MS <= each.deliver_at_ms <= now_ms + 3 * HOUR_MS for each in found)
    finished = cli("delays", "list", clean_store)
    assert finished.code == 0 and finished.out.endswith("4 messages waiting: 2 by level, 2 by timer\n")
    cancel = ("delays", "cancel", clean_store, "orders", "A")
    shown = cli(*cancel)
    assert shown.code == 0 and "to be cancelled: orders A, due " in shown.out
    assert cli(*cancel, "--write").code == 0
    listed = json.loads(cli("delays", "list", clean_store, "--topic", "orders", "--json").out)
    assert [(each["level"], each["uniq_key"]) for each in listed if each["level"] is None] == [(None, "B")]
    again = cli(*cancel)
    assert again.code == 2 and "no timer of it that waits" in again.err
