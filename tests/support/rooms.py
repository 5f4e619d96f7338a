"""Machine rooms for `MachineRoomNearby`."""

from __future__ import annotations

from flightlog.store.message_queue import MessageQueue


class ByName:
    """A room is what a name says before its first dash."""

    def room_of_queue(self, queue: MessageQueue) -> str:
        return queue.broker_name.split("-")[0]

    def room_of_member(self, member: str) -> str:
        return member.split("-")[0]
