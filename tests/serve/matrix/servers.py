"""The servers that clients are tried at: ours in this process, and RocketMQ's name server, broker and proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flightlog import StoreSettings
from flightlog.serve.access.acl_file import AclFile
from flightlog.serve.http2.certificates import development_tls
from flightlog.store.topic import MESSAGE_TYPE
from flightlog.tests.serve.matrix.scenarios import GROUPS, RETRIES, TOPICS
from flightlog.tests.support.rocketmq_server import ServedStore

# A client that stands still for a while must not be asked about what it is about to commit.
SETTINGS = StoreSettings.small(transaction_timeout_ms=8000, transaction_check_interval_ms=1000)
ACCESS_KEY, SECRET_KEY = "administrator", "tested-secret"
ACL = f"accounts:\n  - accessKey: {ACCESS_KEY}\n    secretKey: {SECRET_KEY}\n    admin: true\n"


class OurServer:
    """A served store with the topics and groups of the scenarios."""

    def __init__(self, served: ServedStore, authority: Path) -> None:
        self._served = served
        self.authority = authority
        """The certificate that clients may trust."""

    @property
    def address(self) -> str:
        return self._served.address

    def restart(self) -> None:
        self._served.stop()
        self._served.start()

    @property
    def path(self) -> Path:
        """Path of the store."""
        return self._served.path

    def has_dead_letter(self, group: str) -> bool:
        return bool(self.bodies_of_dead_letters(group))

    def bodies_of_dead_letters(self, group: str) -> list[bytes]:
        return [each.body for each in self._served.store.dead_letters(group)]


def make_names(served: ServedStore) -> None:
    """The topics and groups of the scenarios."""
    for topic, (queues, message_type) in TOPICS.items():
        served.store.create_topic(topic, queues, attributes={MESSAGE_TYPE: message_type})
    for group, is_ordered in GROUPS.items():
        served.store.update_group(group, is_ordered=is_ordered, retry_max_times=RETRIES)


@contextmanager
def our_server(folder: Path, *, has_acl: bool = False) -> Iterator[OurServer]:
    """Plaintext and TLS on one port; with access control on request."""
    acl = None
    folder.mkdir(parents=True)
    if has_acl:
        (folder / "plain_acl.yml").write_text(ACL)
        acl = AclFile(folder / "plain_acl.yml")
    served = ServedStore(folder / "store", SETTINGS, development_tls(folder / "tls", ()), acl)
    served.start()
    with ExitStack() as undo:
        undo.callback(served.stop)
        make_names(served)
        yield OurServer(served, folder / "tls" / "ca.pem")
