"""How long a message that was not acknowledged waits for its next delivery: RocketMQ's `GroupRetryPolicy`.

A policy is asked with `reconsume_times`, how often the message was redelivered before: 0 after its first failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...store.arguments import INT64_MAX, check_whole
from ...store.errors import InvalidArgumentError, WrongTypeError

_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
DEFAULT_DELAYS_MS = tuple(1_000 * delay_s for delay_s in _SECONDS)
"""RocketMQ's 18 delay levels."""

SKIPPED_DELAYS = 2
"""Entries of the table before the delay of the first failure, which is that of delay level 3, as in RocketMQ."""

MAX_EXPONENT = 32
"""The exponential policy's delay grows no further after so many redeliveries (RocketMQ's limit)."""


@dataclass(frozen=True, slots=True)
class CustomizedRetryPolicy:
    """A table of delays (RocketMQ's type `CUSTOMIZED`, the default): 10 s, 30 s, 1 min, ... 2 h.

    The first failure waits for the third delay, the next one for the fourth; failures beyond the table for the last
    one. Raises InvalidArgumentError for an empty table and for what is no delay.
    """

    delays_ms: tuple[int, ...] = DEFAULT_DELAYS_MS
    """Milliseconds."""

    def __post_init__(self) -> None:
        given: Any = self.delays_ms
        expected = "delays in ms, at least one"
        if not isinstance(given, Iterable) or isinstance(given, (str, bytes)):
            raise WrongTypeError("delays_ms", given, expected)
        delays_ms = tuple(check_whole("delays_ms", delay_ms) for delay_ms in given)
        if not delays_ms:
            raise InvalidArgumentError("delays_ms", given, expected)
        object.__setattr__(self, "delays_ms", delays_ms)

    def delay_ms(self, reconsume_times: int) -> int:
        """Milliseconds from the failure to the next delivery."""
        return self.delays_ms[min(max(reconsume_times, 0) + SKIPPED_DELAYS, len(self.delays_ms) - 1)]


@dataclass(frozen=True, slots=True)
class ExponentialRetryPolicy:
    """`initial_ms * multiplier ** reconsume_times`, `max_ms` at most (RocketMQ's type `EXPONENTIAL`).

    Where the product has more than 63 bits this is `max_ms`; RocketMQ's overflows there, and may be negative. Raises
    InvalidArgumentError for numbers that are negative or no whole numbers.
    """

    initial_ms: int = 5_000
    """Milliseconds after the first failure."""
    max_ms: int = 7_200_000
    """Milliseconds."""
    multiplier: int = 2

    def __post_init__(self) -> None:
        for name in ("initial_ms", "max_ms", "multiplier"):
            check_whole(name, getattr(self, name), 0, INT64_MAX)

    def delay_ms(self, reconsume_times: int) -> int:
        """Milliseconds from the failure to the next delivery."""
        power: int = self.multiplier ** min(max(reconsume_times, 0), MAX_EXPONENT)
        return min(self.max_ms, self.initial_ms * power)


DEFAULT_POLICY = CustomizedRetryPolicy()

RetryPolicy = CustomizedRetryPolicy | ExponentialRetryPolicy
