"""RocketMQ's own processes on loopback: name servers, controllers, brokers, proxies, as a person starts them.

    Cluster ──> RocketmqProcess      one Java process with a home of its own, in which its logs are

`with Cluster(jars, folder) as cluster:` whatever happens inside, no process outlives it, nor this process.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from flightlog.tests.support import signals
from flightlog.tools.bench.java_program import java_command

MEMORY = ("-Xms64m", "-Xmx384m", "-XX:MaxDirectMemorySize=1g", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""Limits of each process; RocketMQ's own scripts give them gigabytes. Every thread of a broker that stores takes 4 MiB
of direct memory: with 256 MiB in all, those that bring popped messages back failed, and only its pop.log told it."""
QUICK_START = "-XX:TieredStopAtLevel=1"
START_LIMIT_S = 240.0
END_LIMIT_S = 120.0
POLL_S = 0.05
PORTS = range(15_000, 32_000)
"""Below those that the system gives to connections: a process that is started again finds its port free."""
BESIDE = (-2, 0, 1)
"""A broker also takes the port two below its own, for fast answers, and the one above, for slaves."""
PARTS = 8
"""Parts of the port range: each process that runs tests has its own, since it cannot see what another one is about to
bind."""
PROXY_STARTS = 3
NO_PROXY_TOPIC = "create system broadcast topic"
"""What a proxy logs in that case."""
SHOWN = 3000  # characters of a log; the end says why
LOG_FILES_OF_49 = ("logback_broker.xml", "logback_namesrv.xml")
NO_LOG = '<configuration><root level="WARN"/></configuration>'


_given: set[int] = set()


def free_port(beside: Sequence[int] = BESIDE) -> int:
    """A port of loopback that is free together with those beside it, and was not given before."""
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PARTS
    size = len(PORTS) // PARTS
    while True:
        port = random.choice(PORTS[place * size + 2 : (place + 1) * size - 1])
        ports = {port + step for step in beside}
        if ports & _given:
            continue
        with ExitStack() as held:
            try:
                for each in ports:
                    held.enter_context(socket.create_server(("127.0.0.1", each)))
            except OSError:
                continue
        _given.update(ports)
        return port


def with_lines(conf: str, lines: Mapping[str, object]) -> str:
    """A `broker.conf` in which these keys have these values."""
    kept = [line for line in conf.splitlines() if line.partition("=")[0] not in lines]
    return "\n".join([*kept, *(f"{name}={value}" for name, value in lines.items())]) + "\n"


class EndedError(Exception):
    """A process ended instead of starting; the message has the end of what it printed and logged."""


class RocketmqProcess:
    """One Java process. Its logs are `home/logs/rocketmqlogs/*.log`, what it prints is in `home/output`."""

    def __init__(self, jars: Path, home: Path, ready: str, words: Sequence[str]) -> None:
        (home / "conf").mkdir(parents=True, exist_ok=True)
        for name in LOG_FILES_OF_49:
            (home / "conf" / name).write_text(NO_LOG)
        self.home, self._ready = home, ready
        command = java_command(jars, home, (*MEMORY, QUICK_START, f"-Drocketmq.home.dir={home}"), *words)
        with (home / "output").open("wb") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],  # it dies with this process
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=home,
                env={**os.environ, "ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": ""},
                preexec_fn=signals.default_signals,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        """What it printed, and the end of each log that speaks of an error."""
        parts = [(self.home / "output").read_text(errors="replace")[-SHOWN:]]
        for path in sorted((self.home / "logs").rglob("*.log")):
            text = path.read_text(errors="replace")
            if "ERROR" in text:
                parts.append(f"--- {path.name}\n{text[-SHOWN:]}")
        return "\n".join(parts)

    def wait_started(self) -> Self:
        """Raises EndedError, TimeoutError."""
        deadline_s = time.monotonic() + START_LIMIT_S
        while self._ready not in (self.home / "output").read_text(errors="replace"):
            if self._process.poll() is not None:
                raise EndedError(f"{self.home.name}: exit code {self._process.returncode}\n{self.output}")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.home.name}: no {self._ready!r} in {START_LIMIT_S:.0f} s\n{self.output}")
            time.sleep(POLL_S)
        return self

    def wait_ended(self) -> int:
        """The exit code of a process that ends by itself."""
        return self._process.wait(END_LIMIT_S)

    def stop(self) -> None:
        """In order, as `mqshutdown` does."""
        self._process.terminate()
        self._process.wait(END_LIMIT_S)

    def kill(self) -> None:
        """As `kill -9`; nothing happens to one that has ended."""
        self._process.kill()
        self._process.wait(END_LIMIT_S)


class Cluster:
    """Processes of one release, each with a home in `folder`; at the end of the context they are killed."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._jars, self._folder, self._ending = jars, folder, ExitStack()
        self.name_server = ""
        """Its address, once it was started."""
        self.controller = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def start_name_server(self, *, has_controller: bool = False) -> RocketmqProcess:
        """A name server, with a controller inside it on request."""
        port = free_port((0,))
        lines: dict[str, object] = {"listenPort": port}
        self.name_server = f"127.0.0.1:{port}"
        if has_controller:
            home = self._folder / "name-server"
            self.controller = f"127.0.0.1:{free_port((0,))}"
            lines |= {
                "enableControllerInNamesrv": "true",
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": f"n0-{self.controller}",
                "controllerDLegerSelfId": "n0",
                "controllerStorePath": home / "controller",
                "scanNotActiveBrokerInterval": 1000,
                "enableElectUncleanMaster": "false",
            }
        conf = self._written("name-server.conf", with_lines("", lines))
        return self._start("name-server", "boot success", "namesrv.NamesrvStartup", "-c", str(conf))

    def launch_broker(self, name: str, conf: str) -> RocketmqProcess:
        """A broker that has not started yet, and may never."""
        path = self._written(f"{name}.conf", conf)
        return self._launch(name, "boot success", "broker.BrokerStartup", "-c", str(path))

    def start_broker(self, name: str, conf: str) -> RocketmqProcess:
        return self.launch_broker(name, conf).wait_started()

    def start_proxy(self, *, cluster_name: str = "DefaultCluster") -> str:
        """A proxy before all brokers of the name server; returns its address for gRPC clients. One that could not make
        its own topic is started again: beside other load a broker may not answer that within its three seconds."""
        for number in range(1, PROXY_STARTS):
            try:
                return self._proxy_started(f"proxy-{number}", cluster_name)
            except EndedError as e:
                if NO_PROXY_TOPIC not in str(e):
                    raise
        return self._proxy_started("proxy", cluster_name)

    def _proxy_started(self, name: str, cluster_name: str) -> str:
        grpc_port = free_port((0,))
        settings = {
            "rocketMQClusterName": cluster_name,
            "grpcServerPort": grpc_port,
            "remotingListenPort": free_port((0,)),
            "namesrvAddr": self.name_server,
        }
        path = self._written(f"{name}.json", json.dumps(settings))
        self._start(
            *(name, "rocketmq-proxy startup successfully", "proxy.ProxyStartup"),
            *("-pm", "cluster", "-n", self.name_server, "-pc", str(path)),
        )
        return f"127.0.0.1:{grpc_port}"

    def _written(self, name: str, text: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        path.write_text(text)
        return path

    def _launch(self, name: str, ready: str, *words: str) -> RocketmqProcess:
        main_class, *rest = words
        process = RocketmqProcess(self._jars, self._folder / name, ready, [f"org.apache.rocketmq.{main_class}", *rest])
        self._ending.callback(process.kill)
        return process

    def _start(self, name: str, ready: str, *words: str) -> RocketmqProcess:
        return self._launch(name, ready, *words).wait_started()
