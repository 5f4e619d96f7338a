"""RocketMQ's own processes: a broker, `BrokerStartup -c broker.conf`, on a folder that is there; a name server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flightlog.tests.cluster.processes import free_port
from flightlog.tests.interop.harness import RocketMq, java_environment
from flightlog.tests.support import signals

BROKER = "org.apache.rocketmq.broker.BrokerStartup"
NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
STARTED = "boot success"
START_LIMIT_S = 240.0
END_LIMIT_S = 120.0
POLL_S = 0.05


@dataclass(frozen=True)
class Ended:
    """A broker that did not start."""

    code: int
    output: str
    """With what a broker otherwise writes into its log files: the programs' logback.xml sends it to stderr."""


def _start(rocketmq: RocketMq, main_class: str, conf: Path, home: Path) -> tuple[subprocess.Popen[bytes], Path]:
    home.mkdir(exist_ok=True)
    output = home / "output"
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            [*rocketmq.java(str(home)), main_class, "-c", str(conf)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stdout,
            cwd=home,
            env={**java_environment(), "ROCKETMQ_HOME": str(home)},
            preexec_fn=signals.default_signals,
        )
    deadline_s = time.monotonic() + START_LIMIT_S
    while STARTED not in output.read_text(errors="replace") and process.poll() is None:
        if time.monotonic() > deadline_s:
            process.kill()
            process.wait()
            raise TimeoutError(output.read_text(errors="replace"))
        time.sleep(POLL_S)
    return process, output


@contextmanager
def running_broker(rocketmq: RocketMq, conf: Path, home: Path) -> Iterator[None]:
    """A broker that has started; afterwards it is shut down in order."""
    with _running(rocketmq, BROKER, conf, home):
        yield


@contextmanager
def running_name_server(rocketmq: RocketMq, home: Path) -> Iterator[str]:
    """A name server; yields its address."""
    home.mkdir()
    port = free_port()
    conf = home / "name-server.conf"
    conf.write_text(f"listenPort={port}\n")
    with _running(rocketmq, NAME_SERVER, conf, home):
        yield f"127.0.0.1:{port}"


@contextmanager
def _running(rocketmq: RocketMq, main_class: str, conf: Path, home: Path) -> Iterator[None]:
    process, output = _start(rocketmq, main_class, conf, home)
    try:
        if process.poll() is not None:
            raise AssertionError(f"exit code {process.returncode}\n{output.read_text(errors='replace')}")
        yield
        process.terminate()
        process.wait(END_LIMIT_S)
    finally:
        process.kill()
        process.wait()


def ended_broker(rocketmq: RocketMq, conf: Path, home: Path) -> Ended:
    """Start a broker that is expected to end by itself."""
    process, output = _start(rocketmq, BROKER, conf, home)
    try:
        code = process.wait(END_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    return Ended(code, output.read_text(errors="replace"))
