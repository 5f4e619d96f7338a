"""The crash order of the key index: a death or a power cut at every single operation on the disk.

A short life with puts, rolls, flushes and a close is lived again and again, and ends one operation later each time;
sometimes the opening that mends it dies too. What was acknowledged is found by its keys, and no key is there twice.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside, keyed

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A store that died is worth a warning elsewhere."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Life:
    """One store on one disk that dies."""

    def __init__(self, root: Path, mode: FlushMode, seed: int) -> None:
        self.disk: PowerDisk = PowerDisk(root)
        self.dice = random.Random(seed)
        self.sure = 0
        """How many messages are durable for sure."""
        self._keyed, self._died, self._mode = keyed, Died, mode
        self._store: flightlog.Store | None = None

    def open(self) -> flightlog.Store:
        settings = self._keyed.settings(flush_mode=self._mode)
        self._store = flightlog.open(self.disk.root, settings, disk=self.disk)
        return self._store

    def run(self) -> None:
        """Twelve messages of 27 keys, and what flushes them; then the close."""
        keyed, store, count = self._keyed, self.open(), 0
        for step in (1, 4, 2, 5):
            for i in range(count, count + step):
                store.put(keyed.message(i))
                self.sure += self._mode is FlushMode.SYNC
            count += step
            if step != 2:
                keyed.flush_index(store)
                self.sure = count
            store.queues()
            if step == 4:
                inside.maintenance(store).flush_queues()
        store.close()
        self.sure = count

    def does_end(self, after: int, live: Callable[[], object]) -> bool:
        """Whether it died before it came to its end."""
        self.disk.die_after = after
        try:
            live()
        except self._died:
            return True
        finally:
            store, self._store = self._store, None
            if store is not None and not inside.is_released(store):
                inside.maintenance(store).poison(InterruptedError("died"))
                store.close()
        return False

    def leave(self, *, is_cut: bool) -> None:
        if is_cut:
            self.disk.cut(self.dice)
        else:
            self.disk.kill()

    def look(self, assert_clean: AssertClean) -> None:
        keyed = self._keyed
        self.disk.die_after = None
        if (self.disk.root / "commitlog").exists():
            with flightlog.open_read_only(self.disk.root) as view:
                keyed.check(view, view.verify().records)
        with self.open() as store:
            count = store.verify().records
            assert count >= self.sure
            keyed.check(store, count)
            assert store.verify().is_clean, store.verify().findings
            store.put_many(keyed.messages(count, count + 6))
            keyed.check(store, count + 6)
        self._store = None
        assert assert_clean(self.disk.root).index_entries == keyed.key_count(count + 6)


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("end", ["death", "cut"])
def test_every_operation_may_be_the_last(
    end: str, mode: FlushMode, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    seeds, step = scale.pick(ci=(1, 3), full=(6, 1))
    for seed in range(seeds):
        after = 0
        while True:
            root = tmp_path / f"{seed}-{after}"
            life = Life(root, mode, 1000 * seed + after)
            if not life.does_end(after, life.run):
                break
            life.leave(is_cut=end == "cut")
            opening_died = (seed + after) % 2 and life.does_end(life.dice.randrange(60), life.open)
            life.leave(is_cut=bool(opening_died) and end == "cut")
            life.look(assert_clean)
            shutil.rmtree(root)
            after += step
        assert after > 100


@pytest.mark.ci
@pytest.mark.parametrize("lost", ["the index", "a file of it"])
def test_a_rebuild_may_die_anywhere(lost: str, tmp_path: Path, scale: Scale, assert_clean: AssertClean) -> None:
    """An index that is made anew from the log: a cut in the middle leaves what the next open makes anew again."""
    step, after = scale.pick(ci=3, full=1), 0
    while True:
        life = Life(tmp_path / str(after), FlushMode.ASYNC, after)
        assert not life.does_end(10_000, life.run)
        life.leave(is_cut=False)
        files = sorted((life.disk.root / "index").iterdir())
        for file in files if lost == "the index" else files[:1]:
            life.disk.remove(file)
        life.disk.sync_folder(life.disk.root / "index")
        died = life.does_end(after, lambda life=life: life.open().close())  # type: ignore[misc]
        life.leave(is_cut=died)
        life.look(assert_clean)
        if not died:
            break
        after += step
    assert after > 20
