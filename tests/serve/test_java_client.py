"""RocketMQ's own Java client, unmodified, over TLS and without, on the same port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support.rocketmq_java import JavaClientMissingError, fetch_client, run_clients
from flightlog.tests.support.rocketmq_server import ServedStore

if TYPE_CHECKING:
    pass


@pytest.fixture(autouse=True)
def client() -> None:
    try:
        fetch_client()
    except JavaClientMissingError as e:
        pytest.skip(str(e))


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["tls", "plain"])
def test_java_sends_receives_transacts_and_retries(served_with_tls: ServedStore, kind: str) -> None:
    served_with_tls.store.update_group("orderly", is_ordered=True, retry_max_times=1)
    assert run_clients(served_with_tls.address, kind) == [
        "recalled true",
        "received [in order, later, plain]",
        "as sent true",
        "group order-7",
        "asked left",
        "committed [committed, left]",
        "attempts 1 2",
        "in order a fails fails b c",
        "done",
    ]
    assert [each.body for each in served_with_tls.store.dead_letters("orderly")] == [b"fails"]
