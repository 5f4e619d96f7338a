"""An image that a cut has left of a store with messages for later: recovered, and run until all is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flightlog
from flightlog.testing import ManualClock
from flightlog.tests.support import inside, waiting_account, waiting_histories
from flightlog.tests.support.account import Found, Mark
from flightlog.tests.support.memory_disk import MemoryDisk
from flightlog.tests.support.reopening import Reopening

if TYPE_CHECKING:
    import random

LEAP_MS = 8000
ROUNDS_MAX = 2000


class WaitingReopening(Reopening):
    """Goes on with every store that it has recovered."""

    going_on = 1.0

    def _clock(self, mark: Mark) -> Any:
        assert isinstance(mark, waiting_account.WaitingMark)
        return ManualClock(mark.clock_ms)

    def _go_on(self, store: flightlog.Store, disk: MemoryDisk, found: Found, mark: Mark, dice: random.Random) -> None:
        assert isinstance(mark, waiting_account.WaitingMark) and isinstance(found, waiting_account.WaitingFound)
        clock: Any = inside.clock(store)
        begin, settled = store.recovery_report.end, {each.number for each in found.delivered}
        seen = len(found.delivered)
        for _ in range(ROUNDS_MAX):
            wait_s = waiting_histories.deliver(store)
            after = self._read(store, mark)
            early = [each for each in after.delivered[seen:] if each.due_ms > clock.at_ms]
            assert not early, f"at {clock.at_ms} comes {early}"
            seen = len(after.delivered)
            if wait_s is None:
                break
            clock.advance(max(int(wait_s * 1000), 1, dice.choice((0, LEAP_MS))))
        else:
            raise AssertionError(f"not all is delivered after {ROUNDS_MAX} rounds: {store.statistics()}")
        new = [each for each in after.delivered if each.physical_offset >= begin]
        waiting_account.check_session(after, new, mark.settled)
        waiting_account.check_end(mark.cancellations[: mark.cancelled_count], after)
        store.close()
        assert settled <= {each.number for each in after.delivered}
        with flightlog.open_read_only(self._history.root, disk=disk) as view:
            there = self._read(view, mark)
            assert there.delivered == after.delivered
            report = view.verify()
            assert report.is_clean, f"verify after a close: {[*map(str, report.findings)][:3]}"

    def _read(self, store: Any, mark: Mark) -> Any:
        minimum = (
            store.min_physical_offset if hasattr(store, "min_physical_offset") else inside.log(store).reader.min_offset
        )
        return waiting_account.read_all(store, mark.offered, minimum)
