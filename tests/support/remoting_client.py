"""A remoting client of a few lines, for what RocketMQ's own ones cannot be made to say."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from flightlog.serve.remoting.wire import frame
from flightlog.serve.remoting.wire.command import ONE_WAY, Command, HeaderKind

PATIENCE_S = 60.0


class RemotingClient:
    """Blocking. What the server asks or says by itself is kept in `told`."""

    def __init__(self, port: int, kind: HeaderKind = HeaderKind.JSON) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._kind = kind
        self._reader, self._opaque = frame.FrameReader(), itertools.count(1)
        self._answers: dict[int, Command] = {}
        self.told: list[Command] = []

    def send(self, code: int, fields: Mapping[str, Any] | None = None, body: Any = b"", *, flag: int = 0) -> int:
        """Ask, and do not wait; returns the number that the answer will have."""
        opaque = next(self._opaque)
        texts = {name: str(value) for name, value in (fields or {}).items()}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.raw(frame.encode(Command(code, opaque, flag, texts, raw, kind=self._kind)))
        return opaque

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def next(self) -> Command | None:
        """The next frame; None once the server has closed."""
        while (found := self._reader.next()) is None:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._reader.feed(data)
        return found

    def answer(self, opaque: int) -> Command:
        """That of this number; others may come before it."""
        while opaque not in self._answers:
            found = self.next()
            assert found is not None, "the server closed the connection"
            if found.is_response:
                self._answers[found.opaque] = found
            else:
                self.told.append(found)
        return self._answers.pop(opaque)

    def call(self, code: int, fields: Mapping[str, Any] | None = None, body: Any = b"") -> Command:
        return self.answer(self.send(code, fields, body))

    def ask(self, command: Command) -> Command:
        """The answer to a command as it is."""
        self.send_command(command)
        return self.answer(command.opaque)

    def send_command(self, command: Command) -> None:
        self.raw(frame.encode(command))

    def say(self, code: int, fields: Mapping[str, Any] | None = None, body: Any = b"") -> None:
        """Ask for no answer."""
        self.send(code, fields, body, flag=ONE_WAY)

    def wait_until_told(self, code: int) -> Command:
        """The next request of this code by the server."""
        for place, found in enumerate(self.told):
            if found.code == code:
                return self.told.pop(place)
        while (told := self.next()) is not None:
            if told.code == code and not told.is_response:
                return told
            self.told.append(told)
        raise AssertionError("the server closed the connection")

    def fileno(self) -> int:
        """For `select`: readable once the server has said something, or closed."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def heartbeat(client_id: str, group: str, topic: str, *, expression: str = "*", version: int = 1) -> dict[str, Any]:
    """The body of a consumer's heartbeat."""
    subscription = {"topic": topic, "subString": expression, "subVersion": version, "expressionType": "TAG"}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    return {"clientID": client_id, "producerDataSet": [], "consumerDataSet": [consumer]}


@contextmanager
def reserved_port() -> Iterator[int]:
    """A free port that nobody else gets meanwhile: it is bound, and not listened on."""
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind(("127.0.0.1", 0))
        yield holding.getsockname()[1]
