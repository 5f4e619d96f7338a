"""What an input of the fuzz target `fast_path` does: a life of a fast path among hostile calls, beside one of the
reference.

The input is cut into values from its front, zeros once it is used up: the memory that the fast path gets, the topics it
learns, and what is done with it, step by step. Messages are of any values whatever; ends, limits and blockers too.

What must hold: whatever the fast path takes, the reference takes as well, and both say and write the same. What it does
not take leaves no trace. Nothing but a clock makes it raise. Each of its buffers is memory of its own, so that
AddressSanitizer sees the first byte beyond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from zlib import crc32

from flightlog import Message, PutResult, PutStatus, StoreSettings
from flightlog.store.format.host import encode_host
from flightlog.store.format.properties import FAST_PATH_NEVER_TAKES
from flightlog.store.format.record import prepare
from flightlog.store.native.pure.fast_path import FastPath as Reference

PAGE_SIZE: Final = 64
APPENDED: Final = 4
HOSTS: Final = (("127.0.0.1", 10911), ("::1", 10911))
BORN_HOSTS: Final[tuple[Any, ...]] = (
    *(None, None, None, ("10.0.0.1", 0), ("2001:db8::1", 65_535), ("::ffff:1.2.3.4", 1), ("::1%eth0", 1)),
    *(("host", 1), ("10.0.0.01", 1), ("10.0.0.1", -1), ("10.0.0.1", 65_536), ("10.0.0.1\0", 1), ("\ud800", 1)),
    *((b"::1", 1), ("::1", True), ["::1", 1], ("::1",), ("::1", 1, 1)),
)
TOPICS: Final = ("t", "u", "ünï", "x" * 127, "%RETRY%" + "x" * 121, "%RETRY%" + "y" * 248, "\ud800", "", "unknown")
NO_TOPICS: Final = ("\ud800", "")
"""What no record can have: nobody tells the fast path of them."""
INTEGERS: Final = (0, 1, -1, 255, 1 << 15, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 62), (1 << 63) - 1, -(1 << 63))
PLACES: Final = (0, 1, 1 << 40, (1 << 63) - 4096, (1 << 63) - 1)
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    1.5,
    1 << 64,
    -(1 << 64),
    "text",
    b"bytes",
    bytearray(b"b"),
    (),
    [],
    {},
    ("k", 5),
    {"k": 1},
)
NAMES: Final = ("n", "WAIT", "DELAY", "KEYS", "UNIQ_KEY", "\x01", "ünï", "\ud800")
FIELDS: Final = tuple(Message.__dataclass_fields__)


class Source:
    """Values from the front of an input."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, stop: int) -> int:
        return (self.byte() << 8 | self.byte()) % stop

    def one_of(self, choices: Any) -> Any:
        return choices[self.byte() % len(choices)]

    def raw(self) -> bytes:
        kind = self.byte()
        size = self.below(5000) if kind >= 250 else kind % 40
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken + bytes(97 + kind % 26 for _ in range(size - len(taken)))

    def text(self) -> str:
        return self.raw().decode("utf-8", "surrogateescape")

    def integer(self) -> int:
        return self.byte() if self.byte() < 200 else int(self.one_of(INTEGERS))

    def keys(self) -> Any:
        kind = self.byte() % 4
        texts = [self.text() for _ in range(self.byte() % 4)] if kind else []
        return self.text() if kind == 0 else tuple(texts) if kind < 3 else texts

    def properties(self) -> Any:
        found: dict[str, str] = {}
        for _ in range(self.byte() % 4):
            name, value = self.one_of(NAMES) if self.byte() > 200 else self.text(), self.text()
            found[name] = "true" if name == "WAIT" and len(value) % 2 else value
        return found or None


class Both:
    """The kernel's fast path and the reference's, over memory of their own."""

    def __init__(self, kernel: Any, message_type: type[Message], result_type: type[PutResult], source: Source) -> None:
        self._source, self.now_ms = source, 1_700_000_000_000
        self.message_type, self.result_type = message_type, result_type
        size = source.below(2048)
        self.segments = bytearray(size), bytearray(size)
        self.pages = bytearray(PAGE_SIZE), bytearray(PAGE_SIZE)
        self.blockers: tuple[dict[str, Any], ...] = ({}, {})
        self.offsets: tuple[dict[tuple[str, int], int], ...] = ({}, {})
        host, limit = source.one_of(HOSTS), source.one_of((100, 4096, 1 << 20, 1 << 40))
        visible = source.one_of((-1, 5, PAGE_SIZE // 8 - 1))
        settings = StoreSettings(max_message_size=min(limit, 1 << 30), store_host=host)
        checked = partial(prepare, settings=settings, segment_size=1 << 30)
        self.fast_paths = [
            make(
                *(
                    self.blockers[i],
                    self.offsets[i],
                    message_type,
                    result_type,
                    PutStatus.PUT_OK,
                    encode_host(*host),
                    FAST_PATH_NEVER_TAKES,
                ),
                *(limit, lambda: self.now_ms, self.pages[i], APPENDED, visible, threading.Lock(), publisher, checked),
            )
            for i, make in enumerate((kernel.FastPath, Reference))
            for publisher in [publish_into(self.pages[i], visible)]
        ]
        self.base = int(source.one_of(PLACES))
        self.open(source.below(size + 1))
        self.set("end", self.base)

    @property
    def fast_path(self) -> Any:
        return self.fast_paths[0]

    def open(self, allocated: int) -> None:
        self.each(lambda fast_path, i: fast_path.open(self.segments[i], self.base, allocated))

    def set(self, name: str, value: int) -> None:
        for fast_path in self.fast_paths:
            setattr(fast_path, name, value)

    def each(self, do: Callable[[Any, int], object]) -> None:
        """The same with both; what they raise, too."""
        raised = []
        for i, fast_path in enumerate(self.fast_paths):
            try:
                do(fast_path, i)
                raised.append("")
            except (TypeError, ValueError, OverflowError) as e:
                raised.append(type(e).__name__)
        assert i == 1 and (raised[1] == "" or raised[0] == raised[1]), raised

    def trace(self, i: int) -> tuple[Any, ...]:
        """All that a put leaves, but for queue offsets: the fast path counts them by itself until it is asked."""
        fast_path, segment, page = self.fast_paths[i], self.segments[i], self.pages[i]
        return (
            fast_path.end,
            fast_path.appended_records,
            fast_path.taken,
            fast_path.last_store_timestamp_ms,
            crc32(segment),
            bytes(page),
        )

    def compare(self) -> None:
        for fast_path in self.fast_paths:
            fast_path.write_back_offsets()
        assert self.trace(0) == self.trace(1)
        assert self.segments[0] == self.segments[1]
        assert self.offsets[0] == self.offsets[1] and self.blockers[0] == self.blockers[1]

    def put(self, message: Any, call: Callable[[Any], Any]) -> None:
        before = self.trace(0)
        result = call(self.fast_path)
        if result is None:
            assert self.trace(0) == before, "what is not taken leaves no trace"
            return
        assert type(result) is self.result_type and tuple(result) == tuple(call(self.fast_paths[1])), message

    def put_many(self, messages: tuple[Any, ...], first: int) -> None:
        before = self.trace(0)
        results = self.fast_path.put_many(messages, first)
        assert results is not None or first == 0
        assert len(results or ()) == self.fast_path.taken - before[2]
        if not results:
            assert self.trace(0) == before
            return
        if len(results) < len(messages) - first:
            assert self.fast_path.put_many(messages, first + len(results)) == []
        for message, result in zip(messages[first:], results, strict=False):
            assert tuple(self.fast_paths[1].put(message)) == tuple(result)


def publish_into(page: bytearray, visible: int) -> Callable[[int], None]:
    def publish(value: int) -> None:
        for word in (APPENDED, visible)[: 1 + (visible >= 0)]:
            page[word * 8 : word * 8 + 8] = value.to_bytes(8, "little")

    return publish


def some_message(source: Source, make: type[Message]) -> Message:
    """Ordinary, but for one field now and then that is of any kind, or missing."""
    message = make(
        *(source.one_of(TOPICS), source.raw(), source.text(), source.keys(), source.properties()),
        queue_id=source.byte() % 6,
        flag=source.integer(),
        uniq_key=source.text() or None,
        born_timestamp_ms=source.integer() if source.byte() > 200 else None,
        reconsume_times=source.integer(),
    )
    kind = source.byte()
    message.born_host = BORN_HOSTS[kind % len(BORN_HOSTS)]
    if kind >= 240:
        delattr(message, source.one_of(FIELDS))
    elif kind >= 180:
        setattr(message, source.one_of(FIELDS), source.one_of(ODD))
    return message


def step(both: Both, source: Source) -> None:
    kind = source.byte() % 16
    if kind < 6:
        message = source.one_of(ODD) if source.byte() > 250 else some_message(source, both.message_type)
        both.put(message, lambda fast_path: fast_path.put(message))
    elif kind == 6:
        arguments = [source.one_of(TOPICS), source.byte() % 6, source.raw(), source.text(), source.keys()]
        arguments += [source.properties(), source.text() or None, source.integer(), None]
        if source.byte() > 200:
            arguments[source.byte() % len(arguments)] = source.one_of(ODD)
        both.put(arguments, lambda fast_path: fast_path.append(*arguments))
    elif kind in (7, 8):
        messages = tuple(
            source.one_of(ODD) if source.byte() > 250 else some_message(source, both.message_type)
            for _ in range(source.byte() % 6)
        )
        both.put_many(messages, 0 if kind == 7 else source.byte() % (len(messages) + 1))
    elif kind == 9:
        topic, count = source.one_of(TOPICS), source.integer()
        if source.byte() > 200:  # of any bytes; then of its own, which are what the reference writes
            both.fast_path.register_topic(topic, source.raw(), min(count, 1 << 62))
            both.fast_path.unregister_topic(topic)
        if topic not in NO_TOPICS:
            both.each(lambda fast_path, i: fast_path.register_topic(topic, topic.encode(), count))
    elif kind == 10:
        topic = source.one_of(TOPICS)
        both.each(lambda fast_path, i: fast_path.unregister_topic(topic))
    elif kind == 11:
        allocated = source.integer() if source.byte() > 200 else source.below(len(both.segments[0]) + 1)
        if 0 <= allocated <= len(both.segments[0]) and both.base <= INTEGERS[9] - allocated:
            both.open(allocated)
        else:
            refused(lambda: both.fast_path.open(both.segments[0], both.base, allocated))
            both.open(0)
    elif kind == 12:
        name, value = source.one_of(("end", "last_store_timestamp_ms")), source.integer()
        both.set(name, min(both.base + value, INTEGERS[9]) if source.byte() < 200 else min(value, INTEGERS[9]))
    elif kind == 13:
        both.now_ms = source.integer()
    elif kind == 14:
        for blockers in both.blockers:
            blockers.pop("some", None) if blockers else blockers.update(some=None)
    else:
        key, offset = (source.one_of(TOPICS), source.byte() % 6), source.integer() % (1 << 40)
        both.compare()
        for offsets in both.offsets:
            offsets[key] = offset


def refused(do: Callable[[], object]) -> None:
    try:
        do()
    except (ValueError, OverflowError):
        return
    raise AssertionError("it opens a segment beyond its end")


def on_top_of(base: type, made: type) -> Any:
    """The same class on top of a kernel's base: its fast path takes and makes no others."""
    own = {name: value for name, value in vars(made).items() if name != "__weakref__"}
    return type(made.__name__, (base,), own)


def target(kernel: Any) -> Callable[[bytes], None]:
    """`kernel` has `FastPath`, `MessageFields` and `ResultFields`."""
    message_type, result_type = on_top_of(kernel.MessageFields, Message), on_top_of(kernel.ResultFields, PutResult)

    def one(data: bytes) -> None:
        source = Source(data)
        both = Both(kernel, message_type, result_type, source)
        for topic in TOPICS[:3]:
            both.each(lambda fast_path, i, topic=topic: fast_path.register_topic(topic, topic.encode(), 4))  # type: ignore[misc]
        while not source.is_empty:
            step(both, source)
        both.compare()
        both.each(lambda fast_path, i: fast_path.close())
        assert both.fast_path.put(both.message_type("t", b"closed")) is None
        for segment in both.segments:
            segment.clear()  # what something still held could not be

    return one
