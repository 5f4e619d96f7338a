"""A producer whose stream is gone is asked no more about its transactions."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

import grpc
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog import InconsistentGroupError, StoredMessage, TransactionChecker, TransactionResolution
from flightlog.tests.serve.test_refusals import METADATA, a_receive, a_send
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_server import ServedStore


def test_what_it_left_waits_for_another_one(served: ServedStore) -> None:
    with grpc.insecure_channel(served.address) as channel:
        stub = MessagingServiceStub(channel)
        settings = definition.Settings()
        settings.publishing.topics.add(name="orders")
        sent: queue.Queue[Any] = queue.Queue()
        sent.put(service.TelemetryCommand(settings=settings))
        stream = stub.Telemetry(iter(sent.get, None), metadata=METADATA, timeout=PATIENCE_S)
        assert next(stream).status.code == definition.OK
        request = a_send()
        request.messages[0].system_properties.message_type = definition.TRANSACTION
        [entry] = stub.SendMessage(request, metadata=METADATA, timeout=PATIENCE_S).entries
        asked = next(stream).recover_orphaned_transaction_command
        assert (asked.transaction_id, asked.message.body) == (entry.transaction_id, b"body")
        stream.cancel()
        sent.put(None)

        def check(half: StoredMessage) -> TransactionResolution:
            return TransactionResolution.COMMIT

        ends_s = deadline()
        while True:  # the server has a checker of this topic as long as there is a producer to ask
            try:
                checker = TransactionChecker(served.store, "orders", check)
                break
            except InconsistentGroupError:
                assert time.monotonic() < ends_s
                time.sleep(0.02)
        with checker:
            checker.check_now()
        first, received, _ = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=PATIENCE_S)
        assert (first.status.code, received.message.body) == (definition.OK, b"body")
