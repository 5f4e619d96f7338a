"""`flightlog replay` and `flightlog trim`: shown first, done with --write alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import UsageError
from flightlog.tests.support.rocketmq_server import ServedStore
from flightlog.tools.transfer.replay_messages import replay_messages
from flightlog.tools.transfer.sources import read_source

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

LONG_AGO_S = 1_600_000_000


def test_a_replay_keeps_the_order_and_the_rate(clean_store: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    now, waits = [100.0], list[float]()

    def wait_s(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    put: list[Message] = []
    every = list(read_source(clean_store))
    assert replay_messages(put.append, every[:5], 4, now_s=lambda: now[0], wait_s=wait_s) == 5
    assert put == [each.message for each in every[:5]] and waits == [0.25] * 4
    with flightlog.open(tmp_path / "new", StoreSettings.small()) as store:
        assert replay_messages(store.put, every) == 900 == replay_messages(store.put, every)
        assert store.queues() == {("orders", queue_id): (0, 600) for queue_id in range(3)}
        bad = [every[0], every[1]]
        bad[1].message.topic = "not/good"
        with pytest.raises(UsageError, match="topic orders queue 1 offset 0: .* 1 messages were put before it"):
            replay_messages(store.put, bad)
    assert_clean(tmp_path / "new")


def test_replays_into_a_store(cli: Cli, clean_store: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    new = tmp_path / "new"
    call = ("replay", clean_store, new, "--from", "298", "--rate", "1000")
    shown = cli(*call)
    assert (shown.code, shown.out) == (
        0,
        f"to be replayed: 6 messages to {new}, which takes 5 ms. Replay them with --write\n",
    )
    assert not new.exists()
    assert cli(*call, "--write").out == f"replayed: 6 messages to {new}\n"
    with flightlog.open_read_only(new) as view:
        assert view.queues() == {("orders", queue_id): (0, 2) for queue_id in range(3)}
    assert_clean(new)
    neither = cli("replay", clean_store)
    assert neither.code == 2 and "--connect HOST:PORT" in neither.err


def test_replays_to_a_server(cli: Cli, tmp_path: Path, assert_clean: AssertClean) -> None:
    source, served = tmp_path / "source", ServedStore(tmp_path / "served", StoreSettings.small())
    with flightlog.open(source, StoreSettings.small()) as store:
        store.put(Message("orders", b"one", tags="paid", keys=["a", "b"], properties={"amount": "7"}, flag=3))
    served.start()
    try:
        done = cli("replay", source, "--connect", served.address, "--write")
        assert (done.code, done.out) == (0, f"replayed: 1 message to {served.address}\n")
        [found] = [m for key in served.store.queues() if key[0] == "orders" for m in served.store.read(*key)]
        assert (found.body, found.tags, list(found.keys)) == (b"one", "paid", ["a", "b"])
        assert found.properties["amount"] == "7"
    finally:
        served.stop()
    assert_clean(served.path)


def test_old_segments_are_trimmed(cli: Cli, clean_store: Path, assert_clean: AssertClean) -> None:
    segments = sorted((clean_store / "commitlog").iterdir())
    assert len(segments) > 3
    for each in segments[:2]:
        os.utime(each, (LONG_AGO_S, LONG_AGO_S))
    for rule, gone in ((("--before", "1d"), segments[:2]), (("--keep-bytes", "1"), segments[:-1])):
        found = json.loads(cli("trim", clean_store, *rule, "--json").out)
        assert [each["path"] for each in found["segments"]] == list(map(str, gone)) and not found["is_written"]
    assert sorted((clean_store / "commitlog").iterdir()) == segments
    done = cli("trim", clean_store, "--before", "1d", "--write")
    assert done.code == 0 and "removed: 2 segments, 128 KiB" in done.out
    assert sorted((clean_store / "commitlog").iterdir()) == segments[2:]
    with flightlog.open(clean_store):
        assert cli("trim", clean_store, "--before", "1d", "--write").code == 4
    assert "removed: " in cli("trim", clean_store, "--keep-bytes", "1", "--write").out
    assert sorted((clean_store / "commitlog").iterdir()) == segments[-1:]
    wrong = cli("trim", clean_store, "--keep-bytes", "1", "--before", "1d")
    assert wrong.code == 2 and "expected one of" in wrong.err
    assert_clean(clean_store)


def test_what_all_consumed_is_trimmed(cli: Cli, clean_store: Path, assert_clean: AssertClean) -> None:
    count = len(list((clean_store / "commitlog").iterdir()))
    shown = cli("trim", clean_store, "--consumed-by-all")
    assert "the next one stays: no group has consumed" in shown.out and "to be removed: 0 segments" in shown.out
    with flightlog.open(clean_store) as store:
        for queue_id in range(3):
            store.commit_offset("billing", "orders", queue_id, 300)
    assert f"to be removed: {count - 1} segments" in cli("trim", clean_store, "--consumed-by-all").out
    assert len(list((clean_store / "commitlog").iterdir())) >= count
    assert f"removed: {count - 1} segments" in cli("trim", clean_store, "--consumed-by-all", "--write").out
    assert_clean(clean_store)


@pytest.mark.parametrize("command", ["replay", "import"])
def test_messages_are_put_as_they_were(cli: Cli, tmp_path: Path, command: str, assert_clean: AssertClean) -> None:
    """Also those that RocketMQ's clients refuse, which a put of a new message would not take."""
    there, path = tmp_path / "there", tmp_path / "new"
    with flightlog.open(there, StoreSettings.small(rocketmq_strict=False)) as store:
        store.put_many([Message("dotted.topic", b"x"), Message("orders", b"")])
    source, target = (there, path) if command == "replay" else (path, there)
    cli(command, source, target, "--write")
    with flightlog.open_read_only(path) as view:
        assert [message.body for name in ("dotted.topic", "orders") for message in view.read(name)] == [b"x", b""]
    assert_clean(path)
