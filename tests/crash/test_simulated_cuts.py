"""The power fails, on a disk in memory: at every sync of many lives of stores, and at many other moments.

Each life is run once and recorded; every cut leaves another part of what was not synced, and each image that is opened
again counts as one (tests/support/simulated_cuts.py). What was acknowledged as durable is there, once, in order, whole;
nothing else is there; queues have no holes; keys answer; the store verifies itself. The parts of a seed have different
lives, so they can run beside each other.

Lives of messages for later are cut besides, and what is left of each is run until all is delivered: nothing is lost,
nothing early, and twice only what docs/delays.md names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flightlog import Message
from flightlog.engine import read_only
from flightlog.engine.delay.delay_levels import DelayLevels
from flightlog.engine.open import shutdown_state
from flightlog.schedule.timer_log import TimerLog
from flightlog.schedule.timer_wheel_store import TimerWheelStore
from flightlog.store import native
from flightlog.store.log.commit_log import CommitLog
from flightlog.store.segments.segment import AppendSegment
from flightlog.store.state.progress import FLUSHED, ProgressPage
from flightlog.tests.support import waiting_account
from flightlog.tests.support.account import Place
from flightlog.tests.support.simulated_cuts import Campaign, CutError
from flightlog.tests.support.waiting_account import Cancellation, WaitingAccount, WaitingFound
from flightlog.tools import inspecting

if TYPE_CHECKING:
    from flightlog import ReadOnlyStore
    from flightlog.tests.conftest import Scale

PROGRAM = Path(__file__).parents[1] / "support" / "simulated_cuts.py"
SEED = int(os.environ["FLIGHTLOG_SEED"])
CUTS_CI, CUTS_FULL = 2_000, 100_000
WAITING_CUTS_CI, WAITING_CUTS_FULL = 400, 20_000
PARTS = 2
KINDS_MIN = 40
MUTANT_CUTS = 3_000
QUICK_SEEDS = {"notes_what_levels_delivered_before_it_is_durable": 2}
"""What is added to the seed: few lives show this mutant, and one of the first of this seed does."""

Spoil = Callable[[pytest.MonkeyPatch], None]


def run(folder: Path, part: int, parts: int, cuts: int, kernel: str, *more: str) -> re.Match[str]:
    """In a process of its own, where a seed is one life: sets of texts have one order there. What it has counted."""
    kernel = kernel if kernel in native.available() else "pure"
    command = [sys.executable, "-P", str(PROGRAM), str(folder), "--seed", str(SEED), "--part", f"{part}/{parts}"]
    done = subprocess.run(
        [*command, "--cuts", str(cuts // parts), "--kernel", kernel, *more],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"(\d+) cuts .* with (\d+) puts by the fast path .* syncs; (.*)\n", done.stdout)
    assert counted is not None and int(counted[1]) >= cuts // parts
    return counted


@pytest.mark.ci
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_simulated_cuts(part: int, tmp_path: Path, scale: Scale) -> None:
    cuts = scale.pick(ci=CUTS_CI, full=CUTS_FULL)
    counted = run(tmp_path, part, PARTS, cuts, "pure" if part else "c")
    assert int(counted[2]) > 0 and len(counted[3].split(", ")) > KINDS_MIN


@pytest.mark.ci
@pytest.mark.timeout(3600)
def test_simulated_cuts_of_messages_for_later(tmp_path: Path, scale: Scale) -> None:
    cuts = scale.pick(ci=WAITING_CUTS_CI, full=WAITING_CUTS_FULL)
    runs = [run(tmp_path / kernel, part, 2, cuts, kernel, "--waiting") for part, kernel in enumerate(("c", "pure"))]
    sites = ", ".join(counted[3] for counted in runs)  # of both: a hundred cuts of one life may not meet each kind
    assert all(f"{kind} sync" in sites for kind in ("config", "timerlog", "timerwheel"))


def test_a_cancellation_that_a_cut_took_need_not_be_there_when_its_recovery_is_killed() -> None:
    """Seed 4712 took it for lost: a kill loses nothing, but the life's power had been cut before."""
    account = WaitingAccount()
    account.offered.append(Message("t", b"0 "))
    account.cancellations.append(Cancellation(1, 500, False))
    with pytest.raises(AssertionError, match="is lost, and the log goes on"):
        waiting_account.check(account.mark(), WaitingFound(0), was_cut=False)
    account.go_back(account.mark())
    waiting_account.check(account.mark(), WaitingFound(0), was_cut=False)
    behind = WaitingFound(0, {0: Place(0, ("t", 0), 0, 600)})
    with pytest.raises(AssertionError, match="is lost, and the log goes on"):
        waiting_account.check(account.mark(), behind, was_cut=False)
    account.settle(WaitingFound(0, cancelled={1}))
    with pytest.raises(AssertionError, match="is lost, and the log goes on"):
        waiting_account.check(account.mark(), WaitingFound(0), was_cut=False)


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AppendSegment, "sync", lambda segment, *part: None)


def takes_physical_offsets_for_positions(patch: pytest.MonkeyPatch) -> None:
    real = AppendSegment.sync

    def spoilt(self: AppendSegment, start: int = 0, stop: int | None = None) -> None:
        real(self, start + self.base, None if stop is None else stop + self.base)

    patch.setattr(AppendSegment, "sync", spoilt)


def notes_the_log_as_flushed_before_it_is(patch: pytest.MonkeyPatch) -> None:
    real = ProgressPage.publish

    def spoilt(self: ProgressPage, word: int, value: int) -> None:
        real(self, word, value + 300 if word == FLUSHED else value)

    patch.setattr(ProgressPage, "publish", spoilt)


def takes_the_progress_page_of_this_boot_for_exact(patch: pytest.MonkeyPatch) -> None:
    real = shutdown_state.read_shutdown_state

    def spoilt(*arguments: Any, **how: Any) -> shutdown_state.ShutdownState:
        found = real(*arguments, **how)
        is_killed = found.last_writer is shutdown_state.LastWriter.FLIGHTLOG_KILLED
        is_exact = is_killed and found.progress is not None and found.progress.is_of_this_boot
        return replace(found, is_served=is_exact)

    patch.setattr(read_only, "read_shutdown_state", spoilt)


def has_an_info_that_takes_that_page_for_exact(patch: pytest.MonkeyPatch) -> None:
    real = read_only.open_read_only

    def spoilt(*arguments: Any, **how: Any) -> ReadOnlyStore:
        with pytest.MonkeyPatch.context() as meanwhile:
            takes_the_progress_page_of_this_boot_for_exact(meanwhile)
            return real(*arguments, **how)

    patch.setattr(inspecting, "open_read_only", spoilt)


def notes_what_levels_delivered_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    real = DelayLevels.save

    def spoilt(self: DelayLevels) -> None:
        with pytest.MonkeyPatch.context() as hasty:
            hasty.setattr(CommitLog, "flush", lambda log, *bounds: True)
            real(self)

    patch.setattr(DelayLevels, "save", spoilt)


def takes_timers_for_due_when_their_second_begins(patch: pytest.MonkeyPatch) -> None:
    def spoilt(self: TimerWheelStore, now_ms: int) -> bool:
        return self._next_second is not None and self._next_second * 1000 <= now_ms

    patch.setattr(TimerWheelStore, "_is_due", spoilt)


def notes_timers_before_their_log_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimerLog, "sync", TimerLog.write)


OF_MESSAGES_FOR_LATER = (
    notes_what_levels_delivered_before_it_is_durable,
    takes_timers_for_due_when_their_second_begins,
    notes_timers_before_their_log_is_durable,
)
MUTANTS = (
    acknowledges_before_the_sync,
    takes_physical_offsets_for_positions,
    notes_the_log_as_flushed_before_it_is,
    takes_the_progress_page_of_this_boot_for_exact,
    has_an_info_that_takes_that_page_for_exact,
    *OF_MESSAGES_FOR_LATER,
)


@pytest.mark.ci
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_campaign_finds_out_a_store_that(mutant: Spoil, tmp_path: Path) -> None:
    waiting = mutant in OF_MESSAGES_FOR_LATER
    seed = SEED + QUICK_SEEDS.get(mutant.__name__, 0)
    campaign = Campaign(tmp_path, seed, waiting=waiting)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(CutError) as raised:
        mutant(patch)
        campaign.run(MUTANT_CUTS)
    print(f"after {campaign.cuts} cuts: {raised.value}")
    Campaign(tmp_path, seed, waiting=waiting).run(max(campaign.cuts, 1))
