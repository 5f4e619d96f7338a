"""RocketMQ's name server and its proxy with the broker inside, as a server that clients are tried at."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc

from flightlog.serve.http2.certificates import development_tls
from flightlog.tests.serve.matrix.scenarios import GROUPS, RETRIES, TOPICS
from flightlog.tests.serve.matrix.servers import ACCESS_KEY, SECRET_KEY
from flightlog.tests.serve.proxy.conversation import CLIENT, Conversation
from flightlog.tests.serve.proxy.questions import route
from flightlog.tools.bench.served.rocketmq_proxy import free_ports, rocketmq_running

SETTINGS = {
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
    "transactionTimeOut": "8000",  # below 3000 (transactionOpBatchInterval) it asks about what was ended as well
    "transactionCheckInterval": "1000",
}
AUTHENTICATION = "org.apache.rocketmq.auth.authentication.provider"
ACCOUNT = {
    "authenticationMetadataProvider": f"{AUTHENTICATION}.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": ACCESS_KEY, "password": SECRET_KEY}),
}
"""Settings of the broker, which keeps the accounts."""
ACL = {
    "authenticationEnabled": True,
    "authenticationProvider": f"{AUTHENTICATION}.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
}
"""Settings of the proxy, which asks the broker for them."""
START_S, LOOK_S = 240.0, 0.5


class ProxyServer:
    """A restart kills it: what it answered is in its files."""

    def __init__(self, jars: Path, folder: Path, *, has_acl: bool) -> None:
        self._has_acl = has_acl
        self._jars, self._folder, self._ports = jars, folder, free_ports()
        self._running = ExitStack()
        self.address = f"127.0.0.1:{self._ports[2]}"
        self.authority = folder / "tls" / "ca.pem"
        """The certificate that clients may trust. Without one, the proxy signs its own, which those of Node.js and
        Rust refuse."""

    def start(self) -> None:
        """Returns when clients can have routes."""
        development_tls(self.authority.parent, ())
        pem = str(self.authority.with_name("server.pem"))
        tls = {"tlsTestModeEnable": False, "tlsKeyPath": pem, "tlsCertPath": pem}
        running = rocketmq_running(
            self._jars,
            self._folder,
            TOPICS,
            GROUPS,
            {**SETTINGS, **(ACCOUNT if self._has_acl else {})},
            proxy_settings={**tls, **(ACL if self._has_acl else {})},
            ports=self._ports,
            retry_max_times=RETRIES,
        )
        server = self._running.enter_context(running)
        until_s = time.monotonic() + START_S
        with grpc.insecure_channel(self.address) as channel:
            talk = Conversation(channel, lambda ms: time.sleep(ms / 1000))
            while (
                talk.ask("ready", "QueryRoute", route("orders"), client=(*CLIENT, *signature())) is None
                or '"OK"' not in talk.answers["ready"]
            ):
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
def proxy_server(jars: Path, folder: Path, *, has_acl: bool = False) -> Iterator[ProxyServer]:
    folder.mkdir(parents=True)
    server = ProxyServer(jars, folder, has_acl=has_acl)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def signature() -> tuple[tuple[str, str], ...]:
    """The headers of a call by the account; a proxy without access control does not look at them."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    signed = hmac.new(SECRET_KEY.encode(), now.encode(), "sha1").hexdigest().upper()
    words = f"MQv2-HMAC-SHA1 Credential={ACCESS_KEY}, SignedHeaders=x-mq-date-time, Signature={signed}"
    return ("x-mq-date-time", now), ("authorization", words)
