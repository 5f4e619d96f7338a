"""What the stores of a group say to a subscription: whether its topics can be read, and what the group may do."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...engine.message_store import MessageStore
from ...engine.topics.offset_table import name_of
from ...store.errors import TopicNotFoundError, UsageError
from ...store.topic import GROUP_MAX_LENGTH, is_client_name
from .consumed_store import ConsumedStore
from .group_errors import InvalidGroupError
from .group_table import GroupTable

log = logging.getLogger("flightlog.consume")

Stores = Mapping[str, ConsumedStore]


def check_new_group(store: MessageStore, groups: GroupTable, group: str) -> None:
    """Raises InvalidGroupError for a group that the store has neither offsets nor settings of, if its name is none for
    RocketMQ's clients and the store is strict about that."""
    if not store.settings.rocketmq_strict or is_client_name(group, GROUP_MAX_LENGTH):
        return
    if group not in store.offsets.by_group() and group not in groups.names():
        raise InvalidGroupError(store.path, group)


def check_names(stores: Stores, topics: Iterable[str], group: str) -> None:
    """Raises UsageError for names that no offsets can be kept under, InvalidGroupError for a new group whose name
    RocketMQ's clients refuse, TooManyQueuesError for topics that cannot be shared."""
    for store in stores.values():
        if store.is_usable:
            check_new_group(store.store, store.groups, group)
    for topic in topics:
        name_of(topic, group)
        for store in stores.values():
            if store.is_usable:
                store.check_routable(topic)


def check_topics(stores: Stores, topics: Iterable[str], group: str, *, must_exist: bool, is_new: bool) -> None:
    """Log the topics that do not exist, if they are new to the group. Raises TopicNotFoundError."""
    usable = [store for store in stores.values() if store.is_usable]
    for topic in topics:
        if any(store.has_topic(topic) for store in usable):
            continue
        paths = ", ".join(str(store.store.path) for store in usable) or "no open store"
        if must_exist:
            raise TopicNotFoundError(
                Path(paths), topic, "make it with create_topic, or subscribe without must_exist to wait for it"
            )
        if is_new:
            text = "group %s: there is no topic %r (%s): the group receives nothing from it until it is created"
            extra = {"group": group, "topic": topic, "stores": [store.name for store in usable]}
            log.warning(text, group, topic, paths, extra=extra)


def check_group_settings(stores: Stores, group: str, *, is_broadcasting: bool, is_new: bool) -> None:
    """Log that a group is not enabled, if it has no members yet. Raises UsageError for a group that may not
    broadcast."""
    for store in stores.values():
        settings, path = store.groups.settings(group), store.store.path
        if is_broadcasting and not settings.is_broadcast_enabled:
            raise UsageError(
                f"group {group!r} may not broadcast in the store {path}: subscribe without broadcast_folder, or "
                "allow it with update_group(..., is_broadcast_enabled=True)"
            )
        if is_new and not settings.is_enabled:
            text = "group %s is not enabled in the store %s: it receives nothing there until it is (update_group)"
            log.warning(text, group, path, extra={"group": group, "stores": [store.name]})
