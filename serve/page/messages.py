"""Finding a message, and the view of one: properties, body, and what became of it in each group."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from ...consume.group.group_state import GroupState
from ...consume.retry.send_back import dead_letter_topic
from ...consume.store import Store
from ...store.errors import UsageError
from ...store.format import property_names as props
from ...store.stored_message import StoredMessage
from .shown import FORMS, shown_body, unpacked
from .site import Answer, Asked, PageError, bounds_by_topic, checked_time_ms, retry_topics
from .topics import LISTED, read_some

KEY, UNIQ_KEY, ID, TIME = "key", "uniq", "id", "time"
KINDS = {KEY: "key", UNIQ_KEY: "unique key (client's message id)", ID: "offset message id", TIME: "time stored, from"}
FOUND_MAX = 100
GROUPS_MAX = 50
"""Groups whose copies of a message are looked for."""
COPIES_MAX = 64


@dataclass(frozen=True)
class Journey:
    """A message as one group sees it."""

    group: str
    state: str
    copies: list[StoredMessage]
    """Those that were made to deliver it again, and the one among the dead letters, the oldest first."""


def find(asked: Asked) -> Answer:
    """`/find`: messages by key, unique key, id or time."""
    kind, text, topic = asked.query.get("by", KEY), asked.query.get("text", "").strip(), asked.query.get("topic", "")
    if kind not in KINDS:
        raise PageError(f"by is {kind[:40]!r}: expected one of {', '.join(KINDS)}")
    messages, note = _found(asked, kind, text, topic) if text else ([], "")
    if kind != TIME and len(messages) == 1:
        return Answer(redirect=message_link(asked, messages[0]))
    names = sorted(asked.store.topics())
    return asked.page(
        "find.html", "Find", topics=names, kinds=KINDS, kind=kind, text=text, topic=topic, messages=messages, note=note
    )


def message_link(asked: Asked, message: StoredMessage) -> str:
    return asked.href("/message", at=message.physical_offset, batch=message.batch_index)


def _found(asked: Asked, kind: str, text: str, topic: str) -> tuple[list[StoredMessage], str]:
    """Messages, and what is to be said of them."""
    store = asked.store
    if kind == ID:
        message = store.message_by_id(text)
        return ([], f"No message has the id {text}.") if message is None else ([message], "")
    if kind == TIME:
        if not topic:
            raise PageError("choose a topic: messages are found by time in one topic")
        return _since(store, topic, checked_time_ms(text))
    topics = [topic] if topic else sorted(store.topics())
    found: list[StoredMessage] = []
    has_more = False
    for name in topics:
        if kind == UNIQ_KEY:
            message = store.message_by_uniq_key(name, text)
            found += [] if message is None else [message]
        else:
            result = store.query(name, text, max_count=FOUND_MAX, on_corrupt="skip")
            found += result.messages
            has_more = has_more or result.has_more
    where = f"topic {topic}" if topic else f"all {len(topics)} topics"
    if not found:
        return [], f"No message with the {KINDS[kind]} {text} in {where}."
    found.sort(key=lambda each: each.store_timestamp_ms, reverse=True)
    is_part = has_more or len(found) > FOUND_MAX
    newest = f"The newest {FOUND_MAX}; there are more." if is_part else f"{len(found)} found in {where}, newest first."
    return found[:FOUND_MAX], newest


def _since(store: Store, topic: str, from_ms: int) -> tuple[list[StoredMessage], str]:
    found: list[StoredMessage] = []
    for queue_id, (_, end) in bounds_by_topic(store).get(topic, {}).items():
        start = store.offset_at(topic, queue_id, from_ms)
        found += read_some(store, topic, queue_id, start, min(start + LISTED, end))
    found = [each for each in found if each.store_timestamp_ms >= from_ms]
    found.sort(key=lambda each: (each.store_timestamp_ms, each.physical_offset))
    note = (
        f"The first {LISTED} from then on, oldest first." if len(found) >= LISTED else "All from then on, oldest first."
    )
    return found[:LISTED], note if found else f"Topic {topic} has no message from then on."


def message(asked: Asked) -> Answer:
    """`/message`: one message, by its place in the log."""
    found = _message(asked)
    form = asked.query.get("form", "")
    readers = [each for each in asked.store.groups().values() if found.topic in each.topics]
    return asked.page(
        "message.html",
        "Message",
        message=found,
        body=shown_body(found, form),
        forms=FORMS,
        form=form,
        journeys=[_journey(asked.store, found, state) for state in readers[:GROUPS_MAX]],
        unseen_groups=len(readers) - GROUPS_MAX,
        origin=_origin(asked.store, found),
        knows_copies=asked.store.settings.key_index and bool(found.uniq_key or found.keys),
    )


def download(asked: Asked) -> Answer:
    """`/body`: the whole body, as a file."""
    found = _message(asked)
    return Answer(unpacked(found)[0], "application/octet-stream", file_name=f"message-{found.physical_offset}.bin")


def _message(asked: Asked) -> StoredMessage:
    asked.needed("at")
    at, batch = asked.number("at"), asked.number("batch")
    found = asked.store.message_at(at or 0, batch)
    if found is None:
        raise PageError(f"there is no message at {at} in the log: retention may have removed it", HTTPStatus.NOT_FOUND)
    return found


def _origin(store: Store, message: StoredMessage) -> StoredMessage | None:
    """The first record of a message that was delivered again."""
    try:
        return store.message_by_id(message.properties.get(props.ORIGIN_MESSAGE_ID, ""))
    except UsageError:  # no id
        return None


def _journey(store: Store, message: StoredMessage, group: GroupState) -> Journey:
    copies = _copies(store, message, group)
    offset = store.group_offsets(group.name, message.topic).get(message.queue_id)
    dead = dead_letter_topic(group.name)
    if any(copy.topic == dead for copy in copies):
        return Journey(group.name, "dead letter: all attempts failed", copies)
    if copies:
        return Journey(group.name, f"failed {len(copies)} times; to be delivered again, or done since", copies)
    if offset is None:
        return Journey(group.name, "not begun in this queue", copies)
    if offset > message.queue_offset:
        return Journey(group.name, "the group is past it", copies)
    return Journey(group.name, f"waits: {message.queue_offset - offset:,} messages before it in its queue", copies)


def _copies(store: Store, message: StoredMessage, group: GroupState) -> list[StoredMessage]:
    """The group's later records of a message. They have its unique key, or else its keys."""
    key = message.uniq_key or next(iter(message.keys), None)
    if not key or not store.settings.key_index:
        return []
    there = store.topics()
    found: list[StoredMessage] = []
    for topic in (*retry_topics(group.name, [message.topic]), dead_letter_topic(group.name)):
        if topic in there:
            found += store.query(topic, key, max_count=COPIES_MAX, on_corrupt="skip").messages
    found = [each for each in found if each.physical_offset > message.physical_offset]
    return sorted(found, key=lambda each: each.physical_offset)
