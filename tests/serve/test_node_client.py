"""RocketMQ's own Node.js client, unmodified, over TLS and without, on the same port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support.rocketmq_node import NodeClientMissingError, fetch_node_client, run_node_clients
from flightlog.tests.support.rocketmq_server import ServedStore

if TYPE_CHECKING:
    pass


@pytest.fixture(autouse=True)
def client() -> None:
    try:
        fetch_node_client()
    except NodeClientMissingError as e:
        pytest.skip(str(e))


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["tls", "plain"])
def test_node_sends_receives_transacts_and_retries(served_with_tls: ServedStore, tmp_path: Path, kind: str) -> None:
    served_with_tls.store.update_group("orderly", is_ordered=True)
    assert run_node_clients(served_with_tls.address, kind, authority=tmp_path / "tls" / "ca.pem") == [
        "recalled true",
        "received in order, later, plain",
        "as sent true",
        "group order-7",
        "by SQL north",
        "asked left",
        "committed committed, left",
        "attempts yes:1 yes:2",
        "in order a fails b c",
        "done",
    ]
    assert [each.body for each in served_with_tls.store.dead_letters("orderly")] == [b"fails"]
