"""`put` as the type of the kernel has it, and that the results are the callers' own."""

from __future__ import annotations

import gc
import inspect
import random
import sys
import threading
import weakref
from collections import deque
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from flightlog import Message, PutResult, PutStatus, StoreSettings
from flightlog.store import native
from flightlog.store.format.host import encode_host
from flightlog.store.format.properties import FAST_PATH_NEVER_TAKES
from flightlog.store.format.record import prepare

HOST = encode_host("127.0.0.1", 10911)
BASE = 1 << 40


def make_fast_path(segment: bytearray, page: bytearray) -> Any:
    fast_path = native.FastPath(
        *({}, {}, Message, PutResult, PutStatus.PUT_OK, HOST, FAST_PATH_NEVER_TAKES),
        *(500, None, page, 4, -1, threading.Lock(), lambda end: None),
        partial(prepare, settings=StoreSettings(max_message_size=500), segment_size=1 << 30),
    )
    fast_path.end = BASE
    fast_path.open(segment, BASE, len(segment))
    for topic in ("orders", "returns"):
        fast_path.register_topic(topic, topic.encode(), 4)
    return fast_path


@pytest.fixture(params=["c", "pure"])
def bases(request: pytest.FixtureRequest) -> Any:
    """Both types of stores that take messages."""
    if request.param not in native.available():
        pytest.skip("the C kernel is not built here")
    return import_module(native.MODULES[request.param], native.__name__).OrdinaryPut


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("most_held", (0, 1, 2, 3, 7))
def test_a_result_that_somebody_holds_stays_as_it_was(most_held: int) -> None:
    """However many of them callers hold, and in whichever order they drop them."""
    dice = random.Random(most_held)
    fast_path = make_fast_path(bytearray(1 << 20), bytearray(64))
    held: list[tuple[PutResult, tuple[Any, ...]]] = []
    end, offsets = BASE, dict[tuple[str, int], int]()
    for i in range(3000):
        topic, queue_id, body = dice.choice(("orders", "returns")), dice.randrange(5), bytes(dice.randrange(1, 200))
        result = fast_path.put(Message(topic, body, queue_id=queue_id, tags="t" * (i % 3)))
        if queue_id == 4:
            assert result is None
            continue
        queue_offset = offsets.get((topic, queue_id), 0)
        offsets[topic, queue_id] = queue_offset + 1
        assert result[:5] == (PutStatus.PUT_OK, topic, queue_id, queue_offset, end)
        assert type(result) is PutResult and len(result) == 8 and result.store_host_raw == HOST
        end += result.size
        assert end == fast_path.end
        held.append((result, tuple(result)))
        del result
        while len(held) > most_held:
            held.pop(dice.randrange(len(held)))
        for one, copy in held:
            assert tuple(one) == copy


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("most_held", (0, 1, 2, 3, 7))
def test_results_of_many_that_somebody_holds_stay_as_they_were(most_held: int) -> None:
    """Whole lists of them, or some of a list."""
    dice = random.Random(most_held)
    fast_path = make_fast_path(bytearray(1 << 20), bytearray(64))
    held: list[tuple[list[PutResult], list[tuple[Any, ...]]]] = []
    end = BASE
    for i in range(300):
        topic, count = dice.choice(("orders", "returns")), dice.randrange(1, 30)
        results = fast_path.put_many(
            tuple(Message(topic, bytes(dice.randrange(1, 50)), queue_id=dice.randrange(4)) for _ in range(count)), 0
        )
        assert len(results) == count and type(results) is list
        for result in results:
            assert type(result) is PutResult and result[:2] == (PutStatus.PUT_OK, topic)
            assert result.physical_offset == end and result.store_host_raw == HOST
            end += result.size
        assert end == fast_path.end
        if i % 3 == 0:
            results = dice.sample(results, dice.randrange(1, count + 1))
        held.append((results, [tuple(result) for result in results]))
        del result, results
        while len(held) > most_held:
            held.pop(dice.randrange(len(held)))
        for some, copies in held:
            assert [tuple(one) for one in some] == copies


@pytest.mark.usefixtures("kernel")
def test_a_result_that_the_collector_shows_is_not_filled_anew() -> None:
    fast_path = make_fast_path(bytearray(1 << 16), bytearray(64))
    for _ in range(5):
        fast_path.put(Message("orders", b"before"))
        fast_path.put_many((Message("orders", b"before"),) * 5, 0)
    seen = [one for one in gc.get_objects() if type(one) is PutResult]
    copies = [tuple(one) for one in seen]
    for _ in range(5):
        fast_path.put(Message("returns", b"behind", queue_id=3))
        fast_path.put_many((Message("returns", b"behind", queue_id=3),) * 5, 0)
    assert [tuple(one) for one in seen] == copies


@pytest.mark.usefixtures("kernel")
def test_a_result_that_waits_for_its_put_can_be_looked_at() -> None:
    """It was a tuple with empty fields: whoever had the collector show it and looked inside, crashed the process."""
    fast_path = make_fast_path(bytearray(1 << 16), bytearray(64))
    seen: list[tuple[object, ...]] = []

    def look(*_: object) -> None:
        seen.extend(tuple(one) for one in gc.get_objects() if type(one) is PutResult)

    messages = tuple(Message("orders", b"x", queue_id=i % 4) for i in range(6))
    before = gc.get_threshold()
    gc.set_threshold(1)  # the collector comes with every result that is made, and its callback looks
    gc.callbacks.append(look)
    try:
        for first in range(4):
            assert fast_path.put(messages[first]) and fast_path.put_many(messages[: first + 3], 0)
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*before)
    assert seen and all(len(one) == len(PutResult._fields) for one in seen)


@pytest.mark.usefixtures("kernel")
def test_results_hold_nothing_for_good() -> None:
    fast_path = make_fast_path(bytearray(1 << 16), bytearray(64))
    topic = "".join(["a topic", " of its own"])
    fast_path.register_topic(topic, topic.encode(), 1)
    before = sys.getrefcount(HOST), sys.getrefcount(topic)
    for _ in range(200):
        fast_path.put(Message(topic, b"x"))
        fast_path.put(Message("orders", b"x"))
    after = sys.getrefcount(HOST), sys.getrefcount(topic)
    assert all(abs(now - then) <= 4 for now, then in zip(after, before, strict=True))


def takes(store: Any, fast_path: object) -> None:
    """What a put of this store asks first."""
    store._put_fast_path = fast_path


def test_what_the_fast_path_does_not_take_takes_the_slow_path(bases: Any) -> None:
    asked = deque[object]()

    class Store(bases):  # type: ignore[misc]
        def _put_slow(self, message: object, /) -> str:
            asked.append(message)
            return "the slow path"

    store = Store()
    for message in (Message("orders", b"x"), None, (), (1, 2)):  # a tuple is one argument, too
        assert store.put(message) == "the slow path"  # no fast path yet
        assert asked.pop() is message
    fast_path = SimpleNamespace(put=lambda message: message or None)
    takes(store, fast_path)
    assert store.put("taken") == "taken" and not asked
    assert store.put("") == "the slow path" and asked.pop() == ""
    takes(store, make_fast_path(bytearray(1000), bytearray(64)))
    assert store.put(Message("orders", b"body")).queue_offset == 0 and not asked
    assert store.put(Message("nobody knows it", b"x")) == "the slow path" and len(asked) == 1
    takes(store, None)
    assert store.put(Message("orders", b"body")) == "the slow path"


def test_errors_of_the_fast_path_and_of_the_slow_path_are_the_callers(bases: Any) -> None:
    class Store(bases):  # type: ignore[misc]
        def _put_slow(self, message: object, /) -> None:
            raise KeyError(message)

    store = Store()
    with pytest.raises(KeyError):
        store.put(1)

    def refuse(message: object) -> None:
        raise LookupError(message)

    takes(store, SimpleNamespace(put=refuse))
    with pytest.raises(LookupError):
        store.put(1)
    with pytest.raises(TypeError):
        store.put()
    with pytest.raises(TypeError):
        store.put(1, 2)


def test_a_put_may_take_its_fast_path_away(bases: Any) -> None:
    class Store(bases):  # type: ignore[misc]
        pass

    store = Store()

    def put(message: object) -> object:
        takes(store, None)
        gc.collect()
        return message

    takes(store, SimpleNamespace(put=put))
    assert store.put("x") == "x"


def test_a_store_that_is_dropped_goes_at_once_and_one_in_a_cycle_is_collected(bases: Any) -> None:
    class Store(bases):  # type: ignore[misc]
        pass

    for in_cycle in (False, True):
        store = Store()
        takes(store, SimpleNamespace(store=store if in_cycle else None))
        put, reference = store.put, weakref.ref(store)
        del store
        assert reference() is not None  # by its method
        del put
        if in_cycle:
            gc.collect()
        assert reference() is None


def test_kernel_and_reference_promise_the_same() -> None:
    documents = [import_module(native.MODULES[name], native.__name__).OrdinaryPut.put for name in native.available()]
    assert len({inspect.getdoc(put) for put in documents}) == 1
    parameters = [list(inspect.signature(put).parameters.values())[1:] for put in documents]
    assert len({tuple((each.name, each.kind) for each in names) for names in parameters}) == 1


def test_a_message_is_taken_by_position_and_by_name(bases: Any) -> None:
    class Store(bases):  # type: ignore[misc]
        def _put_slow(self, message: object) -> object:
            return "long", message

    store = Store()
    assert store.put(1) == store.put(message=1) == ("long", 1)
    for arguments, names in (((), {}), ((1, 2), {}), ((1,), {"message": 2}), ((), {"messages": 1}), ((1,), {"x": 2})):
        with pytest.raises(TypeError, match=r"put\(\)"):
            store.put(*arguments, **names)
