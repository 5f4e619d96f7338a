"""What no store takes: settings without meaning, and messages beyond RocketMQ's limits. Nothing is appended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import (
    BodyTooLargeError,
    InvalidMessageError,
    InvalidSettingsError,
    PropertiesTooLargeError,
    RecordTooLargeError,
    TopicTooLongError,
)
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SEGMENT_SIZE = 16 << 10

NONSENSE: list[dict[str, object]] = [
    {"segment_size": 5000},
    {"segment_size": 0},
    {"segment_size": 1 << 40},
    {"queue_file_entries": 0},
    {"queue_file_entries": True},
    {"flush_interval_ms": 0},
    {"sync_flush_timeout_ms": -1},
    {"max_message_size": 0},
    {"flush_mode": "SYNC"},
    {"store_host": ("not an address", 1)},
    {"store_host": ("127.0.0.1", 1 << 20)},
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=str)
def test_settings_without_meaning(nonsense: dict[str, object]) -> None:
    [name] = nonsense
    with pytest.raises(InvalidSettingsError, match=name):
        StoreSettings(**nonsense)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[Message, type[InvalidMessageError], tuple[str, ...]]] = {
    "topic of 128 bytes": (Message("t" * 128, b""), TopicTooLongError, ("128 UTF-8 bytes", "limit is 127")),
    "topic of 43 wide letters": (Message("\u4e16" * 43, b""), TopicTooLongError, ("129 UTF-8 bytes",)),
    "retry topic of 256 bytes": (Message("%RETRY%" + "t" * 249, b""), TopicTooLongError, ("limit is 255",)),
    "no topic": (Message("", b""), InvalidMessageError, ("a topic names a folder",)),
    "topic that leaves the store": (Message("../../etc", b""), InvalidMessageError, ("no '/'",)),
    "topic that is the folder": (Message("..", b""), InvalidMessageError, ("not '.' or '..'",)),
    "topic that is no text": (Message(7, b""), InvalidMessageError, ("expected text",)),  # type: ignore[arg-type]
    "topic of half a letter": (Message("\ud800", b""), InvalidMessageError, ("UTF-8",)),
    "body above the limit": (Message("t", bytes(4097)), BodyTooLargeError, ("4097 bytes", "max_message_size")),
    "body that is text": (Message("t", "text"), InvalidMessageError, ("expected bytes",)),  # type: ignore[arg-type]
    "too many properties": (
        Message("t", b"", properties={"p": "v" * 32_767}),
        PropertiesTooLargeError,
        ("32,767".replace(",", ""), "Move data into the body"),
    ),
    "a key with a space": (Message("t", b"", keys="two words"), InvalidMessageError, ("no space",)),
    "a queue below zero": (Message("t", b"", queue_id=-1), InvalidMessageError, ("queue_id=-1", "from 0")),
    "a flag of 33 bits": (Message("t", b"", flag=1 << 32), InvalidMessageError, ("flag=",)),
    "no delay level": (Message("t", b"", properties={"DELAY": "3s"}), InvalidMessageError, ("DELAY", "as in 3")),
    "a negative delay level": (Message("t", b"", delay_level=-1), InvalidMessageError, ("delay_level=-1",)),
    "an inner batch": (Message("t", b"", sys_flag=0x1 << 7), InvalidMessageError, ("inner batches",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_messages_that_no_store_takes(name: str, tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    message, error, words = REFUSED[name]
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(max_message_size=4096)) as store:
        store.put(Message("orders", b"before"))
        end = inside.log(store).end
        for put in (store.put, lambda m: store.put_many([Message("t", b"fine"), m, Message("t", b"fine")])):
            with pytest.raises(error) as caught:
                put(message)
            for word in words:
                assert word in str(caught.value)
        assert inside.log(store).end == end and ("t", 0) not in store.queues(), "something was appended"
    assert assert_clean(path).records == 1


def test_a_record_that_fits_no_segment(tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(segment_size=SEGMENT_SIZE)) as store:
        overhead = store.put(Message("t", b"x")).size - 1
        with pytest.raises(RecordTooLargeError, match=f"{SEGMENT_SIZE - 8} .segment_size less its filler"):
            store.put(Message("t", bytes(SEGMENT_SIZE - overhead - 7)))
        assert store.put(Message("t", bytes(SEGMENT_SIZE - overhead - 8))).queue_offset == 1
    assert assert_clean(path).records == 2
