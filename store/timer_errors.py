"""Why a put refuses a timer. All of them are InvalidMessageErrors: nothing was appended.

InvalidMessageError
└── InvalidTimerError          a time that cannot be read
    ├── TimerTooFarError       beyond the horizon
    ├── TimerTooLateError      a cancellation of what is due already
    ├── UnknownTimerError      a cancellation of what was not put
    └── TimersCongestedError   too many timers are due in the same second
"""

from __future__ import annotations

from .errors import InvalidMessageError


class InvalidTimerError(InvalidMessageError):
    """A property asks for a later delivery, and says no time."""


class TimerTooFarError(InvalidTimerError):
    """A time further ahead than the setting `timer_max_delay_s`."""


class TimerTooLateError(InvalidTimerError):
    """A cancellation whose timer is due already."""


class UnknownTimerError(InvalidTimerError):
    """A cancellation of a timer that the store does not have, or that is due at another time."""

    def __init__(self, topic: str, uniq_key: str, found: str, expected: str) -> None:
        super().__init__(
            f"topic {topic!r}: no timer to cancel with uniq_key={uniq_key!r}: {found}, expected {expected}"
        )
        self.topic, self.uniq_key, self.found, self.expected = topic, uniq_key, found, expected


class TimersCongestedError(InvalidTimerError):
    """As many timers are due in that second as the setting `timer_slot_max_count` allows."""
