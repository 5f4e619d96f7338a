"""RocketMQ's Java gRPC client in a process of its own, through a proxy: see java/GrpcClient.java."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

from flightlog import StoredMessage
from flightlog.tests.cluster.java_words import words_of


@dataclass(frozen=True, slots=True)
class GrpcSeen:
    """What clients show of a message: no place, no flag, and of its properties those of users."""

    topic: str
    message_id: str = field(compare=False)
    """Empty where the store has none: flightlog gives a unique key on request alone."""
    tag: str
    keys: frozenset[str]
    born_timestamp_ms: int
    body: str
    region: str | None
    """The one property that users of these tests set."""
    attempt: int = field(compare=False, default=1)

    @classmethod
    def of_words(cls, words: list[str]) -> GrpcSeen:
        topic, message_id, tag, keys, born_ms, _, attempt, body, properties = words
        pairs = [each.partition("\x01") for each in base64.b64decode(properties).decode().split("\x02")[:-1]]
        return cls(
            *(topic, message_id, tag, frozenset(base64.b64decode(keys).decode().split()), int(born_ms)),
            *(base64.b64decode(body).decode(), {name: value for name, _, value in pairs}.get("region")),
            attempt=int(attempt),
        )

    @classmethod
    def of_store(cls, message: StoredMessage) -> GrpcSeen:
        """As the client will have to have it."""
        properties = message.properties
        return cls(
            message.topic,
            properties.get("UNIQ_KEY", ""),
            properties.get("TAGS", ""),
            frozenset(properties.get("KEYS", "").split()),
            message.born_timestamp_ms,
            message.decompressed_body().decode(),
            properties.get("region"),
        )


@dataclass
class GrpcSaid:
    """What one run of the client printed."""

    messages: dict[str, list[GrpcSeen]]
    """By group, in the order in which they came."""
    sent: dict[str, str]
    """Message id -> body."""

    def bodies(self, group: str) -> list[str]:
        return [each.body for each in self.messages.get(group, [])]


def run_grpc_client(jars: Path, home: Path, proxy: str, *words: object, counted: str = "") -> GrpcSaid:
    """`jars`: of rocketmq-client-java. It counts bodies that begin with `counted`. Raises AssertionError with its
    output where it failed, or waited in vain."""
    said = GrpcSaid({}, {})
    for kind, *rest in words_of("GrpcClient.java", jars, home, [], proxy, counted, *words):
        if kind == "sent":
            said.sent[rest[0]] = rest[1]
        elif len(rest) == 9:
            said.messages.setdefault(kind, []).append(GrpcSeen.of_words(rest))
    return said
