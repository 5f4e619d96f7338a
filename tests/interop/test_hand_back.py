"""What a broker owed consumer groups when it was stopped or killed: it is delivered here under the same rules, or told.

Transactions that a broker left open: test_transactions.py; its timers: test_timers.py; its delays: test_delays.py.
"""

from __future__ import annotations

import json
import logging
from itertools import islice
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.consume.pop.debts import PopDebts, pop_debts
from flightlog.testing.clock import ManualClock
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore

pytestmark = pytest.mark.ci

LEVELS = " ".join(["1s"] * 18)
SETTINGS = StoreSettings(segment_size=1 << 20, queue_file_entries=1000, key_index=False, delay_levels=LEVELS)
SIZES = {"segmentSize": 1 << 20, "queueEntries": 1000, "index": False, "config.messageDelayLevel": LEVELS}
COUNT = 12


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == "flightlog.pop"]
    caplog.clear()
    return found


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_a_broker_owed_its_groups(
    rocketmq: RocketMq, tmp_path: Path, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    root = tmp_path / "store"
    with flightlog.open(root, SETTINGS) as store:
        store.create_topic("orders", 1)
        store.put_many(Message("orders", b"%d" % number) for number in range(COUNT))
        places = [message.physical_offset for message in store.read("orders")]
    orders: list[tuple[object, ...]] = [
        *(("group", name) for name in ("pops", "members")),
        ("sleep", 2_000),
        ("pop", "pops", "orders", 3, 2_000, "a"),  # not acknowledged: they are in the retry topic at the end
        ("pop", "pops", "orders", 5, 600_000, "b"),  # in process at the end, but for one
        ("ack", "pops", "orders", "b0"),
        *(("back", "members", place, 0) for place in places[:4]),  # members of a group failed with four
        ("arrived", "%RETRY%pops_orders", 3),
        ("arrived", "%RETRY%members", 4),
        ("sleep", 6_000),
        *([("halt",)] if end == "killed" else []),
    ]
    path = tmp_path / "orders"
    path.write_text("".join("\t".join(map(str, words)) + "\n" for words in orders))
    with rocketmq.run("pop", {"path": root, "orders": path, **SIZES}, 300) as output:
        lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert not [line for line in lines if line["type"] == "missing"]
    assert [line["code"] for line in lines if line["type"] == "back"] == [0] * 4
    assert sum(line["type"] == "popped" for line in lines) == 8

    with flightlog.open_read_only(root) as view:
        last_ms = max(m.store_timestamp_ms for key in view.queues() for m in view.read(*key))
    here = PoppedStore(root, ManualClock(last_ms + 1000), SETTINGS)
    assert pop_debts(inside.engine(here.store), "pops", {"orders"}) == PopDebts(4, 3)
    here.store.subscribe("orders", "pops").close()
    [warning] = told(caplog)
    assert "4 messages are not acknowledged, 3 wait in its retry topics" in warning

    with here.store.subscribe("orders", "members", start=flightlog.StartFrom.LAST) as member:
        failed = list(islice(member, 4))
        assert {(each.body, each.topic, each.attempt) for each in failed} == {
            (b"%d" % number, "orders", 2) for number in range(4)
        }
        assert all(each.ack() for each in failed)
    assert told(caplog) == []

    received = [each for _ in range(4) for each in here.receive(group="pops")]
    assert sorted(int(each.body) for each in received if each.attempt == 2) == [0, 1, 2]
    assert sorted(int(each.body) for each in received if each.attempt == 1) == list(range(8, COUNT))
    here.store.ack(*(each.handle for each in received))
    for _ in range(600):  # the others become visible
        here.pass_time(1_000)
    again = [each for _ in range(4) for each in here.receive(group="pops")]
    assert sorted(int(each.body) for each in again) == [4, 5, 6, 7] and {each.attempt for each in again} == {2}
    here.store.ack(*(each.handle for each in again))
    assert not pop_debts(inside.engine(here.store), "pops", {"orders"})
    here.store.subscribe("orders", "pops").close()
    assert told(caplog) == []
    here.store.close()
    with flightlog.open_read_only(root) as view:
        assert view.verify().is_clean
