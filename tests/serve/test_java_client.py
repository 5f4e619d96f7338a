"""RocketMQ's own Java client, unmodified, over TLS and without, on the same port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.tests.serve.matrix.conversation import assert_all_seen, run_program
from flightlog.tests.serve.matrix.scenarios import OPEN, OVER_TLS
from flightlog.tests.serve.matrix.servers import ACCESS_KEY, SECRET_KEY, our_server
from flightlog.tests.support.rocketmq_java import JavaClientMissingError, fetch_client, java_command

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


@pytest.fixture
def command() -> list[str]:
    try:
        return java_command(fetch_client())
    except JavaClientMissingError as e:
        pytest.skip(str(e))


@pytest.mark.ci
@pytest.mark.parametrize(("kind", "names"), [("plain", OPEN), ("tls", OVER_TLS)])
def test_java_sees_what_it_must(
    tmp_path: Path, assert_clean: AssertClean, command: list[str], kind: str, names: tuple[str, ...]
) -> None:
    with our_server(tmp_path / "served") as server:
        assert_all_seen(run_program(command, server, kind, names))
        assert server.bodies_of_dead_letters("orderly") == ([b"fails"] if "order" in names else [])
    assert_clean(server.path)


@pytest.mark.ci
def test_java_is_accepted_and_refused(tmp_path: Path, assert_clean: AssertClean, command: list[str]) -> None:
    with our_server(tmp_path / "served", has_acl=True) as server:
        assert_all_seen(run_program(command, server, "plain", ["accepted"], (ACCESS_KEY, SECRET_KEY)))
        found = run_program(command, server, "plain", ["refused"], (ACCESS_KEY, "else"))
        assert f"Check signature failed for accessKey={ACCESS_KEY}" in found["refused"].text
    assert_clean(server.path)
