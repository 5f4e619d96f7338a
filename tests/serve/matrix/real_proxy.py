"""RocketMQ's name server and its proxy with the broker inside, as a server that clients are tried at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc

from flightlog.serve.http2.certificates import development_tls
from flightlog.tests.serve.matrix.scenarios import GROUPS, RETRIES, TOPICS
from flightlog.tests.serve.proxy.conversation import Conversation
from flightlog.tests.serve.proxy.questions import route
from flightlog.tools.bench.served.rocketmq_proxy import free_ports, rocketmq_running

SETTINGS = {
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "transactionTimeOut": "8000",
    "transactionCheckInterval": "1000",
}
START_S, LOOK_S = 240.0, 0.5


class ProxyServer:
    """A restart kills it: what it answered is in its files."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._jars, self._folder, self._ports = jars, folder, free_ports()
        self._running = ExitStack()
        self.address = f"127.0.0.1:{self._ports[2]}"
        self.authority = folder / "tls" / "ca.pem"
        """The certificate that clients may trust. Without one, the proxy signs its own, which those of Node.js and
        Rust refuse."""

    def start(self) -> None:
        """Returns when clients can have routes."""
        development_tls(self.authority.parent, ())
        key_and_chain = str(self.authority.with_name("server.pem"))
        running = rocketmq_running(
            self._jars,
            self._folder,
            TOPICS,
            GROUPS,
            SETTINGS,
            proxy_settings={"tlsTestModeEnable": False, "tlsKeyPath": key_and_chain, "tlsCertPath": key_and_chain},
            ports=self._ports,
            retry_max_times=RETRIES,
        )
        server = self._running.enter_context(running)
        until_s = time.monotonic() + START_S
        with grpc.insecure_channel(self.address) as channel:
            talk = Conversation(channel, lambda ms: time.sleep(ms / 1000))
            while talk.ask("ready", "QueryRoute", route("orders")) is None or '"OK"' not in talk.answers["ready"]:
                if time.monotonic() > until_s:
                    raise TimeoutError((server.logs / "proxy.ProxyStartup.out").read_text())
                del talk.answers["ready"]
                time.sleep(LOOK_S)

    def stop(self) -> None:
        self._running.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def has_dead_letter(self, group: str) -> bool:
        return (self._folder / "store" / "consumequeue" / f"%DLQ%{group}").is_dir()


@contextmanager
def proxy_server(jars: Path, folder: Path) -> Iterator[ProxyServer]:
    folder.mkdir(parents=True)
    server = ProxyServer(jars, folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
