"""Every single operation on the disk may fail: whichever does, the error has a name, and what was acknowledged is
there.

A short life of a store is repeated with a failure at its first operation, its second, … until nothing fails any more;
once with failures that pass, once with a disk that stays broken.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlightlogError, FlushMode, Message, StoreSettings
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import preparing

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean

SETTINGS = {
    mode: StoreSettings(
        segment_size=8192,
        queue_file_entries=10,
        allocate_step_size=4096,
        prepare_ahead_size=4096 if mode is FlushMode.SYNC else 0,
        flush_mode=mode,
        flush_interval_ms=60_000,  # the closer flushes: one order of operations, whatever the machine does
    )
    for mode in FlushMode
}


PrepareInline = Callable[[flightlog.Store], None]


def tolerate(errors: list[FlightlogError], do: Callable[[], object]) -> None:
    """A call may fail, but only by an error of ours that says something."""
    try:
        do()
    except FlightlogError as e:
        assert len(str(e)) > 40 and "/" in str(e)
        errors.append(e)


def live(
    path: Path, mode: FlushMode, disk: FaultyDisk, known: Acknowledged, prepare_inline: PrepareInline
) -> list[FlightlogError]:
    """Open, put, roll, read and close; returns what failed."""
    errors: list[FlightlogError] = []
    stores: list[flightlog.Store] = []
    tolerate(errors, lambda: stores.append(flightlog.open(path, SETTINGS[mode], disk=disk)))
    for store in stores:
        if store.settings.prepare_ahead_size:
            prepare_inline(store)
        for i in range(4):
            messages = (known.message(size=700), known.message("others", size=900), known.message(size=10))
            tolerate(errors, lambda messages=messages: known.put(store, *messages))  # type: ignore[misc]
            tolerate(errors, lambda i=i: store.get("orders", 0, i))  # type: ignore[misc]
        tolerate(errors, lambda: list(store.read("orders", on_corrupt="raise")))
        tolerate(errors, store.close)
        store.close()
        assert store.is_closed
    return errors


@pytest.mark.ci
@pytest.mark.parametrize("passes", [True, False], ids=["once", "for good"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.ENOENT], ids=["EIO", "ENOSPC", "ENOENT"])
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("file_system", ["", "btrfs"])
@pytest.mark.filterwarnings("ignore::flightlog.store.errors.FileSystemWarning")
def test_any_operation_may_fail(
    file_system: str,
    mode: FlushMode,
    error: int,
    passes: bool,
    tmp_path: Path,
    scale: Scale,
    new_disk: Callable[[], FaultyDisk],
    new_acknowledged: type[Acknowledged],
    assert_clean: AssertClean,
) -> None:
    prepare_inline: PrepareInline = preparing.prepare_inline
    step = scale.pick(ci=37, full=1)
    first, failed, nth = sum(map(ord, f"{mode}{error}{passes}")) % step, 0, 0
    nth = first
    while True:
        path = tmp_path / f"store-{nth}"
        known = new_acknowledged()
        healthy, disk = new_disk(), new_disk()
        healthy.unpromising = disk.unpromising = file_system
        live(path, mode, healthy, known, prepare_inline)  # before, so that there is something to recover
        fault = disk.fail("*", f"{path.name}", error, skip=nth, times=1 if passes else None)
        errors = live(path, mode, disk, known, prepare_inline)
        if not fault.hits:
            break
        failed += bool(errors)
        disk.heal()
        with flightlog.open_read_only(path) as view:
            assert known.check(view) >= len(known.bodies)
        with flightlog.open(path) as store:
            known.check(store)
            store.put(known.message())
            assert store.verify().is_clean, nth
        assert_clean(path)
        nth += step
    print(f"{mode.name}, {os.strerror(error)}: {nth} operations, {failed} of {nth // step} lives met an error")
    assert nth > 100 and failed > nth // step // 4  # some failures are made good before anybody hears of them


def test_a_message_that_could_not_be_read_back_is_still_counted(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    """A disk that cannot read a queue fails the read by name; the store itself takes no harm."""
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(), disk=disk) as store:
        acknowledged.put(store, acknowledged.message(), acknowledged.message())
        assert acknowledged.check(store) == 2
        disk.fail("read", "consumequeue/", errno.EIO)
        with pytest.raises(FlightlogError, match="consumequeue.*Input/output error"):
            list(store.read("orders"))
        disk.heal()
        assert acknowledged.check(store) == 2
        result = store.put(Message("others", b"1"))
        assert result.queue_offset == 0
    assert assert_clean(path).records == 3
