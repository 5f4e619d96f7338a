"""One look at the half messages that nobody answered for.

In the order of their queue, from the offset of the group CID_RMQ_SYS_TRANS on, a half message

    that an op message names, or that ended meanwhile            is passed
    that is open in this process                                 is put back; the rest waits if it is young
    that has a commit record                                     gets the op message that a crash has taken
    that was asked about `transaction_check_max_count` times     goes to TRANS_CHECK_MAX_TIME_TOPIC
    or is older than `retention_hours` (None: 72 hours)          goes there, too
    that is younger than `transaction_timeout_ms`                ends the round: most of those behind it are younger
    that is within its own immunity time                         is put back
    of a producer group without a checker                 is put back
    any other                                             is put back, counted, and its group's checker is asked

and after the round both offsets are written, durable, never ahead of the log. What is put back goes to the end of the
queue, beyond what this round looks at. A crash in the middle makes the next round begin where this one did: some are
asked about again, but none that was committed, for its commit record is found, and what was given up is so once.

RocketMQ's broker knows nothing of senders that are still at work, nor of commit records: it asks about all of them. It
counts half messages of groups without a connected producer as checked, and so discards them; it passes one whose
immunity time is longer than all checks together, and never comes back to it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from ...engine.message_store import MessageStore
from ...schedule.delivered import HALF_TOPIC, to_put_again
from ...store.errors import InvalidMessageError
from ...store.format import property_names as props
from ...store.format.properties import encode_properties
from ...store.format.record import INT32_MAX
from ...store.stored_message import StoredMessage
from .half_message import (
    CHECK_GROUP,
    DISCARDED_TOPIC,
    OP_TOPIC,
    PRODUCER_GROUP,
    QUEUE_ID,
    committed,
    discarded,
    half_queue_offsets,
    identity,
    immunity_ms,
    is_commit_of,
    put_back,
    times_checked,
    whole,
)
from .open_transactions import OpenTransactions
from .resolution import TransactionResolution

log = logging.getLogger("flightlog.produce")

ROUND_MAX_S = 60.0
"""How long a round lasts at most, the last answer excepted."""
DEFAULT_RETENTION_HOURS = 72
"""RocketMQ's `fileReservedTime`."""
SCAN_MAX = 10_000
"""Messages of the real queue that are looked at for a commit record, where the key index does not tell."""

Check = Callable[[StoredMessage], TransactionResolution]


class CheckRound:
    """Used once. `checks`: by producer group."""

    def __init__(
        self,
        store: MessageStore,
        transactions: OpenTransactions,
        checks: dict[str, Check],
        is_stopping: Callable[[], bool],
        warned_groups: set[str],
    ) -> None:
        self._store, self._transactions, self._checks = store, transactions, checks
        self._is_stopping, self._warned_groups = is_stopping, warned_groups
        self._settings, self._clock = store.settings, store.clock
        self._done = 0
        """Queue offset in the half topic up to which the round has come."""
        self._over: set[int] = set()
        """Queue offsets of half messages that op messages name."""
        self._ops: list[tuple[int, int]] = []
        """The queue offset of each op message, and the highest queue offset of a half message that it names."""
        self._answered: set[tuple[object, ...]] = set()
        """The transactions that were answered for in this round. A round that a crash cut short leaves a half message
        twice, and under sync flush a commit record cannot be read before it is durable."""
        self._discarded: set[tuple[object, ...] | None] = set()
        self._discarded_since_ms: float = math.inf
        """What was given up from then on. A round that a crash cut short may have done that, and begins again."""

    def run(self) -> None:
        """Raises DiskError, StoreClosedError."""
        store, offsets = self._store, self._store.offsets
        self._transactions.begin_round()
        try:
            store.flush()  # under sync flush, nothing that is not durable can be read
            first, end = store.queue_bounds(HALF_TOPIC, QUEUE_ID)
            self._done = max(offsets.get(CHECK_GROUP, HALF_TOPIC, QUEUE_ID) or 0, first)
            self._read_ops()
            try:
                self._pass(end)
            finally:
                if not store.is_closed:
                    self._save()
        finally:
            self._transactions.end_round()

    def _read_ops(self) -> None:
        first, end = self._store.queue_bounds(OP_TOPIC, QUEUE_ID)
        begin = max(self._store.offsets.get(CHECK_GROUP, OP_TOPIC, QUEUE_ID) or 0, first)
        ops = self._store.read(OP_TOPIC, QUEUE_ID, begin, on_corrupt="skip")
        for op in islice(ops, max(end - begin, 0)):
            named = half_queue_offsets(op)
            self._over.update(named)
            self._ops.append((op.queue_offset, max(named, default=-1)))

    def _save(self) -> None:
        offsets = self._store.offsets
        if self._done:
            offsets.set(CHECK_GROUP, HALF_TOPIC, QUEUE_ID, self._done)
        for queue_offset, highest in self._ops:
            if highest >= self._done:
                break
            offsets.set(CHECK_GROUP, OP_TOPIC, QUEUE_ID, queue_offset + 1)
        offsets.save()

    def _pass(self, end: int) -> None:
        ends_s = self._clock.monotonic_s() + ROUND_MAX_S
        while self._done < end and not self._is_stopping() and self._clock.monotonic_s() < ends_s:
            if self._done not in self._over:
                half = next(self._store.read(HALF_TOPIC, QUEUE_ID, self._done, on_corrupt="skip"), None)
                if half is None:
                    break
                if half.queue_offset > self._done:  # retention or damage has taken those between
                    self._done = half.queue_offset
                    continue
                if not self._look_at(half):
                    break
            self._done += 1

    def _look_at(self, half: StoredMessage) -> bool:
        """Do what is to be done about one half message. False: the round ends in front of it."""
        settings, transactions = self._settings, self._transactions
        own_ms = immunity_ms(half, settings.transaction_timeout_ms)
        timeout_ms = settings.transaction_timeout_ms if own_ms is None else own_ms
        age_ms = self._clock.now_ms() - half.born_timestamp_ms
        is_young = 0 <= age_ms <= timeout_ms if own_ms is None else age_ms <= timeout_ms
        waits_behind = is_young and own_ms is None
        with transactions.lock:
            if transactions.is_ended(half.queue_offset):
                return True
            opened = transactions.at(half.queue_offset)
            if opened is not None:
                if not waits_behind:
                    transactions.move(opened, half)
                return not waits_behind
        if times_checked(half) >= settings.transaction_check_max_count or self._is_too_old(age_ms):
            if not self._end_answered(half):
                self._discard(half)
            return True
        if waits_behind:
            return False
        if self._was_discarded(half) or self._end_answered(half):
            return True
        check = self._checks.get(half.properties.get(PRODUCER_GROUP, ""))
        if is_young or check is None:
            if not is_young:
                self._warn_of_group(half)
            self._put_back(half)
            return True
        asked = self._put_back(half, times_checked(half) + 1)
        if asked is not None:
            self._ask(check, asked)
        return True

    def _is_too_old(self, age_ms: int) -> bool:
        hours = self._settings.retention_hours
        return age_ms > (DEFAULT_RETENTION_HOURS if hours is None else hours) * 3_600_000

    def _put_back(self, half: StoredMessage, times: int | None = None) -> StoredMessage | None:
        """The half message where it is from now on; None if it cannot be put there, and was discarded."""
        message, hosts = put_back(half, times)
        try:
            result = self._transactions.put_internal(message, hosts)
        except InvalidMessageError as e:
            text = "the half message at physical offset %d cannot be put back: %s"
            log.error(text, half.physical_offset, e, extra=_fields(half))
            self._discard(half)
            return None
        return replace(
            half,
            queue_offset=result.queue_offset,
            physical_offset=result.physical_offset,
            size=result.size,
            store_timestamp_ms=result.store_timestamp_ms,
            properties_raw=encode_properties(message.properties or {}, is_foreign=True),
        )

    def _discard(self, half: StoredMessage) -> None:
        if self._was_discarded(half):
            return
        message, hosts = discarded(half)
        result = self._transactions.put_internal(message, hosts)
        self._discarded.add(identity(half))
        log.error(
            "a half message of producer group %r to topic %r, uniq key %s: given up after %d checks, it is in %s at %d",
            *(half.properties.get(PRODUCER_GROUP), half.properties.get(props.REAL_TOPIC), half.uniq_key),
            *(times_checked(half), result.topic, result.queue_offset),
            extra=_fields(half),
        )

    def _was_discarded(self, half: StoredMessage) -> bool:
        since_ms = min(half.born_timestamp_ms, half.store_timestamp_ms)
        if since_ms < self._discarded_since_ms:
            start = self._store.offset_at(DISCARDED_TOPIC, QUEUE_ID, since_ms)
            found = self._store.read(DISCARDED_TOPIC, QUEUE_ID, start, on_corrupt="skip")
            self._discarded.update(map(identity, found))
            self._discarded_since_ms = since_ms
        name = identity(half)
        return name is not None and name in self._discarded

    def _warn_of_group(self, half: StoredMessage) -> None:
        group = half.properties.get(PRODUCER_GROUP, "")
        if group not in self._warned_groups:
            self._warned_groups.add(group)
            text = "half messages of producer group %r wait for an answer, and it has no TransactionChecker here"
            log.warning(text, group, extra={"producer_group": group})

    # -- what was committed already

    def _end_answered(self, half: StoredMessage) -> bool:
        """Whether its end is known: then its op message is written, too."""
        if identity(half) not in self._answered and not self._is_committed(half):
            return False
        with self._transactions.lock:
            self._transactions.note_end(half.queue_offset)
        return True

    def _is_committed(self, half: StoredMessage) -> bool:
        topic, queue_id = half.properties.get(props.REAL_TOPIC), whole(half.properties.get(props.REAL_QUEUE_ID))
        if not topic or queue_id is None or not 0 <= queue_id <= INT32_MAX:
            return False
        store, uniq_key = self._store, half.uniq_key
        if self._settings.key_index and uniq_key:
            count = 32
            while True:
                found = store.query(topic, uniq_key, 0, None, count, on_corrupt="skip")
                if any(is_commit_of(message, half) for message in found.messages):
                    return True
                if not found.has_more or count >= SCAN_MAX:
                    return False
                count *= 8
        begin = store.offset_at(topic, queue_id, half.store_timestamp_ms)
        behind = islice(store.read(topic, queue_id, begin, on_corrupt="skip"), SCAN_MAX)
        return any(is_commit_of(message, half) for message in behind)

    # -- asking

    def _ask(self, check: Check, half: StoredMessage) -> None:
        topic, queue_id = half.properties.get(props.REAL_TOPIC, ""), whole(half.properties.get(props.REAL_QUEUE_ID))
        shown = replace(half, topic=topic, queue_id=-1 if queue_id is None else queue_id)
        try:
            answer = check(shown)
        except Exception:
            text = "the check of the transaction %s of producer group %r failed; it is asked again at the next check"
            log.exception(text, half.uniq_key, half.properties.get(PRODUCER_GROUP), extra=_fields(half))
            return
        if not isinstance(answer, TransactionResolution):
            log.error(
                "the check of producer group %r answered %r: expected a TransactionResolution; taken for UNKNOWN",
                *(half.properties.get(PRODUCER_GROUP), answer),
                extra=_fields(half),
            )
        elif answer is not TransactionResolution.UNKNOWN and not self._is_stopping():
            self._end_asked(half, answer)

    def answer(self, half: StoredMessage, answer: TransactionResolution) -> None:
        """What a check of another round comes to. Raises InvalidMessageError, DiskError."""
        self._store.flush()  # under sync flush, a commit record that is not durable cannot be read
        if not self._end_answered(half):
            self._end(half, answer)

    def _end_asked(self, half: StoredMessage, answer: TransactionResolution) -> None:
        try:
            self._end(half, answer)
        except InvalidMessageError as e:
            log.error("the transaction %s cannot be committed: %s", half.uniq_key, e, extra=_fields(half))

    def _end(self, half: StoredMessage, answer: TransactionResolution) -> None:
        message, hosts = to_put_again(half)
        with self._transactions.lock:
            if answer is TransactionResolution.COMMIT:
                self._transactions.put_internal(committed(message, half.physical_offset), hosts)
            self._transactions.note_end(half.queue_offset)
        if (ended := identity(half)) is not None:
            self._answered.add(ended)


def _fields(half: StoredMessage) -> dict[str, object]:
    """Fields of a log line about a half message."""
    return {"physical_offset": half.physical_offset, "uniq_key": half.uniq_key}
