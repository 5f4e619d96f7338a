"""The result of a put: fields that are read as those of a named tuple, whichever kernel keeps them."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import FrozenInstanceError
from typing import NamedTuple

import pytest

from flightlog import Message, PutResult, PutStatus
from flightlog.store import native
from flightlog.store.format.host import encode_host
from flightlog.store.format.properties import FAST_PATH_NEVER_TAKES

HOST = encode_host("127.0.0.1", 10911)
VALUES = (PutStatus.PUT_OK, "orders", 3, 2**62, 2**63 - 1, 180, 1_700_000_000_000, HOST)
RESULT = PutResult(*VALUES)


def test_it_is_used_as_a_named_tuple() -> None:
    assert tuple(RESULT) == VALUES == RESULT and len(RESULT) == 8 and RESULT
    status, topic, *_, host = RESULT
    assert (status, topic, host) == (RESULT.status, RESULT.topic, RESULT.store_host_raw) == (VALUES[0], "orders", HOST)
    assert RESULT[2] == 3 and RESULT[-1] == HOST and RESULT[1:3] == VALUES[1:3] and "orders" in RESULT
    with pytest.raises(IndexError):
        RESULT[8]
    match RESULT:
        case PutResult(PutStatus.PUT_OK, "orders", queue_id):
            assert queue_id == 3
        case _:
            raise AssertionError
    assert repr(RESULT).startswith("PutResult(status=<PutStatus.PUT_OK: 'PUT_OK'>, topic='orders', queue_id=3, ")


def test_it_is_compared_and_hashed_by_its_values() -> None:
    later = RESULT._replace(queue_offset=2**62 + 1)
    assert PutResult(*VALUES) == RESULT and later != RESULT and RESULT != 3 and later.queue_offset == 2**62 + 1
    assert {RESULT: 1}[PutResult(*VALUES)] == 1 and hash(RESULT) == hash(VALUES)
    assert sorted((later, RESULT)) == [RESULT, later]


def test_it_has_the_calls_of_a_named_tuple() -> None:
    class Names(NamedTuple):
        status: PutStatus
        topic: str
        queue_id: int
        queue_offset: int
        physical_offset: int
        size: int
        store_timestamp_ms: int
        store_host_raw: bytes

    assert PutResult._fields == Names._fields and PutResult._make(iter(VALUES)) == RESULT
    assert RESULT._asdict() == Names(*VALUES)._asdict()
    with pytest.raises(TypeError):
        RESULT._replace(other=1)


def test_it_cannot_be_changed() -> None:
    for name in (*PutResult._fields, "other"):
        with pytest.raises(AttributeError):
            setattr(RESULT, name, 1)
    with pytest.raises(FrozenInstanceError):
        del RESULT.size
    assert tuple(RESULT) == VALUES


def test_it_is_copied_and_pickled() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(RESULT, protocol))
        assert again == RESULT and type(again) is PutResult
    assert copy.copy(RESULT) == copy.deepcopy(RESULT) == RESULT


def test_a_fast_path_makes_results_of_its_own_base_alone() -> None:
    if native.NAME != "c":
        pytest.skip("the reference calls any type with the fields")
    with pytest.raises(TypeError, match="ResultFields"):
        native.FastPath(
            *({}, {}, Message, tuple, PutStatus.PUT_OK, HOST, FAST_PATH_NEVER_TAKES),
            *(500, None, bytearray(64), 4, -1, threading.Lock(), lambda end: None, None),
        )
