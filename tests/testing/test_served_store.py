"""A server for RocketMQ's own clients in the process of a test: `flightlog.testing.serve` and the fixtures."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.testing import ServedStore, open_small, serve
from flightlog.tests.support.rocketmq_clients import PythonClients, persistently, receive_until

pytest_plugins = ["pytester"]


@pytest.fixture
def clients(rocketmq: ServedStore) -> Iterator[PythonClients]:
    with ExitStack() as undo:
        yield PythonClients(rocketmq, undo)


def bodies(served: ServedStore, topic: str) -> set[bytes]:
    count = served.store.topics()[topic].queue_count
    return {message.body for queue_id in range(count) for message in served.store.read(topic, queue_id)}


def test_a_client_and_the_test_see_the_same_store(rocketmq: ServedStore, clients: PythonClients) -> None:
    clients.producer("orders").send(clients.message("orders", b"created"))
    assert bodies(rocketmq, "orders") == {b"created"}
    rocketmq.store.put(Message("orders", b"by the test"))
    consumer = clients.simple_consumer("billing", {"orders": None})
    assert {each.body for each in receive_until(consumer, 2)} == {b"created", b"by the test"}


def test_the_largest_body_is_taken(rocketmq: ServedStore, clients: PythonClients) -> None:
    clients.producer("orders").send(clients.message("orders", bytes(4 << 20)))
    assert bodies(rocketmq, "orders") == {bytes(4 << 20)}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_keeps_address_messages_and_handles(
    rocketmq: ServedStore, clients: PythonClients, is_killed: bool
) -> None:
    address, before = rocketmq.address, rocketmq.store
    clients.producer("orders").send(clients.message("orders", b"created"))
    consumer = clients.simple_consumer("billing", {"orders": None})
    [received] = receive_until(consumer, 1, invisible_s=3600, ack=False)
    rocketmq.restart(is_killed=is_killed)
    assert rocketmq.address == address and before.is_closed and not rocketmq.store.is_closed
    reports = rocketmq.store.recovery_report
    assert (reports.last_writer.name == "FLIGHTLOG_KILLED") == is_killed
    persistently(consumer.ack, received)
    assert bodies(rocketmq, "orders") == {b"created"}


def test_a_delayed_message_comes_when_the_clock_is_moved(rocketmq: ServedStore, clients: PythonClients) -> None:
    in_an_hour_s = int(time.time()) + 3600
    message = clients.message("orders", b"later", delivery_timestamp=in_an_hour_s)
    clients.producer("orders").send(message)
    rocketmq.clock.advance(3_601_000)
    [received] = receive_until(clients.simple_consumer("billing", {"orders": None}), 1)
    assert received.body == b"later"


def test_what_was_received_comes_again_at_once_and_what_was_acknowledged_does_not(
    rocketmq: ServedStore, clients: PythonClients
) -> None:
    producer = clients.producer("orders")
    consumer = clients.simple_consumer("billing", {"orders": None})
    for body in (b"done", b"failed"):
        producer.send(clients.message("orders", body))
    for message in receive_until(consumer, 2, invisible_s=3600, ack=False):
        if message.body == b"done":
            consumer.ack(message)
    assert rocketmq.expire_invisible() == 1
    [again] = receive_until(consumer, 1)
    assert (again.body, again.delivery_attempt) == (b"failed", 2)
    assert rocketmq.expire_invisible() == 0


def test_a_failed_sync_reaches_the_client_and_a_restart_recovers(tmp_path: Path) -> None:
    settings = StoreSettings.small(flush_mode=FlushMode.SYNC)
    with serve(tmp_path, settings) as rocketmq, ExitStack() as undo:
        clients = PythonClients(rocketmq, undo)
        producer = clients.producer("orders")
        producer.send(clients.message("orders", b"before"))
        rocketmq.disk.fail_syncs()
        with pytest.raises(Exception, match=r"sync|poisoned|Input/output"):
            producer.send(clients.message("orders", b"lost"))
        rocketmq.disk.heal()
        rocketmq.restart()
        persistently(producer.send, clients.message("orders", b"after"))
        assert bodies(rocketmq, "orders") >= {b"before", b"after"}


def test_an_open_store_is_served_and_stays_open(tmp_path: Path) -> None:
    with open_small(tmp_path) as store:
        with serve(store) as rocketmq, ExitStack() as undo:
            clients = PythonClients(rocketmq, undo)
            clients.producer("orders").send(clients.message("orders", b"a"))
            rocketmq.restart()
            assert rocketmq.store is store
            with pytest.raises(flightlog.UsageError, match="give its folder"):
                rocketmq.restart(is_killed=True)
        assert not store.is_closed and "receive" not in vars(store)


def test_a_store_without_a_folder_is_removed_at_the_end() -> None:
    with serve() as rocketmq:
        rocketmq.store.put(Message("orders", b"a"))
        assert rocketmq.path.exists()
    assert not rocketmq.path.exists()
    rocketmq.stop()


def test_an_unknown_topic_is_not_made_when_told_so() -> None:
    with serve(auto_create=False) as rocketmq, ExitStack() as undo:
        clients = PythonClients(rocketmq, undo)
        with pytest.raises(Exception, match="orders"):
            clients.producer("orders").send(clients.message("orders", b"a"))
        assert "orders" not in rocketmq.store.topics()


def test_names_of_a_session_stay_apart(rocketmq_session: ServedStore) -> None:
    first, second = (rocketmq_session.new_name("orders") for _ in range(2))
    assert first != second and first.startswith("orders-")


def test_a_damaged_store_fails_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="commitlog"), serve(tmp_path) as rocketmq:
        for body in (b"first", b"second"):
            rocketmq.store.put(Message("orders", body))
        rocketmq.store.flush()
        [segment] = (tmp_path / "commitlog").iterdir()
        place = segment.read_bytes().index(b"first")
        with segment.open("r+b") as file:  # in its place: who cuts a mapped file ends the process
            file.seek(place)
            file.write(b"FIRST")


def test_an_error_of_the_block_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), serve(tmp_path) as rocketmq:
        rocketmq.disk.fail_syncs()
        raise ZeroDivisionError
    assert rocketmq.store.is_closed


def test_the_fixtures_of_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
import flightlog, pytest

@pytest.fixture(scope="session")
def rocketmq_settings():
    return flightlog.StoreSettings.small(default_queue_count=2)
""")
    pytester.makepyfile("""
seen = []

def test_one(rocketmq, rocketmq_store, rocketmq_session, flightlog_store):
    assert rocketmq_store is rocketmq.store
    assert rocketmq_store.settings.default_queue_count == 2
    assert len({rocketmq.address, rocketmq_session.address}) == 2
    seen.append((rocketmq.path, rocketmq_session.path))

def test_two(rocketmq, rocketmq_session):
    [before] = seen
    assert rocketmq.path != before[0] and rocketmq_session.path == before[1]

def test_damage(rocketmq):
    import flightlog
    for body in (b"first", b"second"):
        rocketmq.store.put(flightlog.Message("orders", body))
    rocketmq.stop()
    [segment] = (rocketmq.path / "commitlog").iterdir()
    segment.write_bytes(segment.read_bytes().replace(b"first", b"FIRST"))
""")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)


def test_the_missing_extra_has_a_name() -> None:
    program = """
import sys
sys.modules["hpack"] = sys.modules["hpack.table"] = None  # as where it is not installed
import flightlog, flightlog.testing
try:
    with flightlog.testing.serve():
        pass
except flightlog.MissingExtraError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'flightlog[serve]'" in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_server_is_imported_late() -> None:
    program = "import sys, flightlog.testing.pytest_plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"flightlog.serve.server", "google.protobuf", "h2", "hpack"} & set(loaded.split())
