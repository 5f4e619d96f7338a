"""A client that dials the port of the other protocol: the server's log says which port it needs."""

from __future__ import annotations

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.tests.serve.test_refusals import METADATA
from flightlog.tests.support.remoting_client import PATIENCE_S, RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore


def test_a_remoting_client_at_the_port_of_grpc(served: RemotingStore, caplog: pytest.LogCaptureFixture) -> None:
    with RemotingClient(served.grpc_port) as client:
        client.send(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert client.next() is None  # it is closed
    assert "remoting, whose clients need the port of --remoting" in caplog.text


def test_a_grpc_client_at_the_port_of_remoting(served: RemotingStore, caplog: pytest.LogCaptureFixture) -> None:
    route = service.QueryRouteRequest(topic=definition.Resource(name="orders"))
    with grpc.insecure_channel(served.address) as channel, pytest.raises(grpc.RpcError):
        MessagingServiceStub(channel).QueryRoute(route, metadata=METADATA, timeout=PATIENCE_S)
    assert "as one of HTTP/2: gRPC clients need the other port" in caplog.text
