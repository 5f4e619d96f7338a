"""The two servers of a run: processes, when they are ready, and what memory they take."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from ....serve.calls.protocol import SERVICE_NAME, Code, definition, service
from .rocketmq_proxy import free_ports, rocketmq_running

SENT, DRAINED, WATCHED = "sent", "drained", "watched"
"""Topics: what sends write, what receives read, and what goes from end to end."""
GROUPS = {DRAINED: "drainers", WATCHED: "watchers"}
"""The consumer group of a topic."""
QUEUES = 8
START_S, END_S = 120.0, 60.0
LOOK_S = 0.01


class ServerEndedError(Exception):
    """A server ended, or was not ready in time; its last words are in the text."""


@dataclass(frozen=True)
class RunningServer:
    """A server that answers."""

    address: str
    pids: tuple[int, ...]
    started_s: float
    """From the start of its first process until a client had a route."""

    @property
    def memory(self) -> dict[str, float]:
        """MiB of all its processes: resident, and what is theirs alone."""
        found = [_memory(pid) for pid in self.pids]
        return {"RSS MiB": sum(rss for rss, _ in found), "private MiB": sum(private for _, private in found)}


def _memory(pid: int) -> tuple[float, float]:
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0]) / 1024
    return fields["Rss"], fields["Private_Clean"] + fields["Private_Dirty"]


@contextmanager
def own_server(folder: Path, *, sync: bool) -> Iterator[RunningServer]:
    """`flightlog serve` as users start it."""
    port = free_ports()[0]
    command = [sys.executable, "-P", "-m", "flightlog", "serve", str(folder / "store"), "--port", str(port)]
    for topic in (SENT, *GROUPS):
        command += ["--topic", f"{topic}:{QUEUES}:normal"]
    command += ["--sync-flush"] * sync
    output = folder / "serve.out"
    began_s = time.perf_counter()
    with open(output, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        address = f"127.0.0.1:{port}"
        _await_route(address, output)
        yield RunningServer(address, (process.pid,), time.perf_counter() - began_s)
    finally:
        process.terminate()
        process.wait(END_S)


@contextmanager
def rocketmq_server(jars: Path, folder: Path, *, sync: bool) -> Iterator[RunningServer]:
    """RocketMQ's name server, and its proxy with the broker inside."""
    topics = dict.fromkeys((SENT, *GROUPS), (QUEUES, "NORMAL"))
    settings = {"flushDiskType": "SYNC_FLUSH" if sync else "ASYNC_FLUSH"}
    began_s = time.perf_counter()
    groups = dict.fromkeys(GROUPS.values(), False)
    with rocketmq_running(jars, folder, topics, groups, settings) as processes:
        _await_route(processes.address, folder / "proxy.ProxyStartup.out")
        yield RunningServer(processes.address, processes.pids, time.perf_counter() - began_s)


def _await_route(address: str, output: Path) -> None:
    """Return once a client gets the route of a topic. Raises ServerEndedError."""
    request = service.QueryRouteRequest(topic=definition.Resource(name=SENT))
    request.endpoints.scheme = definition.AddressScheme.IPv4
    request.endpoints.addresses.add(host="127.0.0.1", port=int(address.rpartition(":")[2]))
    until_s = time.perf_counter() + START_S
    while not _has_route(address, request.SerializeToString()):
        if time.perf_counter() > until_s:
            raise ServerEndedError(f"no route after {START_S:g} s: {output.read_text(errors='replace')[-2000:]}")
        time.sleep(LOOK_S)


def _has_route(address: str, request: bytes) -> bool:
    # A new connection a try: gRPC waits longer and longer between tries of its own.
    with closing(grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])) as channel:
        asking: Any = channel.unary_unary(f"/{SERVICE_NAME}/QueryRoute")
        try:
            found = asking(request, metadata=(("x-mq-client-id", "bench"),), timeout=5)
        except grpc.RpcError:
            return False
    return bool(service.QueryRouteResponse.FromString(found).status.code == Code.OK)
