"""What a remoting client sends: frames in pieces, batches of messages, and bodies of JSON."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flightlog.serve.remoting.wire import fastjson, frame
from flightlog.serve.remoting.wire.command import Command, HeaderKind, InvalidFrameError
from flightlog.serve.remoting.wire.message_bytes import BATCH_HEAD, batch_messages

LONE_SURROGATES = range(0xD800, 0xE000)


def one(data: bytes) -> None:
    """The first byte says where the rest is cut in two, as a connection may deliver it."""
    cut, rest = (data[0], data[1:]) if data else (0, b"")
    commands, is_good = _read(rest)
    assert _read(rest[:cut], rest[cut:]) == (commands, is_good)
    for each in commands:
        again = frame.decode(frame.encode(each)[frame.LENGTH.size :])
        assert again == each or not _is_written_as_it_is(each), each
    for raw in (rest, *(each.body for each in commands)):
        _try_body(raw)


def _read(*pieces: bytes) -> tuple[list[Command], bool]:
    """The commands, and whether all bytes may be of frames."""
    reader, found = frame.FrameReader(), []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (command := reader.next()) is not None:
                found.append(command)
        except InvalidFrameError:
            return found, False
        assert reader.size < frame.LENGTH.size + frame.MAX_LENGTH
    return found, True


def _is_written_as_it_is(command: Command) -> bool:
    """JSON has halves of characters, which no UTF-8 has; RocketMQ's own header has fewer languages."""
    texts = [command.language, command.remark or "", *command.fields, *command.fields.values()]
    return not any(ord(letter) in LONE_SURROGATES for text in texts for letter in text)


def _try_body(raw: bytes) -> None:
    with suppress(InvalidFrameError):
        messages = list(batch_messages(raw))
        assert sum(BATCH_HEAD.size + 2 + len(body) for _, body, _ in messages) <= len(raw)
    read: Callable[[bytes], Any]
    for read in (fastjson.decode, fastjson.decode_keyed):
        with suppress(ValueError):
            fastjson.encode(read(raw))


def seeds() -> list[bytes]:
    fields = {"topic": "orders", "i": "KEYS\x01k\x02", "queueId": "-1"}
    keyed = b'{"messageQueueTable":{{"brokerName":"store","queueId":0,"topic":"orders"}:7},"a":{1:[2]}}'
    message = BATCH_HEAD.pack(BATCH_HEAD.size + 10, 0, 0, 3, 4) + b"body" + (4).to_bytes(2, "big") + b"K\x01V\x02"
    commands = [
        Command(310, 1, 0, fields, b"body", kind=HeaderKind.ROCKETMQ),
        Command(105, 2, 0, {"topic": "ü"}, keyed, "remark", "GO"),
        Command(320, 3, 2, fields, message + message),
    ]
    frames = [frame.encode(each) for each in commands]
    return [b"\x07" + b"".join(frames), *(b"\x03" + each for each in frames), b"\0" + keyed, b"\0" + message * 2]
