"""A message that was read: its fields are made when they are asked for, and nobody can tell."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import numpy as np
import pytest

from flightlog.store import native, stored_message
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1
from flightlog.store.format.host import Host
from flightlog.store.stored_message import StoredMessage

FIELDS = [field.name for field in dataclasses.fields(StoredMessage)]
TOPIC = b"topic"
pytestmark = pytest.mark.usefixtures("kernel")

Read = Callable[[], StoredMessage]


@pytest.fixture(params=native.available())
def messages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """store/stored_message.py on the base that the C kernel has for it, and on the pure reference's."""
    base = import_module(native.MODULES[request.param], native.__name__).RecordFields
    if native.RecordFields is base:
        return stored_message
    monkeypatch.setattr(native, "RecordFields", base)
    spec = spec_from_file_location(f"{stored_message.__name__}_{request.param}", stored_message.__file__)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    assert issubclass(module.StoredMessage, base)
    return module


@pytest.fixture(params=["alone", "of_entries"])
def read_one(messages: ModuleType, request: pytest.FixtureRequest) -> Read:
    """Reads as a store does: nothing but the body has been looked at."""
    record, rows = bytearray(500), np.zeros(1, FRAME_DTYPE)
    size = native.encode_record(
        *(record, 0, MAGIC_V1, 3, -4, 5, 0, 0x20, 6, bytes([1, 2, 3, 4, 0, 0, 0, 80]), 7, bytes(19) + b"\x09", 8, -9),
        *(b"body", TOPIC, b"TAGS\x01a\x02KEYS\x01k l\x02UNIQ_KEY\x01u\x02"),
    )
    assert native.walk(record, 0, size, 0, True, rows)[0] == 1
    unit, queue_offsets = struct.pack(">qiq", 0, size, 0), np.array([5], np.int64)

    def alone() -> StoredMessage:
        row = rows[0]
        found: StoredMessage = messages.message_of_record(bytes(record[:size]), int(row["body_position"]), 4)
        return found

    def of_entries() -> StoredMessage:
        found: list[StoredMessage] = native.messages(
            *(record, unit, queue_offsets, TOPIC, 3, 0, 1000), messages.StoredMessage
        )
        return found[0]

    return {"alone": alone, "of_entries": of_entries}[request.param]


@pytest.fixture
def made(messages: ModuleType, read_one: Read) -> Read:
    """Makes the same field by field."""
    read = read_one()
    return lambda: messages.StoredMessage(**{name: getattr(read, name) for name in FIELDS})


def test_its_fields(read_one: Read) -> None:
    message = read_one()
    assert (message.topic, message.queue_id, message.queue_offset, message.body) == ("topic", 3, 5, b"body")
    assert (message.born_host, message.store_host) == (Host("1.2.3.4", 80), Host("::", 9))
    assert (message.tags, message.keys, message.uniq_key, message.batch_index) == ("a", ["k", "l"], "u", None)
    assert message.properties is message.properties


@pytest.mark.parametrize("name", [*FIELDS, "properties", "tags", "keys", "uniq_key", "message_id", "transaction_type"])
def test_each_may_be_the_first_that_is_asked_for(name: str, read_one: Read, made: Read) -> None:
    assert getattr(read_one(), name) == getattr(made(), name)
    assert hasattr(read_one(), name)


def test_it_is_what_the_same_fields_make(messages: ModuleType, read_one: Read, made: Read) -> None:
    assert read_one() == made() and hash(read_one()) == hash(made()) and repr(read_one()) == repr(made())
    assert dataclasses.asdict(read_one()) == dataclasses.asdict(made())
    assert dataclasses.replace(read_one(), flag=1) == dataclasses.replace(made(), flag=1) != made()
    assert dataclasses.replace(read_one(), properties_raw=b"").properties == {}
    match read_one():
        case messages.StoredMessage(topic, queue_id):
            assert (topic, queue_id) == ("topic", 3)
        case _:
            pytest.fail("no match")


def test_copies(read_one: Read, made: Read) -> None:
    for message in (read_one(), made()):
        assert copy.copy(message) == copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == made()
    assert copy.copy(read_one()).properties == made().properties


def test_it_is_frozen_and_has_nothing_else(read_one: Read, made: Read) -> None:
    for message in (read_one(), made()):
        for name in ("body", "flag", "batch_index", "properties", "tags", "other"):
            with pytest.raises(dataclasses.FrozenInstanceError, match=f"assign to field '{name}'"):
                setattr(message, name, 1)
            with pytest.raises(dataclasses.FrozenInstanceError, match=f"delete field '{name}'"):
                delattr(message, name)
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            message.other  # type: ignore[attr-defined]  # noqa: B018
        assert weakref.ref(message)() is message


def test_threads_may_ask_at_once(read_one: Read, made: Read) -> None:
    for _ in range(50):
        message, found = read_one(), list[str]()
        threads = [threading.Thread(target=lambda: found.append(repr(message))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [repr(made())] * 4


def test_a_class_on_top_of_it_may_have_more(messages: ModuleType, made: Read) -> None:
    class More(messages.StoredMessage):  # type: ignore[misc,name-defined]
        pass

    more = More(**{name: getattr(made(), name) for name in FIELDS})
    more.note = "kept"
    assert more.note == "kept" and more.tags == "a"
    del more.note
    with pytest.raises(dataclasses.FrozenInstanceError):
        more.flag = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        del more.flag


def test_properties_that_were_changed_are_what_counts(read_one: Read) -> None:
    message = read_one()
    message.properties.update({"TAGS": "b", "KEYS": " m  n \xe4"})
    del message.properties["UNIQ_KEY"]
    assert (message.tags, message.keys, message.uniq_key) == ("b", ["m", "n", "\xe4"], None)
    del message.properties["KEYS"]
    assert message.keys == []


@pytest.mark.parametrize(
    "raw", [b"", b"TAGS\x01", b"KEYS\x01  \x02TAGS\x01a\x02TAGS\x01b", b"XTAGS\x01a\x02UNIQ_KEY\x01\xff\x02"]
)
def test_what_stands_in_the_properties(made: Read, raw: bytes) -> None:
    message = dataclasses.replace(made(), properties_raw=raw)
    found = message.tags, message.keys, message.uniq_key
    pairs = message.properties
    assert found == (pairs.get("TAGS"), pairs.get("KEYS", "").split(), pairs.get("UNIQ_KEY"))
    assert (message.tags, message.keys, message.uniq_key) == found


def test_what_it_holds_goes_with_it(messages: ModuleType, read_one: Read) -> None:
    gc.collect()
    gc.disable()  # else messages in garbage of other tests go meanwhile
    try:
        kind, count = messages.StoredMessage, sys.getrefcount(messages.StoredMessage)
        for _ in range(100):
            weakref.ref(read_one(), lambda _: None)
        assert sys.getrefcount(kind) == count
    finally:
        gc.enable()
    message, names = read_one(), [*FIELDS, "properties", "tags", "keys", "uniq_key"]
    for name in names:
        getattr(message, name)
    host, raw = message.born_host, message.properties_raw
    held = sys.getrefcount(host), sys.getrefcount(raw)
    del message
    assert sys.getrefcount(raw) == held[1] - 1 and sys.getrefcount(host) < held[0]
