"""What a store has that RocketMQ 4.9 does not know. Its brokers take normal messages, delay levels, and what members of
the remoting protocol sent back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..consume.group.group_state import lag_of
from ..consume.pop.check_point import CheckPoint
from ..consume.pop.pop_topics import retry_topic
from ..engine.read_only import ReadOnlyStore
from ..engine.topics.offset_table import read_offsets
from ..produce.transaction.stored_halves import open_half_messages
from ..schedule.stored_timers import stored_timers
from ..schedule.timer_request import TIMER_QUEUE_ID, TIMER_TOPIC
from ..store.disk.disk import Disk
from .log_survey import LogSurvey


def unknown_to_49(
    disk: Disk, root: Path, view: ReadOnlyStore, survey: LogSurvey, points: Iterable[CheckPoint]
) -> Iterator[tuple[int, str]]:
    """Counts above 0, each with what is counted and what 4.9 does with it; the worst first. `points`: those of popped
    messages that are not acknowledged. Raises ConfigFileError, DiskError."""
    bounds = view.queues()
    topics = view.topics()
    by_group = read_offsets(disk, root)
    retries = {
        (group, name): by_group[group].get(name, {})
        for group in by_group
        for name in (retry_topic(group, topic) for topic in by_group[group])
    }
    counts = (
        (survey.long_topics, "records of topics with more than 127 bytes (it cuts the log at the first one)"),
        (
            stored_timers(disk, root, *bounds.get((TIMER_TOPIC, TIMER_QUEUE_ID), (0, 0))),
            "timers, those of popped messages among them (it never delivers them)",
        ),
        (
            sum(len(point.open_offsets) for point in points),
            "messages that were popped and not acknowledged (it never delivers them again)",
        ),
        (
            sum(sum(lag_of({name: offsets}, bounds).values()) for (_, name), offsets in retries.items()),
            "messages in retry topics of groups that pop (no client of 4.9 reads them)",
        ),
        (open_half_messages(view), "open transactions (it may ask about them again after they ended)"),
        (survey.new_compressions, "bodies in LZ4 or Zstandard (its clients take them for zlib, and fail)"),
        (
            sum(topic.holds_batches for topic in topics.values()),
            "topics with batch queues (it does not serve them)",
        ),
        (
            sum(bool(topic.attributes) for topic in topics.values()),
            "topics with attributes (it drops these at its next write)",
        ),
    )
    return ((count, what) for count, what in counts if count)
