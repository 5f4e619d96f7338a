"""Views beside a writer that is just opening the store, looked at before its changes: what was shown once does
not vanish while another program recovers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import StoreSettings
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Numbered

CHANGES = ("create", "write", "resize", "sync", "sync_folder", "sync_all", "rename", "remove", "make_folder")


def open_step_by_step(path: Path, look: Callable[[int], None]) -> int:
    """Opens the store for writing and closes it; `look(n)` is called before change n. Returns how many there were."""
    changes = 0

    class Stopping(FaultyDisk):
        def meet(self, operation: str, path: Path) -> None:
            nonlocal changes
            super().meet(operation, path)
            if operation in CHANGES:
                if changes % 4 == 0 or "consumequeue" not in path.parts:  # of the many in queues not all
                    look(changes)
                changes += 1

    with flightlog.open(path, StoreSettings(accept_future_store_time=True), disk=Stopping()):
        pass
    return changes


def tear(root: Path, end: int) -> None:
    """The last record before physical `end` has lost its end."""
    base = (end - 1) // 4096 * 4096
    with (root / "commitlog" / f"{base:020d}").open("r+b") as file:
        file.seek(end - base - 10)
        file.write(bytes(10))


@pytest.mark.parametrize("how", ["closed", "killed", "rebooted", "torn", "without queues"])
def test_what_a_view_shows_stays_while_a_writer_recovers(
    how: str, request: pytest.FixtureRequest, numbered: Numbered, assert_clean: AssertClean
) -> None:
    root: Path = request.getfixturevalue("closed" if how == "closed" else "killed")
    if how == "torn":
        with flightlog.open_read_only(root) as view:
            tear(root, view.end_physical_offset)
    if how in ("rebooted", "torn"):
        numbered.reboot(root)
    if how == "without queues":
        shutil.rmtree(root / "consumequeue" / "t1")
    with flightlog.open_read_only(root) as view:
        shown = numbered.read(view)

        def look(change: int) -> None:
            view.refresh()
            with flightlog.open_read_only(root) as another:
                for now in (view, another):
                    assert numbered.read(now) == shown, f"before change {change}"

        assert shown == numbered.listed(199 if how == "torn" else 200)
        assert open_step_by_step(root, look) > 10
    assert_clean(root)


def test_what_a_view_shows_of_rocketmq_s_lagging_queues_stays_while_they_are_brought_up(
    golden_copy: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    """The one who holds the lock now may be a RocketMQ at work, as far as a view can tell: a new view shows less."""
    root = golden_copy("abort-cqlag") / "store"
    less = []
    with flightlog.open_read_only(root) as view:
        shown = view.queues()

        def look(change: int) -> None:
            if change % 100 == 0:
                view.refresh()
                assert view.queues() == shown, f"before change {change}"
                with flightlog.open_read_only(root) as another:
                    less.append(another.queues() != shown)

        assert view.shutdown_state.last_writer is LastWriter.ROCKETMQ_KILLED
        assert open_step_by_step(root, look) > 200
        assert less[0] and not less[-1]
    assert_clean(root)
