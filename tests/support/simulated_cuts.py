"""Campaigns of simulated power cuts: histories of stores, each run once and cut at every sync and many other moments.

    campaign = simulated_cuts.Campaign(folder, seed=0)      # an empty folder of the real disk, for a lock file
    campaign.run(500)                                     # 500 cuts; raises CutError at the first one that goes wrong
    print(campaign.summary())

A seed has any number of histories (0, 1, 2, …), and `run` takes one after the other, so mutants of the store are found
by patching it, and running a few hundred cuts in this process: some 15 ms each. Each reopened image counts as one cut:
it is read by a view, recovered, read again, asked by keys and verified, and some go on to take messages and close. Of
some the power is cut a second time while they are recovered.

A CutError says which cut of which history it was, and the fewest losses that still make it go wrong. As a program:

    simulated_cuts.py FOLDER [--seed 0] [--cuts 500] [--part 0/1] [--kernel c] [--repeat HISTORY:CUT] [--waiting]
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from flightlog.store import native
from flightlog.tests.support import cutting
from flightlog.tests.support.account import Mark
from flightlog.tests.support.cutting import Losses
from flightlog.tests.support.histories import History
from flightlog.tests.support.recording import Moment
from flightlog.tests.support.reopening import Reopening
from flightlog.tests.support.waiting_histories import WaitingHistory
from flightlog.tests.support.waiting_reopening import WaitingReopening

OTHERS_A_SYNC = 0.3
"""How many other moments are cut for every sync."""
SECOND_CUTS = 2
SECOND_CUT_CHANCE, KILL_CHANCE = 0.1, 0.03
DRAWS = 3
"""How often a cut is drawn anew if its image is known already."""
SHRINK_LOOKS_MAX = 150
SHOWN_STEPS = 12


class CutError(AssertionError):
    """A store that did not keep its word after a cut, or could not be opened."""


class Cut(NamedTuple):
    """One image of a history."""

    number: int
    moment: Moment[Mark]
    losses: Losses
    was_cut: bool
    """Else the process was killed, and nothing is lost."""

    @property
    def is_new_boot(self) -> bool:
        """Whether the machine was off; else the disk alone was away, and was mounted again by the same kernel."""
        return self.was_cut and random.Random(f"boot {self.number} {self.moment.number}").random() < 0.5

    def tree(self) -> dict[str, bytes | None]:
        tree: dict[str, bytes | None] = cutting.tree_after(self.moment, self.losses)
        if self.is_new_boot:
            cutting.boot_anew(tree)
        return tree


class Campaign:
    """The histories `first`, `first + step`, … of one seed, as many as it takes."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        first: int = 0,
        step: int = 1,
        say: Callable[[str], None] = lambda text: None,
        waiting: bool = False,
    ) -> None:
        """`say` is told how far it is after every history. `waiting`: lives of messages for later, not of all that a
        store does (waiting_histories.py)."""
        self._root, self._seed, self._next, self._step = folder / "store", seed, first, step
        self._say = say
        self._history_class = WaitingHistory if waiting else History
        self._reopening_class = WaitingReopening if waiting else Reopening
        self._root.mkdir(parents=True, exist_ok=True)
        self.histories = self.cuts = self.second_cuts = self.kills = self.syncs = self.fast_path_puts = 0
        self.same_boots = 0
        """Cuts that left the machine on."""
        self.sites: Counter[str] = Counter()
        """Kind of file and operation that was about to be done -> cuts."""

    def run(self, cuts: int) -> None:
        """As many histories as it takes for so many cuts more. Raises CutError."""
        wanted = self.cuts + cuts
        with _quiet():
            while self.cuts < wanted:
                index, self._next = self._next, self._next + self._step
                history = self._live(index)
                self.histories += 1
                self.fast_path_puts += history.fast_path_puts
                self.syncs += sum(moment.is_sync for moment in history.recorder.moments)
                for cut in self._cuts(history):
                    self._look(history, index, cut)
                    if self.cuts >= wanted:
                        break
                self._say(f"history {index}: {self.cuts} cuts so far")

    def repeat(self, index: int, number: int) -> None:
        """One cut of one history again."""
        with _quiet():
            history = self._live(index)
            for cut in self._cuts(history):
                if cut.number == number:
                    self._look(history, index, cut)

    def summary(self) -> str:
        sites = ", ".join(f"{site} {count}" for site, count in sorted(self.sites.items()))
        return (
            f"seed {self._seed}: {self.cuts} cuts ({self.second_cuts} of them in a recovery, {self.same_boots} "
            f"without a new boot), {self.kills} kills, "
            f"{self.histories} histories with {self.fast_path_puts} puts by the fast path "
            f"and {self.syncs} syncs; {sites}"
        )

    def _live(self, index: int) -> History:
        history: History = self._history_class(f"{self._seed}/{index}", self._root)
        try:
            history.run()
        except Exception as e:
            told = "\n".join(history.told[-SHOWN_STEPS:])
            raise CutError(f"history {index} of seed {self._seed}: {type(e).__name__}: {e}\n{told}") from e
        return history

    def _cuts(self, history: History) -> Iterator[Cut]:
        """Every sync and some of the other moments, in any order; no image twice."""
        dice = random.Random(f"cuts {history.seed}")
        moments = history.recorder.moments
        syncs = [moment for moment in moments if moment.is_sync]
        others = [moment for moment in moments if not moment.is_sync]
        chosen = syncs + dice.sample(others, min(int(len(syncs) * OTHERS_A_SYNC), len(others)))
        dice.shuffle(chosen)
        known: set[int] = set()
        for number, moment in enumerate(chosen):
            for _ in range(DRAWS):
                was_cut = dice.random() >= KILL_CHANCE
                losses = cutting.choose(moment, dice) if was_cut else ()
                cut = Cut(number, moment, losses, was_cut)
                image = hash((frozenset(cut.tree().items()), moment.mark.sure_count, id(moment.mark.acknowledged)))
                if image not in known:
                    known.add(image)
                    yield cut
                    break

    def _look(self, history: History, index: int, cut: Cut) -> None:
        dice = random.Random(f"look {history.seed} {cut.number}")
        cuts_again = cut.was_cut and dice.random() < SECOND_CUT_CHANCE
        moments = self._reopen(history, index, cut, records=cuts_again)
        self._count(cut)
        for moment in dice.sample(moments, min(SECOND_CUTS, len(moments))):
            again = Cut(cut.number, moment, cutting.choose(moment, dice), True)
            self._reopen(history, index, again, first=cut)
            self._count(again)
            self.second_cuts += 1

    def _reopen(
        self, history: History, index: int, cut: Cut, *, records: bool = False, first: Cut | None = None
    ) -> list[Moment[Mark]]:
        reopening: Reopening = self._reopening_class(history)

        def look(losses: Losses) -> list[Moment[Mark]]:
            dice = random.Random(f"reopening {history.seed} {cut.number}")
            tree = cut._replace(losses=losses).tree()
            return reopening.look(tree, cut.moment.mark, dice, was_cut=cut.was_cut, records=records)

        try:
            return look(cut.losses)
        except Exception as e:
            fewer = shrink(cut.losses, lambda losses: _fails(look, losses))
            raise CutError(self._tell(index, cut._replace(losses=fewer), first, e)) from e

    def _count(self, cut: Cut) -> None:
        if not cut.was_cut:
            self.kills += 1
            return
        self.cuts += 1
        self.same_boots += not cut.is_new_boot
        self.sites[site_of(cut.moment.operation, cut.moment.path)] += 1

    def _tell(self, index: int, cut: Cut, first: Cut | None, e: Exception) -> str:
        lines = [f"seed {self._seed}, --repeat {index}:{cut.number}: {type(e).__name__}: {e}"]
        for one in (first, cut) if first is not None else (cut,):
            end = (
                ("the power is cut" if one.is_new_boot else "the disk is lost")
                if one.was_cut
                else "the process is killed"
            )
            where = "" if one is not cut or first is None else " of the recovery"
            lines.append(
                f"{end} before moment {one.moment.number}{where}, {one.moment.operation} {one.moment.path}; lost:"
            )
            lines += [f"  {line}" for line in cutting.tell(one.moment, one.losses)]
        return "\n".join(lines)


def shrink(losses: Losses, fails: Callable[[Losses], bool]) -> Losses:
    """Fewer losses that still fail: pieces are given back, halves first."""
    size, looks = max(1, len(losses) // 2), 0
    while losses and looks < SHRINK_LOOKS_MAX:
        for start in range(0, len(losses), size):
            fewer = losses[:start] + losses[start + size :]
            looks += 1
            if fails(fewer):
                losses = fewer
                break
        else:
            if size == 1:
                break
            size //= 2
        size = max(1, min(size, len(losses)))
    return losses


def _fails(look: Callable[[Losses], object], losses: Losses) -> bool:
    try:
        look(losses)
    except Exception:
        return True
    return False


def site_of(operation: str, path: str) -> str:
    """What kind of file, and what was about to be done to it."""
    if operation in ("acknowledged", "opened", "closed"):
        return operation
    top, _, rest = path.partition("/")
    kinds = {"commitlog": "log", "consumequeue": "queue", "batchconsumequeue": "batch queue"}
    kind = kinds.get(top, rest.partition("/")[0].partition(".")[0] if top == "flightlog" and rest else top)
    return f"{kind or 'store'} {operation}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Recoveries by the thousand have nothing to say."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--kernel", choices=native.available(), default=native.NAME)
    parser.add_argument("--repeat", metavar="HISTORY:CUT")
    parser.add_argument("--waiting", action="store_true", help="lives of messages for later")
    given = parser.parse_args()
    native.use(given.kernel)
    first, step = map(int, given.part.split("/"))
    campaign = Campaign(
        *(given.folder, given.seed),
        first=first,
        step=step,
        waiting=given.waiting,
        say=lambda text: print(text, flush=True),
    )
    began_s = time.process_time()
    try:
        if given.repeat:
            campaign.repeat(*map(int, given.repeat.split(":")))
        else:
            campaign.run(given.cuts)
    except CutError as e:
        traceback.print_exception(e.__cause__, file=sys.stdout)
        print(e)
        return 1
    finally:
        print(f"{campaign.summary()}; {given.kernel}, {time.process_time() - began_s:.0f} s of CPU", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
