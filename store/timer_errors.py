"""Why a put refuses a timer. All of them are InvalidMessageErrors: nothing was appended.

InvalidMessageError
└── InvalidTimerError          a time that cannot be read
    ├── TimerTooFarError       beyond the horizon
    ├── TimerTooLateError      a cancellation of what is due already
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


class TimersCongestedError(InvalidTimerError):
    """As many timers are due in that second as the setting `timer_slot_max_count` allows."""
