"""RocketMQ's own server for gRPC clients: a name server, and a proxy in local mode, which has the broker inside.

The jars are those of `org.apache.rocketmq:rocketmq-proxy` and `:rocketmq-namesrv`, with what they need, as
`mvn dependency:copy-dependencies` leaves them. Both are children of this process and end with the context.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..java_program import check_jars, java_command

JARS = ("rocketmq-proxy", "rocketmq-namesrv")
MEMORY = ("-Xms256m", "-Xmx768m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""The least with which both work; RocketMQ's own scripts give them gigabytes."""
END_S = 60.0
PORTS = range(4_002, 12_000)
"""Below those that the system gives to connections: a server that is started again finds its ports free."""
CLUSTER = "DefaultCluster"
RETRY_MAX_TIMES = 16
"""RocketMQ's own default."""


@dataclass(frozen=True)
class RocketmqProcesses:
    """A running server. Not ready yet: clients may have to wait until the topics are known."""

    address: str
    pids: tuple[int, ...]
    logs: Path


def check_proxy_jars(folder: Path) -> None:
    """Raises UsageError if there is no Java, or no proxy or name server in the folder."""
    check_jars(f"--rocketmq {folder}", folder, JARS)


@contextmanager
def rocketmq_running(
    jars: Path,
    folder: Path,
    topics: Mapping[str, tuple[int, str]],
    groups: Mapping[str, bool] | None = None,
    broker_settings: Mapping[str, str] | None = None,
    *,
    proxy_settings: Mapping[str, object] | None = None,
    ports: tuple[int, int, int, int] | None = None,
    retry_max_times: int = RETRY_MAX_TIMES,
) -> Iterator[RocketmqProcesses]:
    """Run the server with its files in `folder`, which may have an earlier run's. `topics`: name -> number of queues
    and message type, such as FIFO; `groups`: name -> whether it is ordered; `ports`: what `free_ports` gave."""
    name_port, broker_port, grpc_port, remoting_port = ports or free_ports()
    store = folder / "store"
    _write_topics(store / "config", topics)
    _write_groups(store / "config", groups or {}, retry_max_times)
    settings = {
        "brokerClusterName": CLUSTER,
        "brokerName": "broker-a",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": str(broker_port),
        "namesrvAddr": f"127.0.0.1:{name_port}",
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "fileReservedTime": "100000",
        **(broker_settings or {}),
    }
    _write_properties(folder / "broker.conf", settings)
    _write_properties(folder / "name-server.conf", {"listenPort": str(name_port)})
    found = {
        "rocketMQClusterName": CLUSTER,
        "grpcServerPort": grpc_port,
        "remotingListenPort": remoting_port,
        "namesrvAddr": f"127.0.0.1:{name_port}",
        **(proxy_settings or {}),
    }
    (folder / "proxy.json").write_text(json.dumps(found))
    proxy_words = ["-pm", "local", "-n", f"127.0.0.1:{name_port}"]
    proxy_words += ["-bc", str(folder / "broker.conf"), "-pc", str(folder / "proxy.json")]
    with (
        _java(jars, folder, "namesrv.NamesrvStartup", "-c", str(folder / "name-server.conf")) as name_server,
        _java(jars, folder, "proxy.ProxyStartup", *proxy_words) as proxy,
    ):
        yield RocketmqProcesses(f"127.0.0.1:{grpc_port}", (name_server.pid, proxy.pid), folder)


def free_ports() -> tuple[int, int, int, int]:
    """Return free ports for a name server, a broker, and a proxy's two protocols. A broker also takes the port two
    below its own and the one above."""
    while True:
        ports = random.SystemRandom().sample(PORTS, 4)  # not where tests that seed dice look at the same time
        with suppress(OSError), ExitStack() as held:
            for port in (*ports, ports[1] - 2, ports[1] + 1):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports[0], ports[1], ports[2], ports[3]


@contextmanager
def _java(jars: Path, folder: Path, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = java_command(jars, folder, MEMORY, f"org.apache.rocketmq.{name}", *words)
    with open(folder / f"{name}.out", "wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, "ROCKETMQ_HOME": str(folder)}
        )
    try:
        yield process
    finally:
        process.kill()  # what its store would do in an orderly end takes seconds, and nobody reads it again
        process.wait(END_S)


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def _write_topics(folder: Path, topics: Mapping[str, tuple[int, str]]) -> None:
    """As the broker itself keeps them: it needs no admin client to make them."""
    folder.mkdir(parents=True, exist_ok=True)
    table = {
        name: {
            "attributes": {"message.type": kind},
            "order": False,
            "perm": 6,
            "readQueueNums": queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": queues,
        }
        for name, (queues, kind) in topics.items()
    }
    (folder / "topics.json").write_text(json.dumps({"dataVersion": _VERSION, "topicConfigTable": table}))


def _write_groups(folder: Path, groups: Mapping[str, bool], retry_max_times: int) -> None:
    table = {
        name: {"groupName": name, "consumeMessageOrderly": is_ordered, "retryMaxTimes": retry_max_times}
        for name, is_ordered in groups.items()
    }
    found = {"dataVersion": _VERSION, "forbiddenTable": {}, "subscriptionGroupTable": table}
    (folder / "subscriptionGroup.json").write_text(json.dumps(found))


_VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 0}
