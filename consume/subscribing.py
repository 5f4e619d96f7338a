"""`subscribe`, as one store has it and several have it together."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ..index.filter.tag_filter import tag_filter
from ..store.arguments import (
    check_callable,
    check_flag,
    check_group,
    check_seconds,
    check_text,
    check_type,
    checked_folder,
)
from ..store.errors import InvalidArgumentError, WrongTypeError
from .allocate.allocate import AllocationStrategy
from .deliver.process_queue import FlowLimits
from .deliver.subscription import Subscription
from .group.group import Change
from .group.initial_offset import StartFrom, check_start
from .group_coordinator import GroupCoordinator


def checked_subscription(
    topics: Any, group: Any, tags: Any, member: Any, strategy: Any, limits: Any, on_change: Any
) -> tuple[dict[str, str], str]:
    """The tags of each topic, and the group; raises InvalidArgumentError for what a subscription does not take."""
    group = check_group(group)
    if isinstance(topics, str):
        topics = {topics: tags}
    elif not isinstance(topics, Mapping):
        raise WrongTypeError("topics", topics, "a topic as text, or a mapping of topics to tags, as in {'orders': '*'}")
    if not topics:
        raise InvalidArgumentError("topics", topics, "at least one topic")
    for topic, wanted in topics.items():
        check_text("topics", topic, "topics as text")
        tag_filter(wanted)
    tag_filter(tags)
    if member is not None:
        check_text("member", member)
    if strategy is not None and not callable(getattr(strategy, "allocate", None)):
        raise WrongTypeError("strategy", strategy, "an AllocationStrategy, or None")
    if limits is not None:
        check_type("limits", limits, FlowLimits, "FlowLimits, or None")
    if on_change is not None:
        check_callable("on_change", on_change, "a function that takes a Change, or None")
    return dict(topics), group


class Subscribing(ABC):
    """What can be subscribed to."""

    @abstractmethod
    def _consuming(self) -> GroupCoordinator:
        """What balances its groups. Raises StoreClosedError, ForkedStoreError."""

    def subscribe(
        self,
        topics: str | Mapping[str, str],
        group: str | int,
        *,
        tags: str = "*",
        start: StartFrom | int | datetime = StartFrom.FIRST,
        member: str | None = None,
        strategy: AllocationStrategy | None = None,
        limits: FlowLimits | None = None,
        ordered: bool = False,
        idle_s: float | None = None,
        broadcast_folder: str | os.PathLike[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        must_exist: bool = False,
    ) -> Subscription:
        """Join a consumer group as a new member: an iterator over the messages of its queues, each to be acknowledged.

            for message in store.subscribe("orders", group="billing"):
                ...
                message.ack()

        The members of a group share the queues of a topic (or of several: `{"orders": "paid || sent", "bills": "*"}`,
        with the tags of each); every group has all messages. `start` says where a group begins in a queue it has never
        been in: StartFrom.FIRST, LAST, or a store time (ms, or a datetime with a time zone). `strategy` shares the
        queues (Averagely), `limits` say how much may be handed out without an acknowledgement. The iterator waits for
        messages; after `idle_s` seconds without one it ends (None: when it or the store is closed).

        A message that is not acknowledged comes again: to another member once this one is closed, or after the next
        open. Acknowledgements are written to the disk every five seconds and at close, never ahead of the messages.

        `ordered`: a queue's next message comes once the one before was acknowledged (or given back, then it comes again
        first), also after a seek, and also if another member has the queue by then.

        `broadcast_folder`: every member has all queues, and keeps how far it is on its own side, in
        `BROADCAST_FOLDER/GROUP/offsets.json`; the folder is that member's alone. All members of a group broadcast, or
        none does.

        `on_change` is called with a `flightlog.consume.group.group.Change` (queues kept, added, dropped) after each
        round of sharing out that has given this member queues or taken some, the first one too; by the thread of the
        round, which waits for it. It should only take note.

        A topic that no store has is waited for, and the group's first member logs a warning that names it; with
        `must_exist` that is a TopicNotFoundError.

        A member that nobody holds any more leaves the group, and so does one whose thread (that which received last,
        and that which acknowledged last) has ended; the latter comes back when it is asked for a message.

        Raises InconsistentGroupError if the group has members with other topics, tags or another strategy, or one of
        this name, or is balanced elsewhere (by one store alone, or by others together); TopicNotFoundError, UsageError,
        InvalidArgumentError, StoreClosedError, ForkedStoreError; TooManyQueuesError for a topic with more than 65,536
        queues to read in one store.
        """
        wanted, group = checked_subscription(topics, group, tags, member, strategy, limits, on_change)
        start = check_start(start)
        for name, flag in (("ordered", ordered), ("must_exist", must_exist)):
            check_flag(name, flag)
        if idle_s is not None:
            check_seconds("idle_s", idle_s)
        if broadcast_folder is not None:
            broadcast_folder = checked_folder("broadcast_folder", broadcast_folder)
        return self._consuming().subscribe(
            *(wanted, group),
            member=member,
            strategy=strategy,
            start=start,
            limits=limits,
            ordered=ordered,
            idle_s=idle_s,
            broadcast_folder=broadcast_folder,
            on_change=on_change,
            must_exist=must_exist,
        )
