"""RocketMQ's Java remoting client, of any release, in a process of its own: see java/Client.java."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

from flightlog import StoredMessage
from flightlog.tests.cluster.java_words import words_of


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as the client had it, decompressed."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    flag: int
    reconsume_times: int
    born_address: str
    body: bytes
    properties: dict[str, str] = field(hash=False)

    @classmethod
    def of_words(cls, words: list[str]) -> Seen:
        topic, *numbers, born_address, body, raw = words
        queue_id, queue_offset, physical_offset, born_ms, stored_ms, flag, reconsume_times = map(int, numbers)
        text = base64.b64decode(raw).decode()
        pairs = [each.partition("\x01") for each in text.split("\x02")[:-1]]
        return cls(
            *(topic, queue_id, queue_offset, physical_offset, born_ms, stored_ms, flag, reconsume_times),
            *(born_address, base64.b64decode(body), {name: value for name, _, value in pairs}),
        )

    @classmethod
    def of_store(cls, message: StoredMessage) -> Seen:
        """As the client will have to have it."""
        return cls(
            message.topic,
            message.queue_id,
            message.queue_offset,
            message.physical_offset,
            message.born_timestamp_ms,
            message.store_timestamp_ms,
            message.flag,
            message.reconsume_times,
            message.born_host.address,
            message.decompressed_body(),
            dict(message.properties),
        )


@dataclass
class Said:
    """What one run of the client printed."""

    messages: dict[str, list[Seen]]
    """By group; "pulled" and "asked" besides."""
    sent: list[tuple[int, int, str]]
    """Queue id, queue offset, body."""

    def bodies(self, name: str) -> list[str]:
        return sorted(each.body.decode() for each in self.messages.get(name, []))


def run_client(
    jars: Path, home: Path, name_server: str, *words: object, counted: str = "", local_offsets: Path | None = None
) -> Said:
    """It counts bodies that begin with `counted`; members that broadcast have their offsets in `local_offsets`. Raises
    AssertionError with its output where it failed, or waited in vain."""
    options = ["-Drocketmq.client.rebalance.waitInterval=500", f"-Drocketmq.client.logRoot={home}"]
    options.append(f"-Drocketmq.client.localOffsetStoreDir={local_offsets or home}")
    said = Said({}, [])
    for kind, *rest in words_of("Client.java", jars, home, options, name_server, counted, *words):
        if kind == "sent":
            assert rest[3] == "SEND_OK", rest
            said.sent.append((int(rest[0]), int(rest[1]), rest[2]))
        elif len(rest) == 11:
            said.messages.setdefault(kind, []).append(Seen.of_words(rest))
    return said
