"""RocketMQ's own Node.js client, unmodified, over TLS and without, on the same port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.serve.matrix.conversation import assert_all_seen, run_program
from flightlog.tests.serve.matrix.scenarios import OPEN, OVER_TLS
from flightlog.tests.serve.matrix.servers import our_server
from flightlog.tests.support.rocketmq_node import NodeClientMissingError, node_command, trusting

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


@pytest.fixture
def command() -> list[str]:
    try:
        return node_command()
    except NodeClientMissingError as e:
        pytest.skip(str(e))


@pytest.mark.ci
@pytest.mark.parametrize(("kind", "names"), [("plain", OPEN), ("tls", OVER_TLS)])
def test_node_sees_what_it_must(
    tmp_path: Path, assert_clean: AssertClean, command: list[str], kind: str, names: tuple[str, ...]
) -> None:
    with our_server(tmp_path / "served") as server:
        assert_all_seen(run_program(command, server, kind, names, environment=trusting(server.authority)))
        assert server.bodies_of_dead_letters("orderly") == ([b"fails"] if "order" in names else [])
    assert_clean(server.path)
