"""What becomes of a transaction."""

from __future__ import annotations

import enum


class TransactionResolution(enum.Enum):
    """What a TransactionChecker's function answers (RocketMQ's name, of its 5.x clients)."""

    COMMIT = "COMMIT"
    """The message becomes visible."""
    ROLLBACK = "ROLLBACK"
    """The message never becomes visible."""
    UNKNOWN = "UNKNOWN"
    """Ask again at the next check."""
