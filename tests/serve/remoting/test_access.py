"""Access control and TLS of remoting: RocketMQ's own client and mqadmin, and requests by hand."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.serve.access.acl_file import AclFile
from flightlog.serve.http2.certificates import development_tls
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.remoting.wire.command import Command
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.serve.test_acl import ACL, SECRET
from flightlog.tests.support.remoting_client import RemotingClient, heartbeat
from flightlog.tests.support.remoting_java import run_remoting_program
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tests.support.rocketmq_java import JavaClientMissingError

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


@pytest.fixture
def guarded(tmp_path: Path, assert_clean: AssertClean) -> Iterator[RemotingStore]:
    """With accounts, and TLS besides plaintext."""
    (tmp_path / "plain_acl.yml").write_text(ACL)
    tls = development_tls(tmp_path / "tls", ())
    made = RemotingStore(tmp_path / "store", SETTINGS, tls, AclFile(tmp_path / "plain_acl.yml"))
    for topic in ("orders", "secret"):
        made.store.create_topic(topic)
    yield made
    made.stop()
    assert_clean(made.path)


@pytest.mark.ci
def test_java_clients_and_mqadmin_with_accounts_over_tls(guarded: RemotingStore) -> None:
    home = guarded.path.parent
    options = (f"-Drocketmq.home.dir={home}", "-Dtls.enable=true")
    try:
        lines = run_remoting_program("Secured", guarded.address, SECRET, home=home, options=options)
    except JavaClientMissingError as e:
        pytest.skip(str(e))
    told = "\n".join(lines)
    head, unsigned, application, administrator, done = told.replace(guarded.address, "{broker}").split("== ")
    assert head.splitlines() == [
        "TLS true",
        "signed SEND_OK",
        "other topic CODE: 1  DESC: No default permission for topic:secret BROKER: {broker}",
        "wrong secret CODE: 1  DESC: Check signature failed for accessKey=application BROKER: {broker}",
        "unsigned CODE: 1  DESC: No accessKey is configured BROKER: {broker}",
        "received paid",
    ]
    assert "No accessKey is configured" in unsigned, told
    assert "Need admin permission for request code=17, but accessKey=application is not" in application, told
    assert "create topic to" in administrator, told
    assert done == "done"
    assert guarded.store.topic("made") is not None


def signed(
    client: RemotingClient, code: int, fields: dict[str, Any], body: Any = b"", key: str = "application"
) -> Command:
    """The answer to a request that an account signs."""
    texts = {name: str(value) for name, value in (fields | {"AccessKey": key}).items()}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    content = "".join(texts[name] for name in sorted(texts)).encode() + raw
    signature = base64.b64encode(hmac.digest(SECRET.encode(), content, "sha1")).decode()
    return client.call(code, texts | {"Signature": signature}, raw)


QUEUE = {"topic": "orders", "queueId": 0}
ALLOWED: list[tuple[int, dict[str, Any], Any]] = [
    (RequestCode.GET_BROKER_CLUSTER_INFO, {}, b""),
    (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, b""),
    (RequestCode.HEART_BEAT, {}, heartbeat("one", "billing", "orders")),
    (RequestCode.UPDATE_CONSUMER_OFFSET, {**QUEUE, "consumerGroup": "billing", "commitOffset": 0}, b""),
    (RequestCode.LOCK_BATCH_MQ, {}, {"consumerGroup": "billing", "clientId": "one", "mqSet": []}),
    (RequestCode.POLLING_INFO, {**QUEUE, "consumerGroup": "billing"}, b""),
]
NO_GROUP, NO_TOPIC = "No default permission for group:others", "No default permission for topic:secret"
SECRET_QUEUE = {"topic": "secret", "queueId": 0}
REFUSED: list[tuple[int, dict[str, Any], Any, str]] = [
    (RequestCode.SEND_MESSAGE, {"topic": "secret", "producerGroup": "p"}, b"x", NO_TOPIC),
    (RequestCode.SEND_MESSAGE_V2, {"b": "secret", "a": "p"}, b"x", NO_TOPIC),
    (RequestCode.SEND_MESSAGE_V2, {"topic": "orders", "a": "p", "b": "secret"}, b"x", NO_TOPIC),
    (RequestCode.SEND_BATCH_MESSAGE, {"b": "secret", "a": "p"}, b"x", NO_TOPIC),
    (RequestCode.SEND_MESSAGE, {"topic": "%RETRY%others", "producerGroup": "billing"}, b"x", NO_GROUP),
    (RequestCode.PULL_MESSAGE, {**SECRET_QUEUE, "consumerGroup": "billing"}, b"", NO_TOPIC),
    (RequestCode.PULL_MESSAGE, {"topic": "%RETRY%others", "consumerGroup": "billing"}, b"", NO_GROUP),
    (RequestCode.LITE_PULL_MESSAGE, {**QUEUE, "consumerGroup": "others"}, b"", NO_GROUP),
    (RequestCode.CONSUMER_SEND_MSG_BACK, {"group": "others", "offset": 0, "delayLevel": 0}, b"", NO_GROUP),
    (RequestCode.QUERY_MESSAGE, {"topic": "secret", "key": "k"}, b"", NO_TOPIC),
    (RequestCode.HEART_BEAT, {}, heartbeat("one", "others", "orders"), NO_GROUP),
    (RequestCode.HEART_BEAT, {}, heartbeat("one", "billing", "secret"), NO_TOPIC),
    (RequestCode.UNREGISTER_CLIENT, {"clientID": "one", "consumerGroup": "others"}, b"", NO_GROUP),
    (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "others"}, b"", NO_GROUP),
    (RequestCode.UPDATE_CONSUMER_OFFSET, {**QUEUE, "consumerGroup": "others", "commitOffset": 0}, b"", NO_GROUP),
    (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": "secret", "group": "billing"}, b"", NO_TOPIC),
    (RequestCode.LOCK_BATCH_MQ, {}, {"consumerGroup": "others", "clientId": "one", "mqSet": []}, NO_GROUP),
    (RequestCode.POP_MESSAGE, {"topic": "secret", "consumerGroup": "billing"}, b"", NO_TOPIC),
    (RequestCode.POP_MESSAGE, {"topic": "orders", "consumerGroup": "others"}, b"", NO_GROUP),
    (RequestCode.ACK_MESSAGE, {"topic": "%RETRY%billing_secret", "consumerGroup": "billing"}, b"", NO_TOPIC),
    (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {"topic": "orders", "consumerGroup": "others"}, b"", NO_GROUP),
    (RequestCode.BATCH_ACK_MESSAGE, {}, {"acks": [{"c": "others", "t": "orders"}]}, NO_GROUP),
    (RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "others"}, b"", NO_GROUP),
    *(
        (code, {}, b"", f"Need admin permission for request code={code:d}, but accessKey=application is not")
        for code in (17, 26, 33, 200, 207, 215, 216, 309, 401)
    ),
]


def test_what_an_account_may_not_do_is_refused(guarded: RemotingStore) -> None:
    with RemotingClient(guarded.port) as client:
        for code, fields, body in ALLOWED:
            assert signed(client, code, fields, body).code == ResponseCode.SUCCESS, code
        for code, fields, body, text in REFUSED:
            found = signed(client, code, fields, body)
            assert (found.code, found.remark) == (ResponseCode.SYSTEM_ERROR, text), (code, fields)
            assert client.call(code, fields, body).remark == "No accessKey is configured"
        key = {"key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 0}
        found = signed(client, RequestCode.QUERY_MESSAGE, {"topic": "secret", **key}, key="administrator")
        assert found.code == ResponseCode.QUERY_NOT_FOUND


def test_what_was_signed_counts_and_nothing_else(guarded: RemotingStore) -> None:
    code = RequestCode.GET_MAX_OFFSET
    with RemotingClient(guarded.port) as client:
        fields = {"topic": "orders", "queueId": "0", "AccessKey": "application"}
        content = "application" + "0" + "orders"  # in the order of the names
        signature = base64.b64encode(hmac.digest(SECRET.encode(), content.encode(), "sha1")).decode()
        assert client.call(code, fields | {"Signature": signature}).code == ResponseCode.SUCCESS
        for changed in ({"queueId": "1"}, {"extra": "field"}, {"Signature": "?"}, {"Signature": ""}):
            refused = client.call(code, fields | {"Signature": signature} | changed)
            assert refused.remark == "Check signature failed for accessKey=application", changed
        refused = client.call(code, fields | {"Signature": signature}, b"body")
        assert refused.remark == "Check signature failed for accessKey=application"
        old = Command(code, 99, 0, fields | {"Signature": signature, "_UNIQUE_KEY_QUERY": "false"}, version=399)
        assert client.ask(old).code == ResponseCode.SUCCESS


def test_a_client_that_wants_tls_of_a_server_without_is_closed(served: RemotingStore) -> None:
    with RemotingClient(served.port) as client:
        client.raw(b"\x16\x03\x01\x02\x00")
        assert client.next() is None
