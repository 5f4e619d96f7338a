"""What RocketMQ's processes say of themselves, in the remoting protocol, and waiting until they say something."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from flightlog import StoreSettings
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.tests.support.remoting_client import RemotingClient

PATIENCE_S = 240.0
POLL_S = 0.1
GET_SYNC_STATE_DATA = 1006
"""Request code of a controller."""


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def wait_until(what: str, is_so: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """What `is_so` returns, once it is true; a process that cannot be asked yet is asked again.

    Raises TimeoutError with `what`.
    """
    deadline_s, last = time.monotonic() + patience_s, ""
    while True:
        try:
            if found := is_so():
                return found
        except (OSError, AssertionError) as e:
            last = f" ({e})"
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: not within {patience_s:.0f} s{last}")
        time.sleep(POLL_S)


def is_routed(name_server: str, topic: str) -> bool:
    """Whether a client that asks for the topic is sent to a broker."""
    with RemotingClient(port_of(name_server)) as client:
        return client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code == 0


def max_offset(port: int, topic: str, queue_id: int) -> int:
    with RemotingClient(port) as client:
        answer = client.call(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id, "committed": "true"})
    assert answer.code == 0, (answer.code, answer.remark)
    return int(answer.fields["offset"])


def topics(port: int) -> set[str]:
    with RemotingClient(port) as client:
        answer = client.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    assert answer.code == 0, (answer.code, answer.remark)
    return set(json.loads(answer.body)["topicConfigTable"])


def group_offset(port: int, group: str, topic: str, queue_id: int) -> int | None:
    """Where the group goes on; None: the broker knows of none."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
    with RemotingClient(port) as client:
        answer = client.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    return int(answer.fields["offset"]) if answer.code == 0 else None


def replicas(controller: str, broker: str = StoreSettings().broker_name) -> dict[str, Any]:
    """What the controller says of a broker: masterAddress, inSyncReplicas, …"""
    with RemotingClient(port_of(controller)) as client:
        answer = client.call(GET_SYNC_STATE_DATA, {}, [broker])
    assert answer.code == 0, (answer.code, answer.remark)
    found: dict[str, Any] = json.loads(answer.body)["replicasInfoTable"][broker]
    return found
