"""`put` of a store; see `OrdinaryPut` in native/__init__.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..fast_path_protocol import FastPathProtocol


class OrdinaryPut:
    """What a store that takes messages is made from."""

    _put_fast_path: FastPathProtocol[Any, Any] | None = None
    """The fast path of ordinary puts; None: there is none."""

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
        fast_path = self._put_fast_path
        return (fast_path is not None and fast_path.put(message)) or self._put_slow(message)

    def _put_slow(self, message: Any) -> Any:
        raise NotImplementedError
