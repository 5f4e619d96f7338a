"""What people type: times in ISO 8601 with a time zone, or how long ago; sizes with a unit."""

from __future__ import annotations

import re
import time
from datetime import datetime
from decimal import Decimal

from ..store.errors import InvalidArgumentError
from .words import SCALE, UNITS

AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
SIZE = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)})?", re.IGNORECASE)
EXPECTED_SIZE = f"bytes, or a size with a unit such as 512MiB or 1.5GiB ({', '.join(UNITS[1:])})"
EXPECTED = "a time such as 2026-05-01T12:00:00+02:00 or 2026-05-01T10:00:00Z, or how long ago: 90s, 15m, 2h, 3d, 1w"


def parse_time_ms(option: str, text: str, expected: str = EXPECTED) -> int:
    """Milliseconds since 1970. Raises InvalidArgumentError, which names what is `expected`, also for a time without a
    zone."""
    ago = AGO.fullmatch(text.strip())
    if ago is not None:
        return int((time.time() - float(ago[1]) * SECONDS[ago[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(option, text, expected) from None
    if moment.tzinfo is None:
        raise InvalidArgumentError(option, text, f"{expected}; this one has no time zone")
    return int(moment.timestamp() * 1000)


def parse_size(option: str, text: str) -> int:
    """Bytes. Raises InvalidArgumentError."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidArgumentError(option, text, EXPECTED_SIZE)
    unit = (found[2] or UNITS[0]).lower()
    return int(Decimal(found[1]) * SCALE ** [each.lower() for each in UNITS].index(unit))
