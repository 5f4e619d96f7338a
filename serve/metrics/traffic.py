"""What clients sent and received since the server was started."""

from __future__ import annotations

from ...produce.message_type import UNCHECKED_PREFIXES
from ...store.format.record import RETRY_TOPIC_PREFIX
from ...store.stored_message import StoredMessage
from .in_flight import InFlight


class Traffic:
    """Written in one event loop, read by any thread. It grows with the number of topics and groups that are used."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], tuple[int, int]] = {}
        self.in_flight = InFlight()
        self._received: dict[tuple[str, str, bool], tuple[int, int]] = {}

    def note_sent(self, topic: str, message_type: str, size: int) -> None:
        """One message was stored, of `size` bytes as a record. As in RocketMQ, those to topics of retries and of dead
        letters do not count."""
        if topic.startswith(UNCHECKED_PREFIXES):
            return
        count, total = self._sent.get((topic, message_type), (0, 0))
        self._sent[topic, message_type] = count + 1, total + size

    def note_received(self, group: str, topic: str, message: StoredMessage) -> None:
        """One message was handed out; `topic` is the one that was asked for."""
        key = group, topic, message.topic.startswith(RETRY_TOPIC_PREFIX)
        count, total = self._received.get(key, (0, 0))
        self._received[key] = count + 1, total + message.size

    def sent(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Topic and type of message -> how many messages, and bytes of their records."""
        return dict(self._sent)

    def received(self) -> dict[tuple[str, str, bool], tuple[int, int]]:
        """Group, topic, and whether it was from the group's retry topic -> messages and bytes."""
        return dict(self._received)
