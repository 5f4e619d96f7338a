"""How much of what is waiting goes into one batch."""

from __future__ import annotations


def share_of(limit: int | None, backlog: int, total: int) -> int | None:
    """What one of several queues or stores gets of a limit: as much of it as it has of all that waits, and at least 1,
    so that a small one is not kept waiting by large ones. None where nothing limits it.

    The shares can add up to more than the limit where it is less than the number of those that have something.
    """
    if limit is None or total == 0:
        return limit
    return max(limit * backlog // total, 1)
