"""RocketMQ's remoting clients and mqadmin, at the server and at RocketMQ's own name server and broker: what they print
is compared line by line. `tests/serve/remoting` says what has to be there; this shows what differs."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flightlog import StoreSettings
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.tests.serve.remoting.test_java_clients import STEPS
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.remoting_java import run_remoting_program
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tools.bench.served.rocketmq_proxy import free_ports, rocketmq_running

PROGRAMS: Sequence[tuple[str, str, Sequence[str]]] = (
    ("Clients", "4.9.8", tuple(STEPS)),
    ("Clients", "5.3.3", tuple(STEPS)),
    ("Admin", "5.3.3", ()),
    ("Mqadmin", "5.3.3", ()),
)
"""By name, the version of the client, and arguments behind the server's address."""
SETTINGS = {
    "brokerName": "store",
    "enablePropertyFilter": "true",
    "transactionCheckInterval": "1000",
}
PATIENCE_S, LOOK_S = 240.0, 0.5
HEADING = re.compile(r"== (\w+)$")
OF_STACKS = re.compile(r"TID: |\.java:\d+\)|\(Native Method\)|\(Unknown Source\)")
OF_ONE_RUN = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,:]\d+)?( \w+)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d#\d\d:\d\d:\d\d(:\d+)?"), "TIME"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"\b[0-9A-F]{32,}\b"), "ID"),
    (re.compile(r"/?(\d{1,3}\.){3}\d{1,3}:\d+"), "ADDRESS"),
    (re.compile(r"@\d+#\d+"), "@PROCESS"),
    (re.compile(r"@[0-9a-f]{6,8}\b"), "@OBJECT"),
    (re.compile(r" +"), " "),
)


def remoting_differences(jars: Path, folder: Path) -> str:
    """The lines of each program that only one of both printed; `folder` takes the stores."""
    told = []
    for name, version, arguments in PROGRAMS:
        homes = [folder / f"{name}-{version}-{who}" for who in ("here", "rocketmq")]  # a client's own offsets lie there
        for home in homes:
            home.mkdir()
        ours = _at_ours(homes[0], name, version, arguments)
        theirs = _at_broker(jars, homes[1], name, version, arguments)
        lines = list(difflib.unified_diff(theirs, ours, "RocketMQ", "here", n=0, lineterm=""))
        found = "\n".join(["", *lines]) if lines else f"{len(ours)} lines, no differences"
        told.append(f"{name} {version}: {found}")
    return "\n".join(told)


def _at_ours(home: Path, name: str, version: str, arguments: Sequence[str]) -> list[str]:
    settings = StoreSettings.small(transaction_timeout_ms=1000, transaction_check_interval_ms=1000)
    served = RemotingStore(home / "store", settings)
    try:
        return _said(name, version, served.address, served.address, arguments, home)
    finally:
        served.stop()


def _at_broker(jars: Path, home: Path, name: str, version: str, arguments: Sequence[str]) -> list[str]:
    ports = free_ports()
    (home / "server").mkdir()
    with rocketmq_running(jars, home / "server", {}, {}, SETTINGS, ports=ports) as running:
        _wait_until_registered(ports[0], running.logs)
        try:
            return _said(name, version, f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", arguments, home)
        except AssertionError as e:  # a difference, too
            return ["it failed", *str(e).splitlines()]


def _wait_until_registered(name_server: int, logs: Path) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        with suppress(OSError), RemotingClient(name_server) as client:
            if b'"store"' in client.call(RequestCode.GET_BROKER_CLUSTER_INFO).body:
                return
        if time.monotonic() > until_s:
            raise TimeoutError((logs / "proxy.ProxyStartup.out").read_text())
        time.sleep(LOOK_S)


def _said(name: str, version: str, name_server: str, broker: str, arguments: Sequence[str], home: Path) -> list[str]:
    words = [broker] if name == "Mqadmin" else arguments
    found, command = [], ""
    for line in run_remoting_program(name, name_server, *words, version=version, home=home):
        if (heading := HEADING.search(line)) is not None:
            command = heading[1]
        if not OF_STACKS.search(line):
            found.append(f"{command}: {_of_any_run(line)}".removeprefix(": "))
    return found


def _of_any_run(line: str) -> str:
    for pattern, word in OF_ONE_RUN:
        line = pattern.sub(word, line)
    return line.rstrip()
