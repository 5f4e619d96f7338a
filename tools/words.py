"""Formats numbers, times and untrusted names for people."""

from __future__ import annotations

import datetime
import math

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
SCALE = 1024


def size_text(size: int) -> str:
    """1536 -> '1.5 KiB'; whole numbers stay whole."""
    value, unit = float(size), 0
    while abs(value) >= SCALE and unit < len(UNITS) - 1:
        value, unit = value / SCALE, unit + 1
    return f"{value:,.0f} {UNITS[unit]}" if value == int(value) else f"{value:,.1f} {UNITS[unit]}"


def figure_text(value: float) -> str:
    """Three significant digits; an empty string for NaN (not measured)."""
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def count_text(count: int, one: str, many: str | None = None) -> str:
    """(2, 'queue') -> '2 queues'."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def time_text(timestamp_ms: int) -> str:
    """Milliseconds since 1970 as UTC; 'never' for 0, the number itself where no calendar reaches."""
    if timestamp_ms <= 0:
        return "never"
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def seconds_text(seconds: float) -> str:
    """0.0412 -> '41 ms', 3.21 -> '3.2 s', 75 -> '1 min 15 s'."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def printable(text: str) -> str:
    """A name from an untrusted file, with everything escaped that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
