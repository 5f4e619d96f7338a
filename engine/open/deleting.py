"""Deleting a topic, so that it stays deleted: the order of things, and why.

    1  the note      `flightlog/deleted-topics.json`, durable, under the append lock: no record of the topic comes
                     between what the note calls deleted and what belongs to a topic of that name made later. This is
                     the commit point: after a crash the next open does the rest
    2  queues        forgotten and removed, under the dispatch lock; the next record of that name begins at offset 0
    3  topics.json   without the topic
    4  the note      without the mark that the deletion is under way

If the note cannot be written, nothing has happened. If something fails after it, the store is poisoned: queues on disk
and in memory may be two things then, until it is opened again.

The records themselves stay in the log, as in RocketMQ, until retention takes them: `message_at` still finds them.
"""

from __future__ import annotations

from pathlib import Path

from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.disk.disk import Disk
from ...store.state.deleted_topics import DeletedTopics
from ..topics.topics import read_topics
from .shutdown_state import LastWriter, ShutdownState

OTHER_QUEUE_FOLDERS = ("batchconsumequeue", "consumequeue_ext")


def note_foreign_deletions(deleted: DeletedTopics, disk: Disk, root: Path, shutdown_state: ShutdownState) -> None:
    """Take what RocketMQ deleted for deleted.

    A broker that deletes a topic takes it out of `config/topics.json` and removes its queues; a topic that is in
    neither place, in a store that a broker closed cleanly, was deleted. Not so where there are no queues at all (they
    were lost), where there is no topics.json (no broker served the store), and after a kill (a new topic may have been
    lost in both places).
    """
    if shutdown_state.last_writer is not LastWriter.ROCKETMQ_CLOSED:
        return
    topics = read_topics(disk, root)
    with_queues = {entry.name for entry in disk.list(root / CONSUME_QUEUE_FOLDER) if entry.is_folder}
    if topics and with_queues:
        for folder in OTHER_QUEUE_FOLDERS:
            with_queues |= {entry.name for entry in disk.list(root / folder) if entry.is_folder}
        deleted.only_known(set(topics) | with_queues)
