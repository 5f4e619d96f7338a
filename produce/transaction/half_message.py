"""The records of a transaction, as RocketMQ's broker writes them.

    half        RMQ_SYS_TRANS_HALF_TOPIC, queue 0: the message with its own topic and queue as the properties REAL_TOPIC
                and REAL_QID, its producer group as PGROUP, and no flag of a transaction: so it has a queue entry
    put back    the same again at the end of that queue; TRANSACTION_CHECK_TIMES says how often somebody was asked
    commit      its own topic and queue, the properties of the half message, the flag "commit", and the physical offset
                of the half message as its prepared transaction offset
    op          RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0, tag "d": the queue offsets of half messages that are over with,
                each followed by a comma
    discarded   TRANS_CHECK_MAX_TIME_TOPIC, queue 0: a half message that nobody answered for

A half message that is put back keeps its flag and reconsume times; RocketMQ's broker sets both to 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ...schedule.delivered import HALF_TOPIC, DueMessage, to_put_again
from ...store.errors import InvalidMessageError
from ...store.format import property_names as props
from ...store.format.record import INT32_MAX, is_safe_topic
from ...store.format.sys_flag import INNER_BATCH, NEED_UNWRAP, TRANSACTION_COMMIT, TRANSACTION_MASK
from ...store.message import Message
from ...store.message_check import check_message
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ...store.topic import GIVEN_UP_TOPIC

OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARDED_TOPIC = GIVEN_UP_TOPIC
CHECK_GROUP = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets say how far checks are in the half topic and in the op topic."""
QUEUE_ID = 0
"""RocketMQ has one queue of each of these topics."""

OP_TAG = "d"
OP_MAX_SIZE = 4096
"""Bytes of an op message's body at most (`transactionOpMsgMaxSize`)."""

PRODUCER_GROUP = "PGROUP"
IS_TRANSACTION = "TRAN_MSG"
TRANSACTION_ID = "__transactionId__"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
IMMUNITY_S = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
"""Where a half message was first, if a broker has put it back within its immunity time."""

OFFSET_DIGITS = 19
NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def check_transactional(message: Message, settings: StoreSettings) -> None:
    """Raises InvalidMessageError for what cannot be in a transaction."""
    check_message(message)
    given = message.properties or {}
    timers = [name for name in props.TIMER_PROPERTIES if name in given]
    has_level = message.delay_level or given.get(props.DELAY, "0") != "0"
    if has_level or timers:
        asked = timers[0] if timers else f"delay_level={message.delay_level or given[props.DELAY]}"
        raise _refused(message, f"{asked}: expected no delay, a commit delivers the message at once")
    if message.sys_flag & (INNER_BATCH | NEED_UNWRAP) or given.keys() & {props.INNER_COUNT, props.INNER_BASE}:
        raise _refused(message, "an inner batch: expected a single message")
    if message.sys_flag & TRANSACTION_MASK:
        raise _refused(message, f"sys_flag={message.sys_flag}: expected no bits of a transaction, they are set here")
    if props.MULTI_DISPATCH in given:
        raise _refused(message, f"the property {props.MULTI_DISPATCH}: a light queue would show it before its commit")
    if message.prepared_transaction_offset:
        raise _refused(message, "prepared_transaction_offset: expected 0, the commit sets it")
    if IMMUNITY_S in given:
        longest_s = settings.transaction_check_max_count * settings.transaction_check_interval_ms // 1000
        text = given[IMMUNITY_S]
        if not isinstance(text, str) or not text.isascii() or not text.isdigit() or int(text[:20]) > longest_s:
            raise _refused(
                message,
                f"the property {IMMUNITY_S}={text!r}: expected a whole number of seconds, at most {longest_s} "
                "(transaction_check_max_count times transaction_check_interval_ms)",
            )


def _refused(message: Message, why: str) -> InvalidMessageError:
    return InvalidMessageError(f"topic {message.topic!r}: a message of a transaction: {why}")


def half_of(message: Message, producer_group: str, transaction_id: str) -> Message:
    """The half message to append for this one, which has a queue id."""
    given = message.properties or {}
    kept = {name: value for name, value in given.items() if name not in (CHECK_TIMES, PREPARED_QUEUE_OFFSET)}
    own = {
        IS_TRANSACTION: "true",
        PRODUCER_GROUP: producer_group,
        TRANSACTION_ID: transaction_id,
        props.REAL_TOPIC: message.topic,
        props.REAL_QUEUE_ID: str(message.queue_id),
    }
    return replace(message, topic=HALF_TOPIC, queue_id=QUEUE_ID, properties=kept | own)


def with_room(half: Message) -> Message:
    """The half message with every property that can be added to it while it waits, at their longest: if this one is
    taken, all that follow are."""
    longest = {CHECK_TIMES: str(INT32_MAX), PREPARED_QUEUE_OFFSET: "9" * OFFSET_DIGITS}
    return replace(half, properties={**(half.properties or {}), **longest})


def put_back(half: StoredMessage, times_checked: int | None = None) -> DueMessage:
    """The half message to append at the end of its queue; `times_checked` None: as often as it says."""
    found = to_put_again(half)
    if times_checked is not None:
        found.message.properties = {**(found.message.properties or {}), CHECK_TIMES: str(times_checked)}
    return found


def committed(half: Message, half_physical_offset: int) -> Message:
    """The message to append to its own topic. Raises InvalidMessageError for a half message that names none."""
    properties = half.properties or {}
    topic, queue_id = properties.get(props.REAL_TOPIC, ""), whole(properties.get(props.REAL_QUEUE_ID))
    if not is_safe_topic(topic) or topic == HALF_TOPIC or queue_id is None or not 0 <= queue_id <= INT32_MAX:
        raise InvalidMessageError(
            f"the half message at physical offset {half_physical_offset}: its properties name topic {topic[:200]!r} "
            f"and queue {properties.get(props.REAL_QUEUE_ID, '')[:40]!r}, expected where to deliver it"
        )
    return replace(
        half,
        topic=topic,
        queue_id=queue_id,
        sys_flag=half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        prepared_transaction_offset=half_physical_offset,
    )


def discarded(half: StoredMessage) -> DueMessage:
    """The message to append for a half message that nobody will be asked about any more."""
    message, hosts = to_put_again(half)
    return DueMessage(replace(message, topic=DISCARDED_TOPIC, queue_id=QUEUE_ID), hosts)


def op_message(half_queue_offsets: Iterable[int]) -> Message:
    """These half messages are over with."""
    body = "".join(f"{offset}," for offset in half_queue_offsets).encode()
    return Message(OP_TOPIC, body, tags=OP_TAG, queue_id=QUEUE_ID, properties={props.WAIT: "true"})


def half_queue_offsets(op: StoredMessage) -> list[int]:
    """Queue offsets of the half messages that an op message marks as ended."""
    if op.tags != OP_TAG:
        return []
    numbers = (whole(text) for text in op.body.decode("utf-8", "replace").split(","))
    return [number for number in numbers if number is not None]


def immunity_ms(half: StoredMessage, timeout_ms: int) -> int | None:
    """How long nobody is asked about this half message, as it says itself; None: it says nothing. What is no number
    means `timeout_ms`, as in RocketMQ."""
    text = half.properties.get(IMMUNITY_S)
    if text is None:
        return None
    seconds = whole(text)
    return timeout_ms if seconds is None or seconds == -1 else seconds * 1000


def times_checked(half: StoredMessage) -> int:
    """How often somebody was asked about it. What is no number is -1, as in RocketMQ."""
    text = half.properties.get(CHECK_TIMES)
    if text is None:
        return 0
    found = whole(text)
    return -1 if found is None else found


def identity(message: StoredMessage) -> tuple[object, ...] | None:
    """What a half message, the same one put back and its commit record have in common, and no other message; None for
    one without a uniq key."""
    if message.uniq_key is None:
        return None
    return message.uniq_key, message.properties.get(props.REAL_TOPIC), message.born_timestamp_ms, message.body_crc


def is_commit_of(message: StoredMessage, half: StoredMessage) -> bool:
    """Whether a message was committed for this half message, wherever that was when it was."""
    if message.transaction_type != TRANSACTION_COMMIT:
        return False
    if half.uniq_key is None:
        return message.prepared_transaction_offset == half.physical_offset
    return identity(message) == identity(half)


def whole(text: str | None) -> int | None:
    return int(text) if text is not None and NUMBER.fullmatch(text) else None
