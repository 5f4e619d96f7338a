"""Two brokers that share one name: a master with a store's folder, and another one that begins with nothing, under a
controller, which makes the other one the master when the first dies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flightlog import StoreSettings, handover
from flightlog.tests.cluster.processes import Cluster, RocketmqProcess, free_port, with_lines
from flightlog.tests.cluster.states import group_offset, is_routed, max_offset, port_of, replicas, wait_until

CONTROLLED = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "controllerHeartBeatTimeoutMills": 3000,
    "brokerId": -1,
}
"""A send is acknowledged once all replicas in sync have it, so no acknowledged message dies with the master."""


@dataclass
class Pair:
    """`cluster` has a name server with a controller. The topic has `queues` queues and `count` messages."""

    cluster: Cluster
    folders: tuple[Path, Path]
    topic: str
    queues: int
    count: int
    ports: tuple[int, int]

    def start_master(self, settings: StoreSettings) -> RocketmqProcess:
        self._plain = handover.broker_conf(
            self.folders[0], settings, address="127.0.0.1", name_server=self.cluster.name_server
        )
        return self._start(0)

    def start_other(self) -> RocketmqProcess:
        """Returns when it has everything, the controller counts it, and clients find the topic."""
        other = self._start(1)
        wait_until("the second broker has everything", self._is_copied)
        wait_until(
            "both are in sync", lambda: len(replicas(self.cluster.controller)["inSyncReplicas"]) == len(self.ports)
        )
        wait_until("the topic is routed", lambda: is_routed(self.cluster.name_server, self.topic))
        return other

    def wait_for_new_master(self) -> None:
        """The controller has named the other broker, and clients are sent to it."""
        controller, port = self.cluster.controller, self.ports[1]
        wait_until(
            "the other broker is the master", lambda: port_of(replicas(controller)["masterAddress"] or ":0") == port
        )
        wait_until("the topic is routed", lambda: is_routed(self.cluster.name_server, self.topic))

    def group_offsets(self, place: int, group: str) -> list[int | None]:
        return [group_offset(self.ports[place], group, self.topic, queue_id) for queue_id in range(self.queues)]

    def wait_for_offsets(self, group: str) -> None:
        """The other broker asks for them every ten seconds."""
        wait_until(
            "both brokers have the group's offsets",
            lambda: self.group_offsets(0, group) == self.group_offsets(1, group),
        )

    def _is_copied(self) -> bool:
        ends = [[max_offset(port, self.topic, queue_id) for queue_id in range(self.queues)] for port in self.ports]
        return ends[0] == ends[1] and sum(ends[0]) >= self.count

    def _start(self, place: int) -> RocketmqProcess:
        root = self.folders[place]
        own = {
            "controllerAddr": self.cluster.controller,
            "listenPort": self.ports[place],
            "storePathRootDir": root,
            "storePathCommitLog": root / "commitlog",
        }
        return self.cluster.start_broker(f"broker-{place + 1}", with_lines(self._plain, {**CONTROLLED, **own}))


def pair_of(cluster: Cluster, path: Path, second: Path, topic: str, queues: int, count: int) -> Pair:
    return Pair(cluster, (path, second), topic, queues, count, (free_port(), free_port()))
