"""Errors of calls for a whole consumer group. Nothing was changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...store.errors import UsageError, shown
from ...store.topic import GROUP_MAX_LENGTH, STRICT_WAY_OUT


class GroupNotFoundError(UsageError):
    """The store has neither offsets nor settings of a group, and it has no members."""

    def __init__(self, path: Path, group: str) -> None:
        super().__init__(f"{path}: there is no consumer group {group!r}: store.groups() lists those that there are")
        self.path, self.group = path, group


class InvalidGroupError(UsageError):
    """A name that RocketMQ's clients refuse for a new consumer group (see the setting `rocketmq_strict`)."""

    def __init__(self, path: Path, group: str) -> None:
        super().__init__(
            f"{path}: group {shown(group)}: expected 1 to {GROUP_MAX_LENGTH} of the characters %|a-zA-Z0-9_-"
            f"{STRICT_WAY_OUT}"
        )
        self.path, self.group = path, group


class GroupHasMembersError(UsageError):
    """The group has members, which the call does not allow."""

    def __init__(self, path: Path, group: str, members: Sequence[str], what_to_do: str) -> None:
        shown = ", ".join(map(repr, members[:5])) + ("..." if len(members) > 5 else "")
        count = "1 member" if len(members) == 1 else f"{len(members)} members"
        super().__init__(f"{path}: group {group!r} has {count} ({shown}): {what_to_do}")
        self.path, self.group, self.members = path, group, tuple(members)
