"""Sends many messages with few puts: one for each store that gets some of them.

Invariants:
- Every message has one outcome.
- A store gets its part in the order of the call, and stores a beginning of it at most: messages of one queue are never
  overtaken. A message whose queue is fixed is tried once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ..store.errors import DiskFullError, FlightlogError, StoreClosedError
from ..store.message_queue import MessageQueue
from ..store.results import PutResult
from .send_errors import NoRouteError
from .send_result import SendFailure, SendResult
from .sender import Sender
from .sending import Sending

log = logging.getLogger("flightlog.produce")

Part = list[tuple[int, MessageQueue]]
"""What one store gets: places in the call, and queues."""
Outcomes = dict[int, SendResult | SendFailure]


def send_parts(sender: Sender, sendings: Sequence[Sending], *, one_queue: bool) -> list[SendResult | SendFailure]:
    """What became of each message."""
    outcomes: Outcomes = {}
    last_queues: dict[int, MessageQueue] = {}
    waiting: Iterable[int] = range(len(sendings))
    is_first = True
    while waiting:
        again: list[int] = []
        for name, part in _parts(sender, sendings, waiting, outcomes, last_queues, one_queue=one_queue).items():
            if not is_first and sender.left_s(sendings[part[0][0]]) <= 0:
                for place, queue in part:
                    sending = sendings[place]
                    outcomes[place] = SendFailure(sending.to(queue), queue, sending.timed_out())
                continue
            is_first = False
            again += _put_part(sender, name, sendings, part, outcomes)
            last_queues |= dict(part)
        waiting = sorted(again)
    return [outcomes[place] for place in range(len(sendings))]


def _parts(
    sender: Sender,
    sendings: Sequence[Sending],
    waiting: Iterable[int],
    outcomes: Outcomes,
    last_queues: dict[int, MessageQueue],
    *,
    one_queue: bool,
) -> dict[str, Part]:
    """By the name of the store. Messages that have no queue any more get their outcome."""
    parts: dict[str, Part] = {}
    shared: dict[str, MessageQueue] = {}
    for place in waiting:
        sending = sendings[place]
        queue = None if sending.queue is not None else shared.get(sending.message.topic)
        if queue is None:
            try:
                queue = sender.choose_queue(sending)
            except NoRouteError as e:
                last = last_queues[place]
                outcomes[place] = SendFailure(sending.to(last), last, e)
                continue
            if one_queue and sending.queue is None:
                shared[sending.message.topic] = queue
        parts.setdefault(queue.broker_name, []).append((place, queue))
    return parts


def _put_part(sender: Sender, name: str, sendings: Sequence[Sending], part: Part, outcomes: Outcomes) -> list[int]:
    """Put what one store gets; returns the places of what may be put to another one."""
    began_s = sender.clock.monotonic_s()
    results, error, is_sure = _put_together(sender, sendings, part)
    for (place, queue), found in zip(part, results, strict=False):
        outcomes[place] = sender.sent(sendings[place], queue, found, began_s)
    if error is None:
        return []
    sender.note_failure(name, error)
    again: list[int] = []
    for place, queue in part[len(results) :]:
        failure = sender.refused(sendings[place], queue, error, is_surely_not_there=is_sure)
        if failure is None:
            again.append(place)
        else:
            outcomes[place] = failure
    if again:
        text = "%s: %d messages go to other queues: %s"
        log.warning(text, name, len(again), error, extra={"store": name, "count": len(again)})
    return again


def _put_together(
    sender: Sender, sendings: Sequence[Sending], part: Part
) -> tuple[Sequence[PutResult], FlightlogError | None, bool]:
    """The results of those that were stored, which come first; why the others were not, and whether that is sure."""
    is_open = False
    try:
        store = sender.store_of(part[0][1])
        store.topic(part[0][1].topic)  # raises if it is closed: then surely nothing is stored
        is_open = True
        return store.put_many(sendings[place].to(queue) for place, queue in part), None, True
    except DiskFullError as e:
        return e.results, e, True
    except (StoreClosedError, NoRouteError) as e:
        return (), e, not is_open
    except FlightlogError as e:
        return (), e, False
