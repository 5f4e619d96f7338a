"""How groups of remoting clients get the messages of a topic, by pull or by pop: `config/messageRequestMode.json`.

RocketMQ's file, and its format. Kept here, and not only in the server: a group that pops would lose what it has popped
and not acknowledged if its members pulled after a restart.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

from ..engine.message_store import MessageStore
from ..store.disk.config_file import CONFIG_FOLDER, ConfigFile
from ..store.errors import ConfigFileError

MODE_FILE: Final = "messageRequestMode.json"
MODES: Final = "messageRequestModeMap"
PULL, POP = "PULL", "POP"


@dataclass(frozen=True)
class RequestMode:
    """How a group consumes a topic."""

    name: str = PULL
    share_count: int = 0
    """How many other members read the queues of a member that pops (`popShareQueueNum`); 0: all read all."""


class RequestModes:
    """The request modes of a store that is open for writing. Thread-safe."""

    def __init__(self, store: MessageStore) -> None:
        """Raises ConfigFileError, DiskError."""
        self._file = ConfigFile(store.disk, store.path / CONFIG_FOLDER / MODE_FILE)
        self._writing = threading.Lock()
        self._modes: dict[tuple[str, str], RequestMode] = {}
        for topic, groups in _members((self._file.read() or {}).get(MODES), self._file).items():
            for group, mode in _members(groups, self._file).items():
                fields = _members(mode, self._file)
                share_count = fields.get("popShareQueueNum")
                self._modes[group, topic] = RequestMode(
                    POP if fields.get("mode") == POP else PULL, share_count if isinstance(share_count, int) else 0
                )

    def of(self, group: str, topic: str) -> RequestMode:
        return self._modes.get((group, topic), RequestMode())

    def pops(self, group: str) -> bool:
        """Whether the group gets any topic by pop."""
        return any(mode.name == POP for (name, _), mode in tuple(self._modes.items()) if name == group)

    def set(self, group: str, topic: str, mode: RequestMode) -> None:
        """Durable on return. Raises DiskError, StoreClosedError."""
        with self._writing:
            modes = {**self._modes, (group, topic): mode}
            table: dict[str, dict[str, Any]] = {}
            for (name, of_topic), each in sorted(modes.items()):
                table.setdefault(of_topic, {})[name] = {
                    "consumerGroup": name,
                    "mode": each.name,
                    "popShareQueueNum": each.share_count,
                    "topic": of_topic,
                }
            self._file.write({MODES: table})
            self._modes = modes


def _members(found: Any, file: ConfigFile) -> dict[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigFileError(file.path, f"{str(found)[:80]!r}", "request modes as RocketMQ writes them")
    return found
