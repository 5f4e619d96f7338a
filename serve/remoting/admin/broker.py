"""The state of the broker that this server is."""

from __future__ import annotations

from ....consume.store import Store
from ....store.conf.broker_conf import NAMES, broker_text
from ....store.conf.java_properties import MalformedEscapeError, escaped_value, parse_properties
from ....store.disk.disk import RealDisk
from ....store.segments.log_files import LogFolders
from ...brokers.off_loop import OffLoop
from ...metrics.traffic import Traffic
from ..answers.request import Answer, CommandRefused, Request
from ..answers.topics import CLUSTER
from ..wire import fastjson
from ..wire.codes import VERSION, ResponseCode

VERSION_NAME = "V5_3_3"
MAX_SHOWN = 80
GIB = 1 << 30
RESTART = "start the server again with it"
POOLS = ("send", "pull", "query", "litePull", "ack")
"""A broker's thread pools. No request waits in a queue here."""


class BrokerAdmin:
    """In one event loop. Only what the store knows: tools show the rest as missing."""

    def __init__(self, store: Store, off_loop: OffLoop, traffic: Traffic) -> None:
        self._store, self._off_loop, self._traffic = store, off_loop, traffic
        self._started_ms = store.message_store.clock.now_ms()

    async def runtime_info(self, request: Request) -> Answer:
        return await self._off_loop.run(self._runtime_info)

    async def config(self, request: Request) -> Answer:
        """What a broker's `broker.conf` would say of this store."""
        version = {"counter": 0, "stateVersion": 0, "timestamp": self._started_ms}
        lines = "".join(f"{name}={escaped_value(value)}\n" for name, value in self._settings(request).items())
        return Answer({"version": fastjson.encode(version).decode()}, lines.encode())

    async def update_config(self, request: Request) -> Answer:
        """A store has the settings that it was opened with: what changes nothing is taken, anything else refused."""
        try:
            wanted = parse_properties(request.command.body)
        except MalformedEscapeError as e:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"the body is no properties: {e}") from e
        known = self._settings(request)
        for each in wanted:
            name, value = each.key[:MAX_SHOWN], each.value.strip()[:MAX_SHOWN]
            if each.key not in known:
                raise CommandRefused(ResponseCode.NO_PERMISSION, f"{name} is no setting of flightlog")
            if each.value.strip().lower() != known[each.key].lower():
                text = f"{name} is {known[each.key]} and cannot become {value!r} while the store is open: {RESTART}"
                raise CommandRefused(ResponseCode.NO_PERMISSION, text)
        return Answer()

    def _settings(self, request: Request) -> dict[str, str]:
        settings = self._store.settings
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
        return found

    def _runtime_info(self) -> Answer:
        found = self._store.statistics()
        first = self._store.message_at(found.sizes.min_physical_offset) if found.sizes.messages else None
        table: dict[str, object] = {
            "bootTimestamp": self._started_ms,
            "brokerActive": "true",
            "brokerVersion": VERSION,
            "brokerVersionDesc": VERSION_NAME,
            "commitLogMaxOffset": found.sizes.end_physical_offset,
            "commitLogMinOffset": found.sizes.min_physical_offset,
            "dispatchBehindBytes": found.lag.dispatch_size or 0,
            "earliestMessageTimeStamp": -1 if first is None else first.store_timestamp_ms,
        }
        table |= self._since_start() | self._disk()
        table["remainHowManyDataToFlush"] = f"{found.lag.flush_size or 0} B"
        for pool in POOLS:
            table |= {f"{pool}ThreadPoolQueueSize": 0, f"{pool}ThreadPoolQueueHeadWaitTimeMills": 0}
        if found.timers is not None:
            table |= {"timerOffsetBehind": found.timers.untaken, "timerReadBehind": found.timers.lag_ms // 1000}
        if found.puts is not None:  # RocketMQ gives the averages of 10 s, 1 min and 10 min; here all are of 10 s
            table["putTps"] = " ".join([f"{found.puts.messages_per_s:.2f}"] * 3)
        return Answer.of({"table": {name: str(value) for name, value in table.items()}})

    def _since_start(self) -> dict[str, object]:
        """What clients have sent since the server started, and for how long it has run."""
        sent = self._traffic.sent().values()
        count, size = sum(each for each, _ in sent), sum(each for _, each in sent)
        minutes, seconds = divmod((self._store.message_store.clock.now_ms() - self._started_ms) // 1000, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return {
            "putMessageTimesTotal": count,
            "putMessageSizeTotal": size,
            "putMessageAverageSize": size / max(count, 1),
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
        }

    def _disk(self) -> dict[str, object]:
        """As retention sees it: of what this user may use, and of several folders the one with most room."""
        disk, root = RealDisk(), self._store.path
        folders = [each for each in LogFolders.of(root, self._store.settings).all if disk.exists(each)]
        log = min((disk.space(each) for each in folders or [root]), key=lambda space: space.used_ratio)
        return {
            "commitLogDirCapacity": f"Total : {(log.used + log.available) / GIB:.1f} GiB, "
            f"Free : {log.available / GIB:.1f} GiB.",
            "commitLogDiskRatio": f"{log.used_ratio / 100:.2f}",
            "consumeQueueDiskRatio": f"{disk.space(root).used_ratio / 100:.2f}",
        }
