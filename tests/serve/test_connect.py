"""`flightlog.connect`: a served store in the words of the store itself."""

# mypy: disable-error-code="arg-type"

from __future__ import annotations

import hashlib
import hmac
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import (
    ExpiredHandleError,
    Message,
    PutStatus,
    RemoteStore,
    ServerRefusedError,
    ServerUnavailableError,
    StoreClosedError,
)
from flightlog.serve.access.acl_file import AclFile
from flightlog.serve.calls.protocol import RESPONSES, Code
from flightlog.serve.client.messages import refused
from flightlog.serve.http2.certificates import development_tls
from flightlog.store.errors import InvalidArgumentError, InvalidMessageError, WrongTypeError
from flightlog.testing import ServedStore
from flightlog.tests.support import inside
from flightlog.tests.support.process import wait_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S
from flightlog.tests.support.rocketmq_server import ServedStore as SupportServed

Call = Callable[[RemoteStore], object]


@pytest.fixture
def remote(rocketmq: ServedStore) -> Iterator[RemoteStore]:
    with flightlog.connect(rocketmq.address, timeout_s=PATIENCE_S) as store:
        yield store


def receive(remote: RemoteStore, count: int, **arguments: Any) -> list[flightlog.PoppedMessage]:
    """So many messages of topic orders for group billing, not acknowledged."""
    found: list[flightlog.PoppedMessage] = []
    due_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < due_s:
        found += remote.receive("billing", "orders", **arguments)
    assert len(found) == count
    return found


def test_a_message_arrives_as_it_was_put(rocketmq: ServedStore, remote: RemoteStore) -> None:
    message = Message("orders", b"created", tags="new", keys=["k-1", "k-2"], properties={"region": "north"})
    receipt = remote.put(message)
    assert (receipt.status, receipt.topic, receipt.queue_offset) == (PutStatus.PUT_OK, "orders", 0)
    assert rocketmq.store.was_stored(receipt.uniq_key, "orders")
    [popped] = receive(remote, 1)
    found = popped.message
    assert (popped.body, popped.tags, popped.keys, popped.attempt) == (b"created", "new", ["k-1", "k-2"], 1)
    assert (found.topic, found.properties["region"], found.uniq_key) == ("orders", "north", receipt.uniq_key)
    assert found.physical_offset == -1 and found.store_timestamp_ms > 0
    remote.ack(popped.handle)
    assert not any(rocketmq.store.lag("billing").values())


def test_messages_of_a_group_are_in_one_queue(rocketmq: ServedStore, remote: RemoteStore) -> None:
    for number in range(8):
        remote.put(Message("steps", b"%d" % number), group="order-7")
    queues = [[each.body for each in rocketmq.store.read("steps", i)] for i in range(8)]
    assert sorted(queues)[-1] == [b"%d" % number for number in range(8)]


def test_a_delayed_message_comes_when_it_is_due(rocketmq: ServedStore, remote: RemoteStore) -> None:
    receipt = remote.put(Message("orders", b"later").deliver_after_ms(3_600_000))
    assert receipt.recall_handle
    rocketmq.clock.advance(3_601_000)
    [popped] = receive(remote, 1)
    assert popped.body == b"later"


def test_filters_are_the_stores(remote: RemoteStore) -> None:
    for tag, amount in (("a", "1"), ("b", "200")):
        remote.put(Message("orders", tag.encode(), tags=tag, properties={"amount": amount}))
    [popped] = receive(remote, 1, filter=flightlog.sql("amount > 100"))
    assert popped.body == b"b"


def test_a_changed_invisible_time_gives_a_new_handle(remote: RemoteStore) -> None:
    remote.put(Message("orders", b"a"))
    [popped] = receive(remote, 1)
    handle = remote.change_invisible(popped.handle, 0)
    assert handle != popped.handle
    [again] = receive(remote, 1)
    assert again.attempt == 2
    remote.ack(again.handle, again.handle)
    with pytest.raises(ExpiredHandleError) as caught:
        remote.ack(handle)
    assert caught.value.handles == (handle,)
    with pytest.raises(ExpiredHandleError):
        remote.change_invisible(handle, 1000)


def test_a_suspended_message_comes_again_as_the_same_attempt(remote: RemoteStore) -> None:
    remote.put(Message("orders", b"a"))
    [popped] = receive(remote, 1)
    remote.change_invisible(popped.handle, 0, count_attempt=False)
    [again] = receive(remote, 1)
    assert (again.body, again.attempt) == (b"a", 1)


def test_a_subscription_gives_each_message_once(rocketmq: ServedStore, remote: RemoteStore) -> None:
    for number in range(40):
        remote.put(Message("orders", b"%d" % number))
    seen: list[bytes] = []

    def work() -> None:
        with flightlog.connect(rocketmq.address) as own, own.subscribe("orders", "billing", idle_s=0) as messages:
            for message in messages:
                seen.append(message.body)
                assert message.ack() and not message.ack()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(map(int, seen)) == list(range(40))
    assert not any(rocketmq.store.lag("billing").values())


def test_a_closed_subscription_gives_back_what_it_did_not_hand_out(rocketmq: ServedStore, remote: RemoteStore) -> None:
    remote.put(Message("orders", b"first"), group="g")
    remote.put(Message("orders", b"second"), group="g")
    with remote.subscribe("orders", "billing") as messages:
        first = messages.receive()
        assert first is not None and first.body == b"first"
        first.ack()
    assert messages.receive() is None
    rocketmq.clock.advance(5_000)
    [popped] = receive(remote, 1)
    assert popped.body == b"second"


def test_a_message_is_kept_while_its_subscription_is_open(rocketmq: ServedStore, remote: RemoteStore) -> None:
    remote.put(Message("orders", b"a"))
    with remote.subscribe("orders", "billing") as messages:
        message = messages.receive()
        assert message is not None
        for _ in range(3):
            rocketmq.clock.advance(25_000)
            assert message.prolong(60_000)  # what its thread does every 20 s
        assert message.ack()
    assert not any(rocketmq.store.lag("billing").values())


def test_a_message_that_failed_comes_again(rocketmq: ServedStore, remote: RemoteStore) -> None:
    remote.put(Message("orders", b"a"))
    with remote.subscribe("orders", "billing") as messages:
        message = messages.receive()
        assert message is not None and message.attempt == 1 and message.retry_later(0) and not message.ack()
        rocketmq.clock.advance(5_000)
        again = messages.receive()
        assert again is not None and again.attempt == 2 and again.ack()


def test_a_restart_in_the_middle_is_waited_for(rocketmq: ServedStore, remote: RemoteStore) -> None:
    remote.put(Message("orders", b"a"))
    [popped] = receive(remote, 1)
    rocketmq.restart(is_killed=True)
    remote.ack(popped.handle)
    remote.put(Message("orders", b"b"))
    [popped] = receive(remote, 1)
    assert popped.body == b"b"


def test_a_receive_that_loses_its_server_is_repeated(rocketmq: ServedStore, remote: RemoteStore) -> None:
    remote.put(Message("orders", b"a"))
    [first] = receive(remote, 1)
    remote.ack(first.handle)
    found: list[flightlog.PoppedMessage] = []
    receiving = threading.Thread(target=lambda: found.extend(receive(remote, 1, wait_s=20)))
    receiving.start()
    rocketmq.restart()
    rocketmq.store.put(Message("orders", b"b"))
    receiving.join(PATIENCE_S)
    assert [each.body for each in found] == [b"b"]


def test_a_server_that_is_not_there_costs_no_doubt() -> None:
    with flightlog.connect("127.0.0.1:1", timeout_s=0.2) as remote:
        with pytest.raises(ServerUnavailableError, match="nothing was sent") as caught:
            remote.put(Message("orders", b"a"))
        assert not caught.value.may_be_done and caught.value.address == "127.0.0.1:1"


def test_a_put_without_an_answer_is_in_doubt_and_not_repeated(tmp_path: Path) -> None:
    settings = flightlog.StoreSettings.small(flush_mode=flightlog.FlushMode.SYNC)
    errors: list[BaseException] = []
    with flightlog.testing.serve(tmp_path, settings) as rocketmq:
        with flightlog.connect(rocketmq.address, timeout_s=PATIENCE_S) as remote:
            remote.put(Message("orders", b"a"))

            def put() -> None:
                try:
                    remote.put(Message("orders", b"b"))
                except BaseException as e:
                    errors.append(e)

            putting = threading.Thread(target=put)
            with rocketmq.disk.held_syncs() as held:
                putting.start()
                assert held.acquire(timeout=PATIENCE_S)
                inside.break_calls(remote)
                putting.join(PATIENCE_S)
            [error] = errors
            assert isinstance(error, ServerUnavailableError) and error.may_be_done
            assert "the server may have done it" in str(error)
        rocketmq.store.flush()
        stored = [each.body for i in range(8) for each in rocketmq.store.read("orders", i)]
        assert sorted(stored) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda r: r.put(Message("orders", b"")), InvalidMessageError, "cannot be empty"),
        (lambda r: r.put(Message("orders", bytes(5 << 20))), flightlog.BodyTooLargeError, "4194304"),
        (lambda r: r.put(Message("SCHEDULE_TOPIC_XXXX", b"a")), flightlog.InvalidTopicError, "system topic"),
        (lambda r: r.put(Message("t", b"a", properties={"PGROUP": "x"})), InvalidMessageError, "PGROUP"),
        (lambda r: r.put(Message("t", b"a").deliver_after_ms(90_000_000)), flightlog.InvalidTimerError, "too large"),
        (lambda r: r.put(Message("t", b"a", delay_level=3)), InvalidMessageError, "delay_level=3"),
        (lambda r: r.put(Message("t", b"a", wait_store_ok=False)), InvalidMessageError, "wait_store_ok=False"),
        (lambda r: r.put(b"a"), WrongTypeError, "message"),
        (lambda r: r.put(Message("t", "a")), WrongTypeError, "body"),
        (lambda r: r.put(Message(7, b"a")), WrongTypeError, "topic"),
        (lambda r: r.put(Message("t", b"a"), group=7), WrongTypeError, "group"),
        (lambda r: r.receive("g", "t", 0), InvalidArgumentError, "max_count=0"),
        (lambda r: r.receive("g", "t", invisible_ms=1), InvalidArgumentError, "invisible_ms=1"),
        (lambda r: r.receive("g", "t", wait_s=1), InvalidArgumentError, "wait_s=1"),
        (lambda r: r.receive("g", "t", tags=flightlog.sql("a = 1")), WrongTypeError, "tags"),
        (lambda r: r.receive("a b", "t"), ServerRefusedError, "ILLEGAL_CONSUMER_GROUP"),
        (lambda r: r.ack(), InvalidArgumentError, "handles"),
        (lambda r: r.ack("x"), WrongTypeError, "handle"),
        (lambda r: r.ack(flightlog.PopHandle("g", "t", "x")), ExpiredHandleError, "expired"),
        (lambda r: r.change_invisible("x", 1), WrongTypeError, "handle"),
        (lambda r: r.subscribe("t", "g", max_count=33), InvalidArgumentError, "max_count=33"),
        (lambda r: r.subscribe("t", "g", idle_s="x"), WrongTypeError, "idle_s"),
    ],
)
def test_a_wrong_call(remote: RemoteStore, call: Call, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        call(remote)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"address": "nowhere"}, "address='nowhere': expected HOST:PORT"),
        ({"address": "a:99999"}, "HOST:PORT"),
        ({"address": 7}, "address=7"),
        ({"timeout_s": -1}, "timeout_s=-1"),
        ({"ca_file": "/nowhere.pem"}, "ca_file='/nowhere.pem'"),
        ({"access_key": "a"}, "secret_key=None"),
        ({"secret_key": "a"}, "access_key=None"),
    ],
)
def test_a_wrong_connect(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(says)):
        flightlog.connect(**{"address": "127.0.0.1:1", **arguments})


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.put(Message("t", b"a")),
        lambda r: r.receive("g", "t"),
        lambda r: r.ack(flightlog.PopHandle("g", "t", "x")),
        lambda r: r.change_invisible(flightlog.PopHandle("g", "t", "x"), 1),
        lambda r: r.subscribe("t", "g").receive(),
    ],
)
@pytest.mark.parametrize("was_used", [True, False])
def test_a_call_after_close(rocketmq: ServedStore, call: Call, was_used: bool) -> None:
    remote = flightlog.connect(rocketmq.address)
    if was_used:
        remote.put(Message("t", b"a"))
    remote.close()
    remote.close()
    with pytest.raises(StoreClosedError, match="connect again"):
        call(remote)
    assert remote.is_closed and "closed" in repr(remote)


def test_a_call_that_waits_ends_at_close(rocketmq: ServedStore) -> None:
    remote = flightlog.connect(rocketmq.address)
    remote.put(Message("t", b"a"))
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            remote.receive("g", "empty", wait_s=20)
        except BaseException as e:
            errors.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    due_s = time.monotonic() + PATIENCE_S
    while "empty" not in rocketmq.store.topics() and time.monotonic() < due_s:
        time.sleep(0.01)
    remote.close()
    waiting.join(PATIENCE_S)
    assert [type(e) for e in errors] == [StoreClosedError]


def test_no_topic_is_made_where_none_may_be() -> None:
    with flightlog.testing.serve(auto_create=False) as rocketmq, flightlog.connect(rocketmq.address) as remote:
        with pytest.raises(flightlog.TopicNotFoundError, match="there is no topic 'orders'"):
            remote.put(Message("orders", b"a"))
        with pytest.raises(flightlog.TopicNotFoundError):
            remote.receive("g", "orders")


def test_tls_with_the_authority_of_the_server(tmp_path: Path) -> None:
    served = SupportServed(tmp_path / "store", flightlog.StoreSettings.small(), development_tls(tmp_path / "tls", ()))
    served.start()
    try:
        with flightlog.connect(served.address, ca_file=tmp_path / "tls" / "ca.pem", timeout_s=PATIENCE_S) as remote:
            remote.put(Message("orders", b"a"))
        stranger = flightlog.connect(served.address, tls=True)
        with pytest.raises(ServerUnavailableError, match="certificate") as caught:
            stranger.put(Message("orders", b"b"))
        assert not caught.value.may_be_done
        assert [m.body for i in range(8) for m in served.store.read("orders", i)] == [b"a"]
    finally:
        served.stop()


def test_a_server_with_access_control_takes_signed_calls(tmp_path: Path) -> None:
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(
        """
accounts:
  - accessKey: application
    secretKey: "12345678"
    topicPerms: [orders=PUB|SUB]
"""
    )
    served = SupportServed(tmp_path / "store", flightlog.StoreSettings.small(), acl=AclFile(acl))
    served.start()
    try:
        with flightlog.connect(served.address, access_key="application", secret_key="12345678") as remote:
            assert remote.put(Message("orders", b"a")).status is PutStatus.PUT_OK
            with pytest.raises(ServerRefusedError, match="UNAUTHORIZED"):
                remote.put(Message("bills", b"a"))
        stranger = flightlog.connect(served.address, access_key="application", secret_key="else")
        with pytest.raises(ServerRefusedError, match="Check signature failed"):
            stranger.put(Message("orders", b"b"))
    finally:
        served.stop()


def test_every_call_is_signed_as_rocketmqs_clients_sign() -> None:
    headers = inside.headers_of(flightlog.connect("127.0.0.1:1", access_key="key", secret_key="secret"))
    stamp = headers["x-mq-date-time"]
    assert re.fullmatch(r"\d{8}T\d{6}Z", stamp)
    signature = hmac.new(b"secret", stamp.encode(), hashlib.sha1).hexdigest().upper()
    assert headers["authorization"] == (
        f"MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time, Signature={signature}"
    )


def test_a_refusal_without_an_error_of_its_own_has_rocketmqs_code() -> None:
    status = RESPONSES["SendMessage"]().status
    status.code, status.message = Code.FORBIDDEN, "no"
    found = refused("127.0.0.1:1", "put", status, "orders")
    assert isinstance(found, ServerRefusedError) and found.code == "FORBIDDEN"


def test_a_forked_child_and_its_parent_use_connections_of_their_own(rocketmq: ServedStore) -> None:
    """In a process of its own: pytest's has threads that no fork should copy."""
    program = """
import os, sys, flightlog
remote = flightlog.connect(sys.argv[1])
for number in range(3):
    remote.put(flightlog.Message("orders", b"parent"))
    pid = os.fork()
    if pid == 0:
        remote.put(flightlog.Message("orders", b"child"))
        remote.close()
        os._exit(7)
    remote.put(flightlog.Message("orders", b"parent"))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print("went on")
"""
    command = [sys.executable, "-P", "-c", program, rocketmq.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "went on\n", done.stderr
    stored = [each.body for i in range(8) for each in rocketmq.store.read("orders", i)]
    assert sorted(stored) == [b"child"] * 3 + [b"parent"] * 6


@pytest.mark.ci
def test_workers_share_the_messages_and_one_that_dies_loses_none(rocketmq: ServedStore) -> None:
    """Several processes, one of them killed while it has messages."""
    program = """
import os, sys, flightlog
address, dies = sys.argv[1], sys.argv[2] == "dies"
with flightlog.connect(address) as store, store.subscribe("jobs", "workers", idle_s=6) as jobs:
    for job in jobs:
        if dies:
            os.kill(os.getpid(), 9)
        store.put(flightlog.Message("done", job.body))
        job.ack()
"""
    for number in range(60):
        rocketmq.store.put(Message("jobs", b"%d" % number))
    dying = subprocess.run([sys.executable, "-P", "-c", program, rocketmq.address, "dies"], timeout=PATIENCE_S)
    assert dying.returncode == -9
    expired = rocketmq.expire_invisible()
    assert expired > 0

    def come_again() -> int:
        queues = rocketmq.store.queues().items()
        return sum(end for (topic, _), (_, end) in queues if topic.startswith("%RETRY%"))

    wait_until(lambda: come_again() >= expired)
    command = [sys.executable, "-P", "-c", program, rocketmq.address, "lives"]
    workers = [subprocess.Popen(command) for _ in range(3)]
    assert [worker.wait(PATIENCE_S) for worker in workers] == [0, 0, 0]
    done = [int(each.body) for i in range(8) for each in rocketmq.store.read("done", i)]
    assert sorted(done) == list(range(60))
