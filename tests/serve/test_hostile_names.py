"""No name that a client can send leads out of the store's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog.store.topic import VALID_NAME
from flightlog.tests.serve.test_refusals import METADATA, a_send

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_server import ServedStore

PARTS = st.sampled_from(["..", ".", "/", "\\", "\0", "%", "%2e", "~", "a", "-", "|", "é", "\u2215", "CON", "\n", " "])
NAMES = st.one_of(
    st.lists(PARTS, min_size=1, max_size=8).map("".join), st.text(max_size=20), st.text("./a%", max_size=130)
)


@pytest.fixture
def stub(served: ServedStore) -> Any:
    with grpc.insecure_channel(served.address) as channel:
        yield MessagingServiceStub(channel)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES)
@example(name="..")
@example(name="../../outside")
@example(name="/outside")
@example(name="a/../../../outside")
@example(name="%2e%2e%2foutside")
def test_no_name_leads_out_of_the_folder(served: ServedStore, stub: Any, tmp_path: Path, name: str) -> None:
    is_valid = VALID_NAME.fullmatch(name) is not None
    resource = definition.Resource(name=name)
    route = stub.QueryRoute(service.QueryRouteRequest(topic=resource), metadata=METADATA, timeout=60).status
    assert route.code == definition.ILLEGAL_TOPIC or is_valid
    sent = stub.SendMessage(a_send(name), metadata=METADATA, timeout=60).status
    assert sent.code == definition.ILLEGAL_TOPIC or is_valid
    request = service.AckMessageRequest(topic=definition.Resource(name="orders"), group=resource)
    request.entries.add(receipt_handle="none", message_id="m")
    acked = stub.AckMessage(request, metadata=METADATA, timeout=60).status
    assert acked.code == definition.ILLEGAL_CONSUMER_GROUP or is_valid
    assert [each.name for each in tmp_path.iterdir()] == ["store"]
    folders = {each.name for each in (tmp_path / "store" / "consumequeue").glob("*")}
    assert all(VALID_NAME.fullmatch(each) for each in folders), folders
