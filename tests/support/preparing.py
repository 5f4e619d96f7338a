"""What a store's own thread prepares, prepared by the appends themselves: one order of operations in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog import Store


def prepare_inline(store: Store) -> None:
    """From now on, at once and in the same thread, whenever an append would wake the other one."""
    inside.prepare_service(store).stop()
    inside.log(store).preparation.wake = inside.log(store).prepare
