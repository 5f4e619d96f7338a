"""What `info` tells of what waits: groups, delays, timers, transactions, dead letters; and of settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.produce.transaction.half_message import half_queue_offsets

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

FAR_MS = 3 * 86_400_000


def info(cli: Cli, path: Path, *options: str | Path) -> dict[str, Any]:
    finished = cli("info", path, "--json", *options)
    assert (finished.code, finished.err) == (0, "")
    found: dict[str, Any] = json.loads(finished.out)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        yield store


def test_what_waits_is_told(cli: Cli, store: flightlog.Store, path_of: Callable[[flightlog.Store], Path]) -> None:
    now_ms = store.message_store.clock.now_ms()
    store.put_many(Message("orders", b"x", queue_id=0) for _ in range(9))
    store.commit_offset("billing", "orders", 0, 4)
    store.put_many(Message("orders", b"x", delay_level=18) for _ in range(3))
    for number in range(4):
        properties = {"TIMER_DELIVER_MS": str(now_ms + FAR_MS // 2 + number)}
        store.put(Message("orders", b"x", uniq_key=f"T{number}", properties=properties))
    store.put(Message("%DLQ%billing", b"x", properties={"RETRY_TOPIC": "orders"}))
    producer = flightlog.Producer(store)
    ended, open_one = (producer.transaction(Message("orders", b"x", uniq_key=key)) for key in "ab")
    with ended:
        ended.commit()
    open_one.__enter__()
    statistics = store.statistics()
    path = path_of(store)
    found = info(cli, path)
    assert found["groups"] == {"billing": {"lag": 6, "topics": ["orders"]}}
    assert sum(each["pending"] for each in found["delays"]) == 3
    assert statistics.timers is not None and found["timers"] == statistics.timers.pending == 4
    assert (found["half_messages"], found["dead_letters"]) == (1, {"billing": 1})
    assert found["settings"]["segment_size"] == {"value": 1 << 20, "default": 1 << 30}
    facts = dict(
        line.split("  ", 1) for line in cli("info", path).out.splitlines() if line[:1].isalpha() and "  " in line
    )
    told = {name: value.strip() for name, value in facts.items()}
    assert told["groups"] == "1 group, lag 6" and told["dead letters"] == "1 of billing"
    assert told["waiting"] == "3 by delay level, 4 timers, 1 open transaction"
    assert "segment_size=1048576" in told["not by default"]


@pytest.fixture
def path_of() -> Callable[[flightlog.Store], Path]:
    """Closes the store."""

    def close(store: flightlog.Store) -> Path:
        store.close()
        return Path(store.path)

    return close


def test_half_messages_of_a_broker(cli: Cli, golden: Callable[[str], Path]) -> None:
    """Those that no op message names."""
    path = golden("delay-tx") / "store"
    with flightlog.open_read_only(path) as view:
        ops = view.read("RMQ_SYS_TRANS_OP_HALF_TOPIC")
        over = {offset for op in ops for offset in half_queue_offsets(op)}
        halves = [each.queue_offset for each in view.read("RMQ_SYS_TRANS_HALF_TOPIC")]
    assert over and info(cli, path)["half_messages"] == len(set(halves) - over) > 0


def test_settings_of_a_file_are_told(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=24\n")
    found = info(cli, clean_store, "--settings", conf)["settings"]
    assert found["retention_hours"] == {"value": 24, "default": StoreSettings().retention_hours}


def test_offsets_that_cannot_be_read_are_a_note(cli: Cli, clean_store: Path) -> None:
    (clean_store / "config" / "consumerOffset.json").write_text("{torn")
    (clean_store / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    found = info(cli, clean_store)
    assert found["groups"] is None and found["half_messages"] is None
    assert any("consumerOffset.json" in note for note in found["notes"])
    assert "not known" in cli("info", clean_store).out
