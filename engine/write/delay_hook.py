"""The seam before the append: what happens to a message that is not meant for its topic yet.

    a delay level     schedule/parking.py parks it
    a timer           `park_timer`, below, is handed in

Both make it a message of another topic, with its own topic and queue in the properties REAL_TOPIC and REAL_QID;
`Putter` sees to it that these two are there before it appends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...schedule.delay_level_table import DelayLevelTable
from ...schedule.parking import park
from ...store.format import property_names as props
from ...store.message import Message
from ...store.settings import StoreSettings

PrePutHook = Callable[[Message], Message]
"""Called with every message before it is appended; returns the message to append in its place: itself where nothing is
to be done about it."""


class DelayHook:
    """What an open store does unless it is told otherwise: messages for later are parked, all others pass as they are.
    Only what the fast path leaves to the slow path can be for later."""

    def __init__(self, settings: StoreSettings, park_timer: PrePutHook) -> None:
        self._levels: Final = DelayLevelTable.parse(settings.delay_levels)
        self._park_timer: Final = park_timer

    def __call__(self, message: Message) -> Message:
        if message.delay_level == 0 and not message.properties:
            return message
        parked = park(message, self._levels)
        if parked is message and any(name in (message.properties or {}) for name in props.TIMER_PROPERTIES):
            parked = self._park_timer(message)
        return parked
