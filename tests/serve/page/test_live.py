"""What arrives, as server-sent events; and the end of the streams with the server."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog import InvalidArgumentError, Message
from flightlog.serve.page.live import VIEWERS_MAX
from flightlog.serve.program import ServeOptions, run
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.tests.serve.page.conftest import HOSTILE, Browser
from flightlog.tests.serve.test_command import COMMAND, SERVING
from flightlog.tests.serve.test_metrics import REMOTING
from flightlog.tests.serve.test_refusals import METADATA
from flightlog.tests.support import signals
from flightlog.tests.support.remoting_client import RemotingClient, heartbeat
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.serve.page.conftest import Shown

LINK = re.compile(r"page for people \((.+)\): (http://127\.0\.0\.1:(\d+)/\S+)")


class Stream:
    """The events that a browser sees."""

    def __init__(self, browser: Browser) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=PATIENCE_S)
        self._connection.request("GET", "/live/events", headers={"Cookie": browser.cookie})
        self.answer = self._connection.getresponse()

    def next(self) -> dict[str, Any] | None:
        """None at the end."""
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        return None

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def test_a_message_that_arrives_is_an_event(browser: Browser, page: Shown) -> None:
    stream = Stream(browser)
    first = stream.next()
    assert first is not None and first["messages"] == [] and first["groups"]["billing"] == 46
    put = page.store.put(Message("orders", b"<b>now</b>", keys=HOSTILE, queue_id=3))
    while not (event := stream.next() or {})["messages"]:
        pass
    [found] = event["messages"]
    assert (found["topic"], found["queue"], found["at"], found["body"]) == (
        "orders",
        3,
        put.physical_offset,
        "<b>now</b>",
    )
    assert "\u202e" not in found["keys"] and "\\u202e" in found["keys"]
    assert event["groups"]["billing"] == 47
    stream.close()


def test_of_many_messages_the_newest_are_shown_and_the_rest_is_counted(browser: Browser, page: Shown) -> None:
    stream = Stream(browser)
    stream.next()
    page.store.put_many([Message("orders", b"%d" % number, queue_id=0) for number in range(1000)])
    seen = 0
    while seen < 1000:
        event = stream.next() or {}
        seen += len(event["messages"]) + event["more"]
        assert len(event["messages"]) <= 25
    assert seen == 1000
    stream.close()


def test_too_many_viewers_are_refused(browser: Browser) -> None:
    streams = [Stream(browser) for _ in range(VIEWERS_MAX)]
    assert {each.answer.status for each in streams} == {200}
    refused = Stream(browser)
    assert refused.answer.status == 503
    for each in streams:
        each.close()


def test_the_program_shows_its_link_and_ends_its_streams(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with subprocess.Popen(
        [*COMMAND, str(path), "--port", "0", "--ui", "0", "--topic", "orders:1"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=signals.default_signals,
    ) as process:
        assert process.stderr is not None
        try:
            found = next(match for line in process.stderr if (match := LINK.search(line)))
            assert found[1] == "read-only"
            browser = Browser(int(found[3]), found[2])
            assert "orders" in browser.get("/").words
            stream = Stream(browser)
            assert stream.next() is not None
            process.send_signal(signal.SIGTERM)
            while stream.next() is not None:
                pass
            rest = process.stderr.read()
            assert process.wait(PATIENCE_S) == 0, rest
            assert "closed cleanly" in rest and "Traceback" not in rest
        finally:
            process.kill()
    assert_clean(path)


def test_clients_of_both_protocols_are_members(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    ports = ("--port", "0", "--remoting", "0", "--ui", "0")
    with subprocess.Popen(
        [*COMMAND, str(path), *ports, "--topic", "orders:1", "--group", "billing:normal", "--group", "shipping:normal"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=signals.default_signals,
    ) as process:
        assert process.stderr is not None
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if found := LINK.search(line):
                    break
            text = "".join(lines)
            served, remoting = SERVING.search(text), REMOTING.search(text)
            assert found is not None and served is not None and remoting is not None, text
            browser = Browser(int(found[3]), found[2])
            settings = definition.Settings(client_type=definition.SIMPLE_CONSUMER)
            settings.subscription.group.name = "billing"
            with (
                grpc.insecure_channel(f"127.0.0.1:{served[1]}") as channel,
                RemotingClient(int(remoting[1])) as client,
            ):
                command = iter([service.TelemetryCommand(settings=settings)])
                list(MessagingServiceStub(channel).Telemetry(command, metadata=METADATA, timeout=PATIENCE_S))
                client.call(RequestCode.HEART_BEAT, body=heartbeat("remoting-1", "shipping", "orders"))
                client_id = dict(METADATA)["x-mq-client-id"]
                assert f"{client_id} simple consumer" in browser.get("/group?name=billing").words
                words = browser.get("/group?name=shipping").words
                assert re.search(r"remoting-1 remoting, \w+, 127\.0\.0\.1:\d+", words), words
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait(PATIENCE_S) == 0, rest
        finally:
            process.kill()
    assert_clean(path)


def test_without_its_extra_it_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['aiohttp'] = None\n")
    done = subprocess.run(
        [*COMMAND, str(tmp_path / "store"), "--port", "0", "--ui", "0"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'flightlog[ui]'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_servers_without_a_page_do_not_load_its_framework() -> None:
    code = "import sys, flightlog.serve.program; assert not {'aiohttp', 'jinja2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"ui_write": True}, "--ui PORT as well"), ({"ui": 0, "host": "0.0.0.0"}, "a loopback address")],
)
def test_a_wrong_option_is_one_sentence(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        run(ServeOptions((tmp_path / "store",), port=0, **options))
    assert not (tmp_path / "store").exists()
