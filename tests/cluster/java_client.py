"""RocketMQ's Java remoting client, of any release, in a process of its own: see java/Client.java."""

from __future__ import annotations

import base64
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from flightlog import StoredMessage
from flightlog.tests.cluster.processes import MEMORY, QUICK_START
from flightlog.tools.bench.java_program import java_command

SOURCE = Path(__file__).resolve().with_name("java") / "Client.java"
RUN_S = 500.0
SHOWN = 4000  # characters


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
    home.mkdir(parents=True, exist_ok=True)
    options = [*MEMORY, QUICK_START, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    options += ["-Drocketmq.client.rebalance.waitInterval=500", f"-Drocketmq.client.logRoot={home}"]
    options.append(f"-Drocketmq.client.localOffsetStoreDir={local_offsets or home}")
    command = java_command(jars, home, options, str(SOURCE), name_server, counted, *map(str, words))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_S, cwd=home, env={**os.environ, "NAMESRV_ADDR": ""}
    )
    said, is_done = Said({}, []), False
    for line in done.stdout.splitlines():
        kind, *rest = line.split("\t")
        if kind == "sent":
            assert rest[3] == "SEND_OK", line
            said.sent.append((int(rest[0]), int(rest[1]), rest[2]))
        elif kind == "done":
            is_done = True
        elif kind == "missing":
            raise AssertionError(f"the group {rest[0]!r} waited in vain for {rest[1]} messages\n{done.stderr[-SHOWN:]}")
        elif len(rest) == 11:
            said.messages.setdefault(kind, []).append(Seen.of_words(rest))
    assert is_done, f"{done.stdout[-SHOWN:]}\n{done.stderr[-SHOWN:]}"
    return said
