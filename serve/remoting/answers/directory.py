"""Where the brokers of this server are."""

from __future__ import annotations

from ...brokers.broker import Broker


class Directory:
    """Each broker has a port of its own: requests do not say which broker they are for. Every port answers for all of
    them, as a name server does. In one event loop."""

    def __init__(self) -> None:
        self._ports: dict[str, tuple[Broker, int]] = {}

    def note(self, broker: Broker, port: int) -> None:
        """It listens there."""
        self._ports[broker.name] = broker, port

    def up(self) -> list[tuple[Broker, int]]:
        """Those that take messages, with their ports."""
        return [(broker, port) for broker, port in self._ports.values() if broker.is_up]
