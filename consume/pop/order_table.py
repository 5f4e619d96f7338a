"""The order infos of all groups of a store: `config/consumerOrderInfo.json`, in RocketMQ's format.

    {"table": {"orders@billing": {"0": {"popTime": …, "o": [4, 1], …}}}, "flightlogOrderedBefore": 12}

A broker writes it every few seconds, and after a kill the newest pops are forgotten. Here each change is also a record
of a system topic, put before the call returns: durable as any put is, and in one order with the messages. At the next
opening the records that the file does not include take its place; where they begin is `flightlogOrderedBefore`, a queue
offset of that topic. A broker leaves it out when it writes the file: what it wrote counts then.

    {"t": topic, "c": group, "q": queue id, "n": the group's offset in the queue, "i": order info}
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from typing import Any, Final

from ...engine.message_store import MessageStore
from ...engine.topics.offset_table import SEPARATOR, name_of
from ...store.disk.config_file import CONFIG_FOLDER, Config, ConfigFile
from ...store.errors import ConfigFileError, TopicExistsError
from ...store.message import Message
from ...store.queue_offsets import QueueKey
from ...store.results import PutStatus
from ...store.topic import Topic
from .json_words import json_object, json_text, json_whole
from .order_info import OrderInfo

log = logging.getLogger("flightlog.pop")

ORDER_FILE: Final = "consumerOrderInfo.json"
ORDER_TOPIC: Final = "rmq_sys_FLIGHTLOG_ORDER_INFO"
ORDER_GROUP: Final = "CID_RMQ_SYS_FLIGHTLOG_ORDER_INFO"
"""Its offset in the topic is where the records begin that the file does not include: retention keeps those."""
ORDERED_BEFORE: Final = "flightlogOrderedBefore"
KEPT_MS: Final = 24 * 3600 * 1000
"""How long the file keeps what blocks nothing (`CLEAN_SPAN_FROM_LAST`)."""

GroupQueue = tuple[str, str, int]
"""Group, topic, queue id."""


class OrderTable:
    """The order infos of a store that is open for writing. Thread-safe; to change the info of a queue, hold its
    lock."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._file = ConfigFile(store.disk, store.path / CONFIG_FOLDER / ORDER_FILE)
        self._document: Config = {}
        self._infos: dict[GroupQueue, OrderInfo] = {}
        self._begun: dict[GroupQueue, int] = {}
        """Where the topic ended when a record that is being put was begun: its info is not in the table yet."""
        self._saving = threading.Lock()
        self._changes = self._saved_changes = 0

    # -- infos

    def get(self, group: str, queue: QueueKey) -> OrderInfo | None:
        return self._infos.get((group, *queue))

    def set(self, group: str, queue: QueueKey, info: OrderInfo, next_offset: int) -> PutStatus:
        """What the group has of the queue, and where it goes on there. Stored on return, and durable as a put is; after
        an error nothing is changed, or the store is over. Raises as `put`."""
        key = (group, *queue)
        words = {"t": queue[0], "c": group, "q": queue[1], "n": next_offset, "i": info.to_json()}
        body = json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()
        if self._store.topic(ORDER_TOPIC) is None:
            with suppress(TopicExistsError):
                self._store.topic_table.create(Topic(ORDER_TOPIC, 1, 1))
        if self._saved_before is None:  # the file is to say from where on there are records
            self._changes += 1
            self.save()
        self._begun[key] = self._end()
        try:
            result = self._store.put(Message(ORDER_TOPIC, body, queue_id=0))
        except Exception:
            del self._begun[key]
            raise
        self._infos[key] = info
        self._store.offsets.set(group, *queue, next_offset)
        self._changes += 1
        del self._begun[key]  # not where an interrupt came in between: the next life has the record
        return result.status

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Forget a topic or a group. Durable on return. Raises as `save`."""
        gone = [key for key in self._infos if key[0] == group or key[1] == topic]
        for key in gone:
            del self._infos[key]
        if gone:
            self._changes += 1
            self.save()

    # -- the file

    @property
    def is_unsaved(self) -> bool:
        return self._changes != self._saved_changes

    @property
    def _saved_before(self) -> int | None:
        found = self._document.get(ORDERED_BEFORE)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def _end(self) -> int:
        return self._store.queue_bounds(ORDER_TOPIC, 0)[1]

    def save(self) -> None:
        """Write the file if something has changed; durable on return. Raises DiskError, StoreClosedError."""
        with self._saving:
            changes = self._changes
            if changes == self._saved_changes:
                return
            before = self._end()  # before the looks at the rest
            before = min([before, *tuple(self._begun.values())])
            table: dict[str, dict[str, Any]] = {}
            stale_ms = self._store.clock.now_ms() - KEPT_MS
            for (group, topic, queue_id), info in sorted(self._infos.items()):
                if info.waiting or info.last_ms > stale_ms:
                    table.setdefault(name_of(topic, group), {})[str(queue_id)] = info.to_json()
            self._store.flush()
            self._store.offsets.save()  # where groups go on by the records that are not read again
            document = self._document | {"table": table, ORDERED_BEFORE: before}
            self._file.write(document)
            self._document, self._saved_changes = document, changes
            self._store.offsets.set(ORDER_GROUP, ORDER_TOPIC, 0, before)

    def load(self) -> None:
        """Read the file, and the records that came after it. Raises DiskError, ConfigFileError, and as `read`."""
        self._document = self._file.read() or {}
        table = self._document.get("table") or {}
        try:
            for name, queues in json_object(table).items():
                topic, _, group = name.partition(SEPARATOR)
                for queue_id, info in json_object(queues).items():
                    self._infos[group, topic, int(queue_id)] = OrderInfo.from_json(info)
        except ValueError as e:
            raise ConfigFileError(self._file.path, str(e), "order infos as RocketMQ writes them") from e
        if self._saved_before is not None and self._saved_before < self._end():
            self._replay(self._saved_before)

    def _replay(self, start: int) -> None:
        offsets: dict[GroupQueue, int] = {}
        for message in self._store.read(ORDER_TOPIC, 0, start, on_corrupt="skip"):
            try:
                words = json_object(json.loads(message.body))
                key = json_text(words, "c"), json_text(words, "t"), json_whole(words, "q")
                self._infos[key], offsets[key] = OrderInfo.from_json(words.get("i")), json_whole(words, "n")
            except ValueError as e:
                text = "offset %d of %s: passed over: %s"
                log.warning(text, message.queue_offset, ORDER_TOPIC, e, extra={"cause": repr(e)})
        for (group, topic, queue_id), offset in offsets.items():
            if self._store.topic(topic) is not None and offset <= self._store.queue_bounds(topic, queue_id)[1]:
                at = self._store.offsets.get(group, topic, queue_id)
                self._store.offsets.set(group, topic, queue_id, max(offset, at or 0))
        self._store.offsets.save()
        self._changes += 1
        self.save()
