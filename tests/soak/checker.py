"""A store held against the ledger: first its files, frame by frame, then its queues."""

from __future__ import annotations

from pathlib import Path

import flightlog
from flightlog.tests.soak.frames import Frame, Log, read_log
from flightlog.tests.soak.ledger import DELETED, DELETING, THERE, Entry, Finding, Key, Ledger
from flightlog.tests.soak.telling import Head, told_by

OWN = "own-"
"""Topics of this prefix are deleted and made again."""


def check_log(path: Path, ledger: Ledger, level: int) -> Log:
    """Whatever has to survive is in the commit log where its put said, and nothing is there that was never put."""
    log = read_log(path / "commitlog")
    if not log.start <= log.last_base or log.start > ledger.log_start_max:
        raise Finding(f"the log begins at {log.start}: retention was asked for up to {ledger.log_start_max} at most")
    heads: dict[Head, Frame] = {}
    last: dict[int, Head] = {}
    ends: dict[tuple[str, int], int] = {}
    for frame in log.frames.values():
        head = _told(frame)
        if head in heads or head in ledger.refused:
            raise Finding(f"{head} is there twice, or was refused: {frame}, {heads.get(head)}")
        if head < last.get(head.thread, head):
            raise Finding(f"{head} of a thread lies behind {last[head.thread]}, which it put later: {frame}")
        heads[head], last[head.thread] = frame, head
        queue = (frame.topic, frame.queue_id)
        is_anew = frame.topic.startswith(OWN) and frame.queue_offset == 0
        if not is_anew and frame.queue_offset != ends.get(queue, frame.queue_offset):
            raise Finding(f"queue offset {frame.queue_offset} follows {ends[queue] - 1}: {frame}")
        ends[queue] = frame.queue_offset + 1
    lost = []
    for key, entry in ledger.required(level, log.start).items():
        found = log.frames.get(key)
        if found is None or found[:3] != (entry.topic, entry.queue_id, entry.queue_offset) or not _is(found, entry):
            lost.append((key, entry, found))
    if lost:
        raise Finding(f"{len(lost)} acknowledged messages are lost or differ in the log (to {log.end}): {lost[:3]}")
    return log


def _told(frame: Frame) -> Head:
    try:
        return told_by(frame.topic, frame.queue_id, frame.body)[0]
    except ValueError as e:
        raise Finding(f"{e}: {frame}") from e


def _is(frame: Frame, entry: Entry) -> bool:
    return told_by(frame.topic, frame.queue_id, frame.body) == (entry.head, entry.digest)


def check_queues(
    store: flightlog.Store | flightlog.ReadOnlyStore, log: Log, ledger: Ledger, level: int, *, is_whole: bool
) -> set[Key]:
    """Queues are without holes, and give what the log has; `is_whole`: all that it has. Returns what is there."""
    there: set[Key] = set()
    for (topic, queue_id), (first, end) in store.queues().items():
        expected = first
        for message in store.read(topic, queue_id, first):
            key = (message.physical_offset, message.batch_index or 0)
            frame = log.frames.get(key)
            where = (topic, queue_id, message.queue_offset)
            if message.queue_offset != expected or key in there:
                raise Finding(f"{where} at {key} comes where {expected} was expected")
            if frame is None or frame[:3] != where or frame.body != message.decompressed_body():
                raise Finding(f"{where} at {key} is not what the log has there: {frame}")
            there.add(key)
            expected += 1
        if expected != end:
            raise Finding(f"{topic} {queue_id} was read up to {expected}, expected {end}")
    required = ledger.required(level, log.start)
    lost = [(key, entry) for key, entry in required.items() if entry.fate == THERE and key not in there]
    if lost:
        raise Finding(f"{len(lost)} acknowledged messages cannot be read: {lost[:3]}")
    again = [entry for key, entry in ledger.entries.items() if entry.fate == DELETED and key in there]
    if again:
        raise Finding(f"{len(again)} messages of deleted topics are back: {again[:3]}")
    half: dict[str, set[bool]] = {}
    for key, entry in required.items():
        if entry.fate == DELETING:
            half.setdefault(entry.topic, set()).add(key in there)
    if any(len(answers) > 1 for answers in half.values()):
        raise Finding(f"topics that are half deleted: {[topic for topic, answers in half.items() if len(answers) > 1]}")
    missed = [key for key, frame in log.frames.items() if key not in there and not frame.topic.startswith(OWN)]
    if is_whole and missed:
        raise Finding(f"{len(missed)} messages are in the log and in no queue: {[log.frames[k] for k in missed[:3]]}")
    if lacking := ledger.topics - store.topics().keys():
        raise Finding(f"topics that were made are not there: {lacking}")
    return there
