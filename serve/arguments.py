"""What `flightlog serve` is told: topics, groups, addresses, and which of them are refused."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..consume.store import Store
from ..produce.message_type import FIFO, MIXED, TYPES
from ..store.arguments import check_group
from ..store.errors import InvalidArgumentError
from ..store.topic import MESSAGE_TYPE, NORMAL, check_topic_name

DEFAULT_QUEUES = 8
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
NAME_MAX = 127
ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class TopicArgument:
    """`NAME:QUEUES[:TYPE]`"""

    name: str
    queue_count: int
    message_type: str

    @classmethod
    def parsed(cls, text: str) -> TopicArgument:
        """Raises InvalidArgumentError, InvalidTopicError."""
        expected = "NAME, NAME:QUEUES or NAME:QUEUES:TYPE, with the type normal, fifo, delay, transaction or mixed"
        name, *rest = text.split(":")
        count = rest[0] if rest else str(DEFAULT_QUEUES)
        kind = rest[1].upper() if len(rest) > 1 else MIXED
        is_count = count.isascii() and count.isdigit() and 0 < int(count) <= 1 << 16
        if len(rest) > 2 or not is_count or kind not in (*TYPES, MIXED):
            raise InvalidArgumentError("--topic", text, expected)
        check_topic_name(name)
        return cls(name, int(count), kind)

    def make(self, store: Store) -> None:
        """Make the topic, or give the one that is there this type. Raises InvalidArgumentError if that one has another
        number of queues."""
        there = store.topic(self.name)
        attributes = {MESSAGE_TYPE: self.message_type}
        if there is None:
            store.create_topic(self.name, self.queue_count, attributes=attributes)
            return
        if there.read_queue_count != self.queue_count or there.write_queue_count != self.queue_count:
            given, found = f"{self.name}:{self.queue_count}", there.queue_count
            raise InvalidArgumentError("--topic", given, f"the {found} queues that the topic has in {store.path}")
        if there.message_type != self.message_type:
            store.update_topic(self.name, attributes={**there.attributes, **attributes})


@dataclass(frozen=True)
class GroupArgument:
    """`NAME:TYPE`"""

    name: str
    is_ordered: bool

    @classmethod
    def parsed(cls, text: str) -> GroupArgument:
        """Raises InvalidArgumentError."""
        name, _, kind = text.partition(":")
        if kind.upper() not in (NORMAL, FIFO):
            expected = "NAME:fifo for a group that receives in order, or NAME:normal"
            raise InvalidArgumentError("--group", text, expected)
        return cls(check_group(name), kind.upper() == FIFO)

    def make(self, store: Store) -> None:
        """Make the group, or have the one that is there receive so. Raises DiskError."""
        store.update_group(self.name, is_ordered=self.is_ordered)


def broker_names(paths: Sequence[Path]) -> list[str]:
    """The name of each store among them: that of its folder. Raises InvalidArgumentError for two that are the same."""
    names = [NOT_IN_NAMES.sub("_", path.resolve().name)[:NAME_MAX] or "store" for path in paths]
    for path, name in zip(paths, names, strict=True):
        if names.count(name) > 1:
            expected = f"folders of different names: clients know a store by its name, and two would be {name!r}"
            raise InvalidArgumentError("paths", str(path), expected)
    return names


def checked_address(text: str) -> str:
    """`HOST:PORT`. Raises InvalidArgumentError."""
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        raise InvalidArgumentError("--advertise", text, "HOST:PORT, such as mq.example.org:8081 or [::1]:8081")
    return text


def is_loopback(host: str) -> bool:
    """Whether no other machine can reach this address. Of a name this is not known."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_loopback(host: str) -> None:
    """Raises InvalidArgumentError for an address that other machines may reach."""
    if not is_loopback(host):
        expected = (
            "a loopback address, or --insecure, --acl, --tls-cert or --tls-dev as well: "
            "whoever reaches this address can read and write everything"
        )
        raise InvalidArgumentError("--host", host, expected)


def check_metrics(port: int, host: str) -> None:
    """Raises InvalidArgumentError for an address that other machines may reach: no account is asked for there."""
    if not is_loopback(host):
        expected = "a loopback --host, or --insecure as well: whoever reaches this port can read names and figures"
        raise InvalidArgumentError("--metrics", str(port), expected)


def store_host(advertise: str | None, host: str, port: int) -> tuple[str, int]:
    """The address in the ids of messages, which a remoting client dials to see a message: an IP address. What clients
    are told to dial, else what is listened on, else this machine's loopback."""
    for found in ([] if advertise is None else [advertise.rpartition(":")[0].strip("[]")]) + [host]:
        try:
            address = ipaddress.ip_address(found)
        except ValueError:
            continue
        if not address.is_unspecified:
            return str(address), port
    return "127.0.0.1", port
