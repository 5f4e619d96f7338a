"""A popped message, and the handle by which it is acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ...store.errors import InvalidArgumentError
from ...store.format.record import RETRY_TOPIC_PREFIX
from ...store.stored_message import StoredMessage
from .check_point import CheckPointKey
from .pop_topics import ORDERED_REVIVE_QUEUE_ID, REVIVE_QUEUE_COUNT, retry_topic

NORMAL, RETRY = "0", "1"
WORDS: Final = "'ckQueueOffset popTime invisibleTime reviveQid retryFlag brokerName queueId msgQueueOffset'"


@dataclass(frozen=True)
class PopHandle:
    """Names a popped message until its invisible time is over. It may go to another process, as its three texts."""

    group: str
    topic: str
    """As it was received from; the retry topic's name is not used here."""
    extra_info: str
    """RocketMQ's words (the property POP_CK)."""

    def __str__(self) -> str:
        return f"{self.extra_info!r} of group {self.group!r}, topic {self.topic!r}"


@dataclass(frozen=True)
class HandleWords:
    """What the handles of one check point have in common: all words but the last one, the queue offset of the message
    in the topic of the key."""

    key: CheckPointKey
    invisible_ms: int
    revive_queue_id: int

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE_ID

    @property
    def expires_ms(self) -> int:
        return self.key.pop_time_ms + self.invisible_ms

    def __str__(self) -> str:
        key = self.key
        flag = RETRY if key.topic.startswith(RETRY_TOPIC_PREFIX) else NORMAL
        return (
            f"{key.start_offset} {key.pop_time_ms} {self.invisible_ms} {self.revive_queue_id} "
            f"{flag} {key.broker_name} {key.queue_id}"
        )


def words_of(handle: PopHandle) -> tuple[HandleWords, int]:
    """What a handle says, with the queue offset of the message. Raises InvalidArgumentError for one that this store
    cannot have given."""
    [(words, [offset])] = words_by_check_point([handle])
    return words, offset


def words_by_check_point(handles: Iterable[PopHandle]) -> list[tuple[HandleWords, list[int]]]:
    """What handles say, with the queue offsets of the messages by check point. Raises as `words_of`."""
    found: dict[tuple[str, str, str], tuple[HandleWords, list[int]]] = {}
    for handle in handles:
        shared, _, offset = handle.extra_info.rpartition(" ")
        if not _is_number(offset):
            raise _wrong(handle)
        words, offsets = found.get((handle.group, handle.topic, shared)) or (_shared_words(handle, shared), [])
        if not offsets:
            found[handle.group, handle.topic, shared] = words, offsets
        offsets.append(int(offset))
    return list(found.values())


def _shared_words(handle: PopHandle, text: str) -> HandleWords:
    words = text.split(" ")
    if len(words) != 7 or not all(_is_number(word) for place, word in enumerate(words) if place != 5):
        raise _wrong(handle)
    start, pop_time_ms, invisible_ms, revive_queue_id, flag, queue_id = map(int, (*words[:5], words[6]))
    is_revive_queue = revive_queue_id < REVIVE_QUEUE_COUNT or revive_queue_id == ORDERED_REVIVE_QUEUE_ID
    if not is_revive_queue or str(flag) not in (NORMAL, RETRY):
        expected = f"a reviveQid below {REVIVE_QUEUE_COUNT}, or 999, and a retryFlag of 0 or 1, in {WORDS}"
        raise InvalidArgumentError("handle", handle.extra_info, expected)
    topic = retry_topic(handle.group, handle.topic) if str(flag) == RETRY else handle.topic
    key = CheckPointKey(topic, handle.group, queue_id, start, pop_time_ms, words[5])
    return HandleWords(key, invisible_ms, revive_queue_id)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 19


def _wrong(handle: PopHandle) -> InvalidArgumentError:
    return InvalidArgumentError("handle", handle.extra_info, f"the words {WORDS} of a message that was received")


@dataclass(frozen=True)
class PoppedMessage:
    """A message that was received for an invisible time. Acknowledge it with `Store.ack(message.handle)`."""

    message: StoredMessage
    """As the store read it: one that comes again is in the retry topic of its group. A group that pops in order has it
    where it is; its earlier deliveries are added to `reconsume_times`."""
    handle: PopHandle
    invisible_until_ms: int
    """When it is delivered again unless it was acknowledged; ms since 1970 of the store's clock."""

    @property
    def attempt(self) -> int:
        """How many times it has been delivered to the group, this one included. It survives crashes."""
        return self.message.reconsume_times + 1

    @property
    def topic(self) -> str:
        """The topic that was received from."""
        return self.handle.topic

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def tags(self) -> str | None:
        return self.message.tags

    @property
    def keys(self) -> list[str]:
        return self.message.keys

    def with_handle(self, handle: PopHandle) -> PoppedMessage:
        """The same message with the handle that `change_invisible` returned."""
        return replace(self, handle=handle, invisible_until_ms=words_of(handle)[0].expires_ms)
