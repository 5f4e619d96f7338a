"""`flightlog info PATH`: the contents of a store, and how it was closed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ....engine.open.shutdown_state import LastWriter
from ....store.state.progress import STILL_OPEN, Progress
from ...backlog import Backlog
from ...inspecting import StoreInfo, inspect
from ...output import Column, Output
from ...words import count_text, printable, size_text, time_text
from ..arguments import AsJson, Settings, StorePath, settings_of


def info(path: StorePath, settings: Settings = None, as_json: AsJson = False) -> None:
    """Show segments, topics, queues, sizes, and who wrote last. Takes no lock and changes nothing."""
    found = inspect(path, settings_of(settings, path))
    if as_json:
        print(json.dumps(as_object(found), indent=2, default=str))
    else:
        _show(found, Output())


def _show(found: StoreInfo, output: Output) -> None:
    output.facts(_facts(found))
    # Names come last: a topic may be 255 bytes long.
    output.table(
        "Topics",
        [
            *(Column("messages", True), Column("queues", True), Column("least", True), Column("mean", True)),
            *(Column("most", True), Column("topic")),
        ],
        [
            [
                *(f"{topic.messages:,}", f"{topic.queues:,}", f"{topic.min_depth:,}", f"{topic.mean_depth:,.1f}"),
                *(f"{topic.max_depth:,}", printable(topic.topic)),
            ]
            for topic in found.statistics.topics
        ],
    )
    output.table(
        "Queues",
        [
            Column("messages", True),
            Column("first offset", True),
            Column("end offset", True),
            Column("queue", True),
            Column("topic"),
        ],
        [
            [f"{queue.messages:,}", f"{queue.first:,}", f"{queue.end:,}", str(queue.queue_id), printable(queue.topic)]
            for queue in found.queues
        ],
    )
    waits = found.backlog
    output.table(
        "Consumer groups",
        [Column("lag", True), Column("group"), Column("topics")],
        [
            [f"{each.lag:,}", printable(each.name), printable(", ".join(each.topics))]
            for each in (waits.groups.values() if waits else ())
        ],
    )
    waiting = [state for state in found.statistics.delays if state.pending]
    if waiting:
        output.table(
            "Delay levels, as the writer last saved them",
            [
                Column("level", True),
                Column("delay, s", True),
                Column("messages that wait", True),
                Column("late, s", True),
            ],
            [[f"{s.level}", f"{s.delay_ms / 1e3:g}", f"{s.pending:,}", f"{s.lag_ms / 1e3:,.1f}"] for s in waiting],
        )
    output.table(
        "Segments of the commit log",
        [Column("file"), Column("used", True), Column("on disk", True), Column("records", True)],
        [
            [
                segment.name,
                size_text(segment.used_size),
                size_text(segment.allocated_size),
                "not sealed" if segment.records is None else f"{segment.records:,}",
            ]
            for segment in found.segments
        ],
    )
    output.table(
        "Files",
        [Column("files", True), Column("length", True), Column("on disk", True), Column("folder")],
        [
            [f"{folder.files:,}", size_text(folder.size), size_text(folder.allocated_size), printable(folder.name)]
            for folder in found.folders
        ],
    )
    progress = found.shutdown_state.progress
    if progress is not None:
        title = "Progress page" if found.shutdown_state.is_ours else "Progress page (stale: RocketMQ has written since)"
        if found.shutdown_state.last_writer is LastWriter.FLIGHTLOG_KILLED and not found.shutdown_state.is_served:
            title = "Progress page (its writer is gone: the log was read instead)"
        output.table(title, [Column("word"), Column("value"), Column("meaning")], _progress_rows(progress))
    notes = found.notes + found.index.unreadable
    for note in notes:
        output.line(f"note: {printable(note)}")
    if notes:
        output.line("`flightlog verify` checks every byte and says what to do.")


def _facts(found: StoreInfo) -> list[tuple[str, str]]:
    log_size = found.end_physical_offset - found.min_physical_offset
    segments = count_text(len(found.segments), "segment")
    of_size = f" of {size_text(found.segment_size)}" if found.segment_size else ""
    facts = [
        ("store", printable(str(found.path))),
        ("last writer", found.writer_text),
        ("closed cleanly", "yes" if found.shutdown_state.is_clean else "no"),
        (
            "commit log",
            f"{size_text(log_size)} in {segments}{of_size}, physical offsets "
            f"{found.min_physical_offset:,} to {found.end_physical_offset:,}",
        ),
        (
            "messages",
            f"{found.messages:,} in {count_text(len(found.queues), 'queue')} of "
            f"{count_text(len(found.statistics.topics), 'topic')}",
        ),
        *_backlog_facts(found.backlog),
        ("key index", _index_text(found)),
        ("newest message", time_text(found.last_store_timestamp_ms)),
        (
            "files",
            f"{size_text(sum(folder.size for folder in found.folders))} long, "
            f"{size_text(sum(folder.allocated_size for folder in found.folders))} on disk",
        ),
        ("disk", f"{size_text(found.statistics.sizes.disk_free_size)} free"),
        ("dispatch lag", _lag_text(found)),
        ("not yet durable", _behind_text(found.statistics.lag.flush_size, "when the writer last said so")),
        ("next recovery", _behind_text(found.statistics.lag.recovery_size, "of the log to go through")),
        ("cut tails", _cut_text(found)),
        ("read to open it", _scan_text(found)),
        ("not by default", ", ".join(f"{name}={value}" for name, (value, _) in found.settings.items()) or "nothing"),
    ]
    if found.shutdown_state.progress is None:
        facts.append(("progress page", "none: only flightlog writes one"))
    return facts


def _backlog_facts(waiting: Backlog | None) -> list[tuple[str, str]]:
    if waiting is None:
        return [("groups, waiting", "not known: a file cannot be read, see the notes")]
    return [
        ("groups", _groups_text(waiting)),
        ("waiting", _waiting_text(waiting)),
        ("dead letters", _dead_letters_text(waiting)),
    ]


def _groups_text(waiting: Backlog) -> str:
    groups = waiting.groups.values()
    return f"{count_text(len(groups), 'group')}, lag {sum(group.lag for group in groups):,}" if groups else "none"


def _waiting_text(waiting: Backlog) -> str:
    parts = [
        (waiting.delayed, "by delay level", "by delay level"),
        (waiting.timers, "timer", "timers"),
        (waiting.half_messages, "open transaction", "open transactions"),
    ]
    return ", ".join(count_text(*part) for part in parts if part[0]) or "nothing"


def _dead_letters_text(waiting: Backlog) -> str:
    of_groups = (f"{count:,} of {printable(group)}" for group, count in waiting.dead_letters.items())
    return ", ".join(of_groups) or "none"


def _index_text(found: StoreInfo) -> str:
    if not found.index.files:
        return "none"
    text = f"{count_text(found.index.keys, 'key')} in {count_text(found.index.files, 'file')}"
    return f"{text}, of records up to {found.index.known_below:,}"


def _lag_text(found: StoreInfo) -> str:
    parts = []
    if found.undispatched:
        parts.append(f"{count_text(found.undispatched, 'message')} in the log and not in the queues on disk")
    if found.statistics.lag.dispatch_size:
        parts.append(f"{size_text(found.statistics.lag.dispatch_size)} visible and not dispatched")
    return "; ".join(parts) or "none"


def _behind_text(size: int | None, what: str) -> str:
    if size is None:
        return "not known: only flightlog notes it"
    return f"{size_text(size)} {what}" if size else "nothing"


def _cut_text(found: StoreInfo) -> str:
    sizes = found.statistics.sizes
    return f"{size_text(sizes.cut_size)} in {count_text(sizes.cut_tails, 'file')}" if sizes.cut_tails else "none"


def _scan_text(found: StoreInfo) -> str:
    if not found.scanned_size:
        return f"nothing of the log ({printable(found.scan_reason)})"
    return f"{size_text(found.scanned_size)} of the log ({printable(found.scan_reason)})"


def _progress_rows(progress: Progress) -> list[list[str]]:
    clean_close = "open" if progress.clean_close == STILL_OPEN else f"{progress.clean_close:,}"
    return [
        ["epoch", f"{progress.epoch}", "drawn when the store was opened for writing"],
        ["pid", f"{progress.pid}", "the writer's process"],
        ["appended", f"{progress.appended:,}", "end of the last whole record"],
        ["visible", f"{progress.visible:,}", "readers go no further"],
        ["flushed", f"{progress.flushed:,}", "durable: everything below was synced"],
        ["dispatched", f"{progress.dispatched:,}", "everything below is in its queue"],
        ["queues flushed", f"{progress.queues_flushed:,}", "every queue entry of a record below is synced"],
        ["clean close", clean_close, "end of the log when it was closed"],
        [
            "boot",
            "this boot" if progress.is_of_this_boot else "an earlier boot",
            "of the machine, when the page was written",
        ],
        ["store time", time_text(progress.store_timestamp_ms), "newest record when queues were last flushed"],
        ["queues", f"{progress.queue_count:,}", "when queues were last flushed"],
        ["queue entries", f"{progress.queue_ends - progress.queue_starts:,}", "in all queues then"],
        ["index flushed", f"{progress.index_flushed:,}", "every key of a record below is in a synced index file"],
    ]


def as_object(found: StoreInfo) -> dict[str, Any]:
    """The object that `--json` prints. Offsets are physical or queue offsets, as named; sizes are in bytes."""
    progress, waits = found.shutdown_state.progress, found.backlog
    return {
        "path": str(found.path),
        "last_writer": found.shutdown_state.last_writer.name,
        "is_closed_cleanly": found.shutdown_state.is_clean,
        "is_open_for_writing": found.is_held,
        "min_physical_offset": found.min_physical_offset,
        "end_physical_offset": found.end_physical_offset,
        "segment_size": found.segment_size,
        "messages": found.messages,
        "newest_store_timestamp_ms": found.last_store_timestamp_ms,
        "scanned_size": found.scanned_size,
        "scan_reason": found.scan_reason,
        "undispatched_messages": found.undispatched,
        "undispatched_size": found.statistics.lag.dispatch_size,
        "topics": [asdict(topic) | {"mean_depth": topic.mean_depth} for topic in found.statistics.topics],
        "queues": [
            {
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "first_queue_offset": queue.first,
                "end_queue_offset": queue.end,
            }
            for queue in found.queues
        ],
        "segments": [vars(segment) for segment in found.segments],
        "index": vars(found.index),
        "folders": [vars(folder) for folder in found.folders],
        "progress": None if progress is None else vars(progress),
        "sizes": asdict(found.statistics.sizes),
        "lag": asdict(found.statistics.lag),
        "delays": [asdict(state) for state in found.statistics.delays],
        "groups": waits
        and {group.name: {"lag": group.lag, "topics": list(group.topics)} for group in waits.groups.values()},
        "timers": waits and waits.timers,
        "half_messages": waits and waits.half_messages,
        "dead_letters": waits and waits.dead_letters,
        "settings": {name: {"value": value, "default": usual} for name, (value, usual) in found.settings.items()},
        "notes": found.notes,
    }
