"""What happens to all that lies beside the log, told step by step: queues, key index, checkpoint, seals, state files,
and retention. See log_stories.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flightlog import FlushMode, Store
from flightlog.tests.support import inside
from flightlog.tests.support.stage import Stage

if TYPE_CHECKING:
    NewStage = Callable[[], Stage]

SYNC, ASYNC = FlushMode.SYNC, FlushMode.ASYNC
SECTOR_SIZE = 512


def entries_of_a_quiet_queue(new: NewStage) -> None:
    """All that was not synced is there after the cut, but for a queue's second sector. That queue gets no message
    later, and another one has grown by more than it could have lost: nobody would look."""
    stage = new()
    store = stage.open()
    stage.put(store, queue_id=1)
    stage.put(store, count=60)
    inside.maintenance(store).flush_queues()
    stage.put(store, queue_id=1, count=60)
    stage.check(store)
    stage.die(store)
    stage.disk.lose(stage.queue_file(), SECTOR_SIZE, 4 * SECTOR_SIZE)
    stage.cut(keeps_all=True)
    stage.end()


def entries_that_a_killed_writer_left(new: NewStage) -> None:
    """The next one found them as they should be, in the page cache alone. The same sectors are lost then."""
    stage = new()
    store = stage.open()
    for queue_id in (0, 1):
        stage.put(store, queue_id=queue_id)
    inside.maintenance(store).flush_queues()
    stage.put(store, count=60)
    stage.check(store)
    stage.die(store)
    store = stage.open()
    stage.put(store, queue_id=1, count=60)
    stage.check(store)
    stage.die(store)
    stage.disk.lose(stage.queue_file(), SECTOR_SIZE, 4 * SECTOR_SIZE)
    stage.cut(keeps_all=True)
    stage.end()


def a_flush_of_queues_that_dies_anywhere(new: NewStage) -> None:
    """By a power cut; then it is recovered as a store of RocketMQ's, of which the checkpoint alone tells. A message
    comes every five minutes: recovery goes back two minutes before what a checkpoint says."""
    for operations in itertools.count():
        stage = new()
        store = stage.open()
        for number in range(12):
            stage.put(store, 5000, queue_id=2 if number == 1 else 1)
            stage.clock.at_ms += 300_000
        stage.check(store)
        has_died = stage.dies(operations, inside.maintenance(store).flush_queues)
        stage.cut()
        stage.remove("flightlog")
        stage.end()
        if not has_died:
            assert operations > 10
            return


def keys_of_an_index_file(new: NewStage) -> None:
    """All that was not synced is there after the cut, but for a sector in the middle of the entries."""
    stage = new()
    store = stage.open()
    stage.put(store, count=60)
    stage.check_keys(store)
    inside.maintenance(store).flush_queues()
    inside.maintenance(store).flush_index()
    [index_file] = (stage.root / "index").iterdir()
    stage.die(store)
    stage.disk.lose(index_file, SECTOR_SIZE, 2 * SECTOR_SIZE)
    stage.cut(keeps_all=True)
    stage.end()


def a_segment_that_fills_up_during_a_flush(new: NewStage) -> None:
    """What came meanwhile is lost in a cut. Its place is taken by other messages, and a seal must be of those."""
    stage = new()
    store = stage.open(ASYNC)
    stage.put(store, 3000)

    def fill(operation: str, path: Path) -> None:
        if operation == "write" and path.name == "checkpoint":
            stage.disk.be_well()
            stage.put(store, 3000, count=10)

    stage.disk.on = fill
    inside.maintenance(store).flush_queues()
    stage.die(store)
    stage.cut()
    store = stage.open(ASYNC)
    stage.settle(store)
    stage.put(store, 3000, count=10)
    store.close()
    stage.end()


def a_deleted_topic(new: NewStage) -> None:
    """The power is cut, and then the queues are lost, too: they are made anew from the log."""
    stage = new()
    store = stage.open()
    for topic in ("deleted", "kept"):
        stage.put(store, topic=topic, count=10)
    inside.maintenance(store).flush_queues()
    store.delete_topic("deleted")
    stage.forget_topic("deleted")
    stage.put(store, topic="kept")
    stage.die(store)
    stage.cut()
    stage.remove("consumequeue")
    stage.end()


def a_topic_that_was_made(new: NewStage) -> None:
    """With its settings: durable when the call returns."""
    stage = new()
    store = stage.open()
    for number in range(3):
        store.create_topic(f"made-{number}", queue_count=number + 1)
    stage.die(store)
    stage.cut()
    with stage.open() as store:
        for number in range(3):
            made = store.topics().get(f"made-{number}")
            text = f"topic made-{number} is {made} after a cut"
            stage.promise(made is not None and made.write_queue_count == number + 1, text)
    stage.end()


def a_round_of_retention_that_dies_anywhere(new: NewStage) -> None:
    """By a power cut, which leaves all that was done or only what was synced. Segments, queue files and index files are
    on their way out."""
    sizes = {"segment_size": 4096, "queue_file_entries": 5, "index_entries": 8}
    for turn in itertools.count():
        operations, keeps_all = divmod(turn, 2)
        stage = new()
        store = stage.open(ASYNC, **sizes)
        for number in range(24):
            stage.put(store, 700, queue_id=number % 2)
        stage.flush(store)
        stage.check(store)
        inside.maintenance(store).flush_index()
        inside.maintenance(store).flush_queues()

        def round_of_it(stage: Stage = stage, store: Store = store) -> None:
            assert store.clean_up(retention_hours=0).segments
            stage.check(store)

        has_died = stage.dies(operations, round_of_it)
        stage.cut(keeps_all=bool(keeps_all))
        stage.end(**sizes)
        if not has_died and keeps_all:
            assert operations > 8
            return


def an_iterator_beside_retention(new: NewStage) -> None:
    """What it has begun to read, it reads to the end."""
    stage = new()
    with stage.open(segment_size=4096) as store:
        stage.put(store, 700, count=24)
        inside.maintenance(store).flush_index()
        reading = store.read("t")
        bodies = [next(reading).body]
        store.clean_up(retention_hours=0)
        bodies += [message.body for message in reading]
        stage.promise(len(bodies) == 24, f"retention took {24 - len(bodies)} messages from a reader that was at them")
        assert store.clean_up(retention_hours=0).segments
    stage.end(segment_size=4096)
