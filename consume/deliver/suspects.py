"""What one member does about messages that were handed out, and not done, when a process died: its part of OneByOne,
and the notes for the next crash.

The caller holds the member's lock for every call but `release`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import takewhile

from ...store.message_queue import MessageQueue
from ..group.consumed_store import StoresNow
from ..retry.starts import EMPTY, NO_SUSPECT, FailedAttempts, Start
from .one_by_one import OneByOne
from .process_queue import Place, ProcessQueue
from .received import ReceivedMessage
from .waiters import Waiters

log = logging.getLogger("flightlog.consume")

Waiting = Callable[[MessageQueue], Iterable[ReceivedMessage]]
"""Messages that were read, and not handed out yet: of this queue, and perhaps of others with suspects."""


class Suspects:
    """The suspects of one member. If not `is_active`, its group broadcasts: nothing is noted, and nothing was left."""

    def __init__(
        self, stores: StoresNow, group: str, one_by_one: OneByOne, waiters: Waiters, *, is_active: bool
    ) -> None:
        self._stores, self._group, self._one_by_one = stores if is_active else dict, group, one_by_one
        one_by_one.add_waiters(waiters)
        self._starts: dict[MessageQueue, Start] = {}
        """The suspects of each of the member's queues that has any: those from `first` on and below `end`."""
        self._alone: tuple[MessageQueue, Start] | None = None
        """What was noted of the message that is out alone."""
        self._died_in: tuple[Place, int] | None = None
        """The message that was out alone when the process died, once it is out again, and that attempt."""

    @property
    def is_on(self) -> bool:
        """Whether the group receives messages one by one."""
        return self._one_by_one.is_on

    def __contains__(self, queue: object) -> bool:
        return queue in self._starts

    def to_read(self, queues: dict[MessageQueue, ProcessQueue]) -> list[MessageQueue]:
        """The queues with suspects that were not read yet."""
        return [queue for queue, start in self._starts.items() if queues[queue].position < start.end]

    # -- queues

    def add(self, queue: MessageQueue, queue_offset: int, *, is_paused: bool) -> None:
        """The member goes on in this queue, at this offset."""
        store = self._stores().get(queue.broker_name)
        if store is not None:
            store.sent_back.look(self._group, (queue.topic, queue.queue_id), queue_offset)
        start = None if store is None else store.starts.left(self._group, queue.topic, queue.queue_id)
        if store is None or start is None:
            return
        end = min(start.end, store.bounds(queue)[1])
        if queue_offset >= end:
            store.starts.settle(self._group, queue.topic, queue.queue_id)
            return
        self._starts[queue] = start._replace(end=end)
        if not is_paused:
            self._one_by_one.add(self, queue)

    def drop(self, queue: MessageQueue, *, has_holes: bool) -> None:
        """The member gives the queue up. `has_holes`: messages behind the group's offset were done."""
        store = self._stores().get(queue.broker_name)
        if store is not None and has_holes:
            store.sent_back.watch()
        elif store is not None:
            store.sent_back.give_up(self._group)
        self._starts.pop(queue, None)
        self._one_by_one.remove(self, queue)
        if self._alone is not None and self._alone[0] == queue:
            self._alone = None
            self._one_by_one.let_go(self)
        self._one_by_one.release(self, queue)  # an ordered member has the queue also for a message that is no suspect
        self._note(queue, EMPTY)

    def pause(self, paused: set[MessageQueue]) -> None:
        """The others go on without these."""
        for queue in paused & self._starts.keys():
            self._one_by_one.remove(self, queue)

    def resume(self, paused: set[MessageQueue]) -> None:
        """All but these are read again."""
        for queue in self._starts.keys() - paused:
            self._one_by_one.add(self, queue)

    def clear_done(self, queues: dict[MessageQueue, ProcessQueue], waiting: Waiting) -> None:
        """Those whose suspects were all handed out are from now on read as all others."""
        if self._one_by_one.is_taken_by(self):
            return
        for queue, start in list(self._starts.items()):
            is_read = queues[queue].position >= start.end
            if is_read and not any(start.first <= message.queue_offset < start.end for message in waiting(queue)):
                self.clear(queue)

    def clear(self, queue: MessageQueue) -> None:
        """The queue has no suspects."""
        if self._starts.pop(queue, None) is None:
            return
        self._one_by_one.remove(self, queue)
        store = self._stores().get(queue.broker_name)
        if store is not None:
            store.starts.settle(self._group, queue.topic, queue.queue_id)

    # -- messages

    def may_come(self, message: ReceivedMessage, *, is_next: bool) -> bool:
        """Whether this one may be handed out while the group receives one by one; if so, no other suspect may until
        `release`. `is_next`: all before it in its queue is done, so that the group's offset will pass it."""
        start = self._starts.get(message.queue)
        if start is None or message.queue_offset >= start.end:
            return False
        return message.queue_offset < start.first or (is_next and self.take(message.place))

    def take(self, token: Hashable) -> bool:
        return self._one_by_one.take(self, token)

    @property
    def is_one_out(self) -> bool:
        """Whether this member has handed out the one message that may be out."""
        return self._one_by_one.is_taken_by(self)

    def release(self, token: Hashable) -> None:
        """The message is done, or waits for its next attempt."""
        if self._one_by_one.release(self, token):
            self._note_end()

    def let_go(self) -> None:
        """The message that is out alone is no longer waited for: the process has outlived it."""
        self._one_by_one.let_go(self)
        self._note_end()

    def _note_end(self) -> None:
        if self._alone is not None:
            queue, start = self._alone
            self._alone = None
            self._note(queue, start._replace(suspect=NO_SUSPECT, attempt=0))

    def note_alone(self, message: ReceivedMessage, first: int) -> None:
        """This message is about to be handed out; `first`: see Start. If it is a suspect, the note is durable."""
        start = self._starts.get(message.queue)
        if start is None or not start.first <= message.queue_offset < start.end:
            return
        if start.attempt and message.message.physical_offset == start.suspect:
            if start.attempt > message.attempt:  # else that attempt was noted as failed before
                message.attempt = start.attempt - 1
                self._died_in = message.place, start.attempt
            self._starts[message.queue] = start._replace(suspect=NO_SUSPECT, attempt=0)
        else:  # whatever becomes of it, the process has outlived it: it comes among all others the next time
            self._starts[message.queue] = start._replace(first=message.queue_offset + 1)
        alone = Start(first, start.end, message.message.physical_offset, message.attempt + 1)
        self._alone = message.queue, alone
        self._note(message.queue, alone, sync=True)

    def note_failed(self, messages: Sequence[ReceivedMessage]) -> None:
        """An ordered queue waits for another attempt at these, in their order. Only of those that had as many attempts
        as the first is their number kept. Durable, unless the disk refuses it."""
        first = messages[0]
        *_, last = takewhile(lambda message: message.attempt == first.attempt, messages)
        places = first.message.physical_offset, last.message.physical_offset, last.queue_offset + 1
        queue, store = first.queue, self._stores().get(first.queue.broker_name)
        if store is not None:
            failed = FailedAttempts(*places, first.attempt)
            store.starts.note_failed(self._group, queue.topic, queue.queue_id, failed)

    def end_failed(self, queue: MessageQueue, commit_offset: int) -> None:
        """All below this queue offset is done."""
        store = self._stores().get(queue.broker_name)
        if store is not None:
            store.starts.end_failed(self._group, queue.topic, queue.queue_id, commit_offset)

    def count_failed(self, message: ReceivedMessage) -> None:
        """This message of an ordered queue is about to be handed out: perhaps other members had it before, or another
        process."""
        queue, store = message.queue, self._stores().get(message.queue.broker_name)
        failed = None if store is None else store.starts.failed(self._group, queue.topic, queue.queue_id)
        if failed is not None:
            message.attempt = max(message.attempt, failed.of(message.message))

    def knows_copies(self, queue: MessageQueue) -> bool:
        """Whether a message may have been sent back before a process died, and come again."""
        store = self._stores().get(queue.broker_name)
        return store is not None and store.sent_back.knows(self._group)

    def is_over(self, message: ReceivedMessage) -> bool:
        """Whether this is an older copy of a message that was sent back before the process died."""
        store, queue = self._stores().get(message.queue.broker_name), message.queue
        return store is not None and store.sent_back.is_over(
            self._group, queue.topic, message.message, message.attempt + 1
        )

    def send_back(self, message: ReceivedMessage, send: Callable[[], bool]) -> bool:
        """Send back this message, which is out, unless a copy of it was, after this attempt or a later one."""
        store = self._stores().get(message.queue.broker_name)
        if store is None:
            return send()
        values = self._group, message.queue.topic, message.message, message.attempt
        if not store.sent_back.claim(*values):
            return True
        is_sent = False
        try:
            is_sent = send()
        finally:
            if not is_sent:
                store.sent_back.unclaim(*values)
        return is_sent

    def has_died_in(self, message: ReceivedMessage) -> bool:
        """Whether the process died in this attempt: the message is out only to be counted as failed."""
        return self._died_in == (message.place, message.attempt)

    def tell_died(self, message: ReceivedMessage) -> None:
        text = "group %s: the process died in attempt %d of %r"
        log.warning(text, self._group, message.attempt, message.message, extra={"group": self._group})

    def restart(self, queue: MessageQueue) -> None:
        """The queue is to be read from elsewhere on, with all that is there."""
        self.clear(queue)
        store = self._stores().get(queue.broker_name)
        if store is not None:
            store.sent_back.forget(self._group)

    def note_read(self, queue: MessageQueue, has: ProcessQueue) -> None:
        """What was read of the queue is about to be handed out."""
        start = self._starts.get(queue, EMPTY)
        self._note(queue, Start(has.commit_offset, max(has.position, start.end), start.suspect, start.attempt))

    def _note(self, queue: MessageQueue, start: Start, *, sync: bool = False) -> None:
        store = self._stores().get(queue.broker_name)
        if store is not None:
            store.starts.note(self._group, queue.topic, queue.queue_id, start, sync=sync)
