"""A message that was read: its fields are made when they are asked for, and nobody can tell."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
import weakref

import numpy as np
import pytest

from flightlog.store import native
from flightlog.store.frame import FRAME_DTYPE, MAGIC_V1
from flightlog.store.host import Host
from flightlog.store.message import StoredMessage
from flightlog.store.record import stored_message

FIELDS = [field.name for field in dataclasses.fields(StoredMessage)]
pytestmark = pytest.mark.usefixtures("kernel")


def read_one() -> StoredMessage:
    """As a store reads it: nothing but its body has been looked at."""
    record, rows = bytearray(500), np.zeros(1, FRAME_DTYPE)
    size = native.encode_record(
        *(record, 0, MAGIC_V1, 3, -4, 5, 0, 0x20, 6, bytes([1, 2, 3, 4, 0, 0, 0, 80]), 7, bytes(19) + b"\x09", 8, -9),
        *(b"body", b"topic", b"TAGS\x01a\x02KEYS\x01k l\x02UNIQ_KEY\x01u\x02"),
    )
    assert native.walk(record, 0, size, 0, True, rows)[0] == 1
    return stored_message(bytes(record), rows[0].item())


def made() -> StoredMessage:
    """The same, field by field."""
    read = read_one()
    return StoredMessage(**{name: getattr(read, name) for name in FIELDS})


def test_its_fields() -> None:
    message = read_one()
    assert (message.topic, message.queue_id, message.queue_offset, message.body) == ("topic", 3, 5, b"body")
    assert (message.born_host, message.store_host) == (Host("1.2.3.4", 80), Host("::", 9))
    assert (message.tags, message.keys, message.uniq_key, message.batch_index) == ("a", ["k", "l"], "u", None)
    assert message.properties is message.properties


@pytest.mark.parametrize("name", [*FIELDS, "properties", "tags", "keys", "uniq_key", "message_id", "transaction_type"])
def test_each_may_be_the_first_that_is_asked_for(name: str) -> None:
    assert getattr(read_one(), name) == getattr(made(), name)
    assert hasattr(read_one(), name)


def test_it_is_what_the_same_fields_make() -> None:
    assert read_one() == made() and hash(read_one()) == hash(made()) and repr(read_one()) == repr(made())
    assert dataclasses.asdict(read_one()) == dataclasses.asdict(made())
    assert dataclasses.replace(read_one(), flag=1) == dataclasses.replace(made(), flag=1) != made()
    assert dataclasses.replace(read_one(), properties_raw=b"").properties == {}
    match read_one():
        case StoredMessage(topic, queue_id):
            assert (topic, queue_id) == ("topic", 3)
        case _:
            pytest.fail("no match")


def test_copies() -> None:
    for message in (read_one(), made()):
        assert copy.copy(message) == copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == made()
    assert copy.copy(read_one()).properties == made().properties


def test_it_is_frozen_and_has_nothing_else() -> None:
    for message in (read_one(), made()):
        for name in ("body", "flag", "batch_index"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(message, name, 1)
        for name in ("properties", "other"):
            with pytest.raises((AttributeError, TypeError)):  # Python 3.11 has its own word for what is no field
                setattr(message, name, 1)
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            message.other  # type: ignore[attr-defined]  # noqa: B018
        assert weakref.ref(message)() is message


def test_threads_may_ask_at_once() -> None:
    for _ in range(50):
        message, found = read_one(), list[str]()
        threads = [threading.Thread(target=lambda: found.append(repr(message))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [repr(made())] * 4
