"""Frames, headers and bodies of the remoting protocol, beside RocketMQ's own and with any bytes."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flightlog
from flightlog import Message, StoreSettings
from flightlog.serve.remoting.wire import fastjson, frame
from flightlog.serve.remoting.wire.command import LANGUAGES, Command, HeaderKind, InvalidFrameError
from flightlog.serve.remoting.wire.message_bytes import batch_messages, record_of
from flightlog.tests.support.remoting_java import run_remoting_program
from flightlog.tests.support.rocketmq_java import JavaClientMissingError

GOLDEN = Path(__file__).with_name("golden_frames.txt").read_text().splitlines()
"""As RocketMQ 5.3.3's `RemotingCommand` writes them: kind, number, bytes."""
MEANT = (
    Command(105, 7, 0, {"topic": "orders"}),
    Command(17, 8, 1, {}, remark="No topic route info"),
    Command(310, 9, 2, {"topic": "orders", "i": "K\x01V\x02", "täg": "€"}, b"hello"),
    Command(310, 10, 0, {"topic": "orders"}, language="GO"),
)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    Command,
    st.integers(-(1 << 15), (1 << 15) - 1),
    INT32,
    INT32,
    st.dictionaries(TEXT, TEXT, max_size=5),
    st.binary(max_size=50),
    st.none() | TEXT.filter(bool),
    st.sampled_from(sorted(LANGUAGES.values())),
    st.integers(-(1 << 15), (1 << 15) - 1),
    st.sampled_from(HeaderKind),
)


def commands_of(*pieces: bytes) -> list[Command]:
    reader = frame.FrameReader()
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (command := reader.next()) is not None:
            found.append(command)
    return found


@pytest.mark.parametrize("line", GOLDEN, ids=lambda line: " ".join(line.split()[:2]))
def test_what_rocketmq_wrote_is_read(line: str) -> None:
    kind, number, raw = line.split()
    [found] = commands_of(bytes.fromhex(raw))
    meant = MEANT[int(number)]
    assert found == replace(meant, kind=HeaderKind[kind])


@pytest.mark.parametrize("line", [line for line in GOLDEN if line.startswith("ROCKETMQ") and " 2 " not in line])
def test_rocketmqs_own_serialization_is_written_byte_for_byte(line: str) -> None:
    """That of frame 2 differs in the order of its fields, which is that of a Java HashMap."""
    raw = bytes.fromhex(line.split()[2])
    assert frame.encode(commands_of(raw)[0]) == raw


@pytest.mark.ci
def test_rocketmq_reads_what_we_write() -> None:
    frames = [frame.encode(replace(each, kind=kind)) for kind in HeaderKind for each in MEANT]
    try:
        found = run_remoting_program("Golden", *(each.hex() for each in frames))
        assert run_remoting_program("Golden") == GOLDEN
    except JavaClientMissingError as e:
        pytest.skip(str(e))
    expected = [
        "105 7 0 JAVA 479 null {topic=orders} 0",
        "17 8 1 JAVA 479 No topic route info {} 0",
        "310 9 2 JAVA 479 null {i=K\x01V\x02, topic=orders, täg=€} 5",
        "310 10 0 GO 479 null {topic=orders} 0",
    ]
    assert found == expected * 2


@pytest.mark.parametrize("wrong", [Command(200050), Command(1, version=1 << 15), Command(1, fields={"n" * 32_768: ""})])
def test_what_has_no_room_in_rocketmqs_own_serialization_is_refused(wrong: Command) -> None:
    with pytest.raises(InvalidFrameError):
        frame.encode(replace(wrong, kind=HeaderKind.ROCKETMQ))
    assert commands_of(frame.encode(wrong)) == [wrong]


@given(COMMANDS)
def test_a_command_comes_back(command: Command) -> None:
    assert commands_of(frame.encode(command)) == [command]


@given(st.lists(COMMANDS, min_size=1, max_size=4), st.lists(st.integers(0, 400), max_size=8))
def test_frames_come_in_pieces_of_any_size(commands: list[Command], cuts: list[int]) -> None:
    data = b"".join(map(frame.encode, commands))
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert commands_of(*(data[a:b] for a, b in itertools.pairwise(edges))) == commands


@given(st.binary(max_size=200))
def test_any_bytes_are_commands_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidFrameError):
        commands_of(data)


@given(st.sampled_from(HeaderKind), st.binary(max_size=120), st.binary(max_size=20))
def test_any_header_is_a_command_or_refused(kind: HeaderKind, header: bytes, body: bytes) -> None:
    word = (kind << 24 | len(header)).to_bytes(4, "big")
    with contextlib.suppress(InvalidFrameError):
        frame.decode(word + header + body)


@given(COMMANDS, st.data())
def test_a_frame_with_other_bytes_is_a_command_or_refused(command: Command, data: st.DataObject) -> None:
    raw = bytearray(frame.encode(command))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidFrameError):
        commands_of(bytes(raw))


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"extFields":' * 50_000,
        b'{"code":' + b"9" * 5_000 + b"}",
        b'{"code":1e400}',
        b'{"code":true}',
        b'{"opaque":4294967296}',
        b'{"extFields":{"a":{"b":"c"}}}',
        b'{"extFields":[1]}',
        b'{"remark":7}',
        b"\xff\xfe",
        b"null",
        b"",
    ],
    ids=lambda header: repr(header[:24]),
)
def test_a_hostile_json_header_is_refused(header: bytes) -> None:
    with pytest.raises(InvalidFrameError):
        frame.decode(len(header).to_bytes(4, "big") + header)


@pytest.mark.parametrize("length", [0, 3, frame.MAX_LENGTH + 1, 0xFFFFFFFF])
def test_a_length_that_cannot_be_is_refused_before_the_rest_comes(length: int) -> None:
    with pytest.raises(InvalidFrameError):
        commands_of(length.to_bytes(4, "big"))


def test_maps_with_numbers_and_objects_as_keys_are_written_as_fastjson_reads_them() -> None:
    queue = {"brokerName": "store", "queueId": 0, "topic": 'a"b'}
    value = {"offsetTable": fastjson.ObjectKeys([(queue, {"maxOffset": 3})]), "addresses": {0: "x"}, "none": None}
    expected = (
        '{"offsetTable":{{"brokerName":"store","queueId":0,"topic":"a\\"b"}:{"maxOffset":3}},'
        '"addresses":{0:"x"},"none":null}'
    )
    assert fastjson.encode(value).decode() == expected


@given(st.binary(max_size=200))
def test_any_batch_is_messages_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidFrameError):
        list(batch_messages(data))


def test_a_record_goes_out_as_it_is_in_the_log(tmp_path: Path) -> None:
    settings = StoreSettings.small()
    messages = [
        Message("orders", b"one", tags="a", keys=["k1", "k2"], flag=7, properties={"price": "7"}),
        Message("t" * 127, b"x", born_host=("::1", 80)),
        Message("%RETRY%" + "g" * 200, b"x" * 5000, queue_id=0, reconsume_times=3),
    ]
    with flightlog.open(tmp_path, settings) as store:
        results = store.put_many(messages)
        found = [store.message_at(result.physical_offset) for result in results]
    [log] = (tmp_path / "commitlog").iterdir()
    data = log.read_bytes()
    for result, message in zip(results, found, strict=True):
        assert message is not None
        assert record_of(message) == data[result.physical_offset : result.physical_offset + result.size]


def test_a_message_of_an_inner_batch_goes_out_as_a_record_of_its_own(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.create_topic("batches", 1, attributes={"queue.type": "BatchCQ"})
        store.put_batch([Message("batches", b"one"), Message("batches", b"two")])
        records = [record_of(message) for message in store.read("batches")]
    assert [int.from_bytes(record[:4], "big") for record in records] == [len(record) for record in records]
    assert [int.from_bytes(record[20:28], "big") for record in records] == [0, 1]
