"""The state of the broker that this server is."""

from __future__ import annotations

from ....consume.store import Store
from ....store.conf.broker_conf import NAMES, broker_text
from ....store.conf.java_properties import escaped_value
from ...brokers.off_loop import OffLoop
from ..answers.request import Answer, Request
from ..answers.topics import CLUSTER
from ..wire import fastjson
from ..wire.codes import VERSION

VERSION_NAME = "V5_3_3"


class Broker:
    """In one event loop. Only what the store knows: tools show the rest as missing."""

    def __init__(self, store: Store, off_loop: OffLoop) -> None:
        self._store, self._off_loop = store, off_loop
        self._started_ms = store.message_store.clock.now_ms()

    async def runtime_info(self, request: Request) -> Answer:
        return await self._off_loop.run(self._runtime_info)

    async def config(self, request: Request) -> Answer:
        """What a broker's `broker.conf` would say of this store."""
        settings, version = self._store.settings, {"counter": 0, "stateVersion": 0, "timestamp": self._started_ms}
        found = {
            "brokerName": settings.broker_name,
            "brokerClusterName": CLUSTER,
            "brokerId": "0",
            "brokerRole": "ASYNC_MASTER",
            "listenPort": str(request.connection.local[1]),
            "storePathRootDir": str(self._store.path),
        }
        for name, broker_name in NAMES.items():
            if (value := getattr(settings, name)) is not None:
                found[broker_name] = broker_text(name, value)
        lines = "".join(f"{name}={escaped_value(value)}\n" for name, value in found.items())
        return Answer({"version": fastjson.encode(version).decode()}, lines.encode())

    def _runtime_info(self) -> Answer:
        found = self._store.statistics()
        first = self._store.message_at(found.sizes.min_physical_offset) if found.sizes.messages else None
        table = {
            "bootTimestamp": self._started_ms,
            "brokerActive": "true",
            "brokerVersion": VERSION,
            "brokerVersionDesc": VERSION_NAME,
            "commitLogMaxOffset": found.sizes.end_physical_offset,
            "commitLogMinOffset": found.sizes.min_physical_offset,
            "dispatchBehindBytes": found.lag.dispatch_size or 0,
            "earliestMessageTimeStamp": -1 if first is None else first.store_timestamp_ms,
        }
        if found.puts is not None:  # RocketMQ gives the averages of 10 s, 1 min and 10 min; here all are of 10 s
            table["putTps"] = " ".join([f"{found.puts.messages_per_s:.2f}"] * 3)
        return Answer.of({"table": {name: str(value) for name, value in table.items()}})
