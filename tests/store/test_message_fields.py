"""The base of a Message: slots as Python's own, made once in C and once in Python."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
from importlib import import_module
from typing import Any

import pytest

from flightlog import Message, PutResult, PutStatus
from flightlog.store import native
from flightlog.store.format.host import encode_host
from flightlog.store.format.properties import FAST_PATH_NEVER_TAKES

NAMES = tuple(Message.__dataclass_fields__)


@pytest.fixture(params=["c", "pure"])
def base(request: pytest.FixtureRequest) -> Any:
    if request.param not in native.available():
        pytest.skip("the C kernel is not built here")
    return import_module(native.MODULES[request.param], native.__name__).MessageFields


def test_both_bases_have_the_fields_of_a_message_in_their_order(base: Any) -> None:
    assert base.__slots__ == NAMES
    assert "__slots__" in vars(Message) and not vars(Message)["__slots__"]


def test_a_field_that_is_not_set_is_missing_and_can_be_set_and_deleted(base: Any) -> None:
    made = base()
    for name in NAMES:
        with pytest.raises(AttributeError):
            getattr(made, name)
        setattr(made, name, name)
        assert getattr(made, name) == name
        delattr(made, name)
        with pytest.raises(AttributeError):
            delattr(made, name)
    with pytest.raises(AttributeError):
        made.other = 1


def test_values_live_as_long_as_they_are_held(base: Any) -> None:
    value = object()
    before = sys.getrefcount(value)
    made = base()
    for name in NAMES:
        setattr(made, name, value)
    assert sys.getrefcount(value) == before + len(NAMES)
    made.topic = None
    del made.body
    assert sys.getrefcount(value) == before + len(NAMES) - 2
    del made
    assert sys.getrefcount(value) == before


def test_messages_in_a_circle_are_collected(base: Any) -> None:
    class Body(bytes):
        ended = 0

        def __del__(self) -> None:
            Body.ended += 1

    class Own(base):  # type: ignore[misc]
        __slots__ = ("more",)

    for kind in (base, Own):
        first, second = kind(), kind()
        first.body, first.properties, second.properties = Body(b"x"), second, first
        del first, second
    gc.collect()
    assert Body.ended == 2


def test_messages_are_copied_and_pickled() -> None:
    message = Message("orders", b"x", tags="create", keys=["a"], properties={"k": "v"}, queue_id=None, compress=None)
    for again in (
        copy.copy(message),
        copy.deepcopy(message),
        *(pickle.loads(pickle.dumps(message, n)) for n in (2, 5)),
    ):
        assert again == message and type(again) is Message


def test_a_fast_path_takes_messages_of_its_own_base_alone() -> None:
    if native.NAME != "c":
        pytest.skip("the reference asks any object for its fields")

    class Strange:
        __slots__ = NAMES

    with pytest.raises(TypeError, match="MessageFields"):
        native.FastPath(
            *({}, {}, Strange, PutResult, PutStatus.PUT_OK, encode_host("127.0.0.1", 10911), FAST_PATH_NEVER_TAKES),
            *(500, None, bytearray(64), 4, -1, threading.Lock(), lambda end: None, None),
        )
