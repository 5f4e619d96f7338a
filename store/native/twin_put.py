"""`put` of a store in Python; see `OrdinaryPut` in native/__init__.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lane_protocol import LaneProtocol


class OrdinaryPut:
    """What a store that takes messages is made from."""

    _put_lane: LaneProtocol[Any, Any] | None = None
    """The lane of ordinary puts; None: there is none."""

    def put(self, message: Any) -> Any:
        """Append one message, to a topic that is made if need be (see the setting `auto_create_topics`).

        Under async flush it is in the page cache when this returns: it survives this process. Under sync flush it is on
        the disk, or the status is FLUSH_DISK_TIMEOUT: stored, not yet known to be durable; never put it again. One that
        does not wait (`wait_store_ok=False`) is put as under async flush, except that its sync follows at once and that
        it cannot be read before.

        Raises InvalidMessageError (nothing stored; also a TopicNotFoundError, QueueNotFoundError or
        TopicPermissionError), DiskFullError (nothing stored), SyncFailedError and
        StorePoisonedError (stored at most in memory, not acknowledged), StoreClosedError, ForkedStoreError.
        """
        lane = self._put_lane
        return (lane is not None and lane.put(message)) or self._put_the_long_way(message)

    def _put_the_long_way(self, message: Any) -> Any:
        raise NotImplementedError
