"""Whether a failed sync is behind an error."""

from __future__ import annotations

from ..errors import DiskError, SyncFailedError


def failed_sync_behind(error: BaseException, outer: BaseException | None) -> BaseException | None:
    """The failed sync that raised `error`, or that an interrupt came upon and so stands in its context; else None.

    `outer` is what the caller of the store was handling anyway.
    """
    failure: BaseException | None = error
    while failure is not None and failure is not outer:
        if isinstance(failure, DiskError):
            return failure if isinstance(failure, SyncFailedError) else None
        if isinstance(failure, OSError):  # on its way to become a SyncFailedError
            return failure
        failure = failure.__context__
    return None
