"""Is this folder fit for a RocketMQ broker? What stands in the way, by name.

Every rule here was seen on real processes: a broker 5.3.3 with its proxy, its slaves and its clients.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..consume.group.stored_groups import stored_groups
from ..consume.pop.check_point import CheckPoint
from ..consume.pop.debts import stored_check_points
from ..engine.delay.waiting_delays import waiting_cancellations
from ..engine.read_only import ReadOnlyStore, open_read_only
from ..index.key.index_file import DEFAULT_INDEX_ENTRIES, DEFAULT_INDEX_SLOTS
from ..index.queue.queue_extension import DEFAULT_EXTENSION_FILE_SIZE
from ..index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ..store.arguments import checked_path
from ..store.conf.broker_conf import (
    BROKER_DEFAULTS,
    CANCELLED_BY_TOPIC,
    NAMES,
    BrokerConf,
    broker_text,
    read_broker_conf,
)
from ..store.disk.disk import Disk, RealDisk
from ..store.disk.lock import is_held
from ..store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ..store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ..store.state.rocksdb import has_rocksdb_files, rocksdb_configs
from ..store.topic import GROUP_MAX_LENGTH, NAME_MAX_LENGTH, is_client_name, is_system_topic
from .findings import HandoverFinding, HandoverReport
from .log_survey import LogSurvey, survey_log
from .release_49 import unknown_to_49
from .sizes import with_sizes

DEFAULT_SIZES = {
    "segment_size": DEFAULT_SEGMENT_SIZE,
    "queue_file_entries": DEFAULT_QUEUE_FILE_ENTRIES,
    "index_slots": DEFAULT_INDEX_SLOTS,
    "index_entries": DEFAULT_INDEX_ENTRIES,
    "queue_extension_file_size": DEFAULT_EXTENSION_FILE_SIZE,
}
SHOWN = 5
"""How many names a finding lists; it tells how many there are."""
MAKE_CONF = "write the conf with `flightlog handover broker-conf`, and start the broker with it"


def check(
    path: str | os.PathLike[str],
    conf: str | os.PathLike[str] | None = None,
    *,
    settings: StoreSettings | None = None,
    disk: Disk | None = None,
) -> HandoverReport:
    """Check whether a RocketMQ broker can take over the store in `path`, and name what stands in the way.

    `conf` is the `broker.conf` that the broker will be started with; None: RocketMQ's defaults are assumed, and what
    they do to this store is found. `settings` are those that the store is opened with here, where its log lies in
    folders of its own. Reads the whole log once, by read calls; takes no lock and changes nothing.

    Raises StoreNotFoundError, InvalidSettingsError for a conf that makes no sense, ConfigFileError, DiskError.
    """
    root, disk = checked_path("path", path), disk or RealDisk()
    found_conf = None if conf is None else read_broker_conf(conf, disk=disk)
    settings = replace(settings or StoreSettings(), unkept_promises=())
    report = HandoverReport(root, None if found_conf is None else found_conf.path)
    with open_read_only(root, settings, disk=disk) as view:
        store = _Store(
            *(disk, root, view, with_sizes(disk, root, settings), found_conf),
            *(survey_log(view), stored_check_points(view, settings, disk)),
        )
        for look in FINDINGS:
            report.findings.extend(look(store))
        for look in NOTES:
            report.notes.extend(look(store))
        report.records = store.survey.records
    return report


@dataclass(frozen=True, slots=True)
class _Store:
    disk: Disk
    root: Path
    view: ReadOnlyStore
    settings: StoreSettings
    """With the sizes of its files."""
    conf: BrokerConf | None
    survey: LogSurvey
    check_points: list[CheckPoint]
    """Check points of messages that groups popped and did not acknowledge."""

    @property
    def topics(self) -> list[str]:
        prefixes = (RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX)
        return [name for name in self.view.topics() if not is_system_topic(name) and not name.startswith(prefixes)]


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _names(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN:,} more"


def _in_use(store: _Store) -> Iterator[HandoverFinding]:
    if is_held(store.root):
        yield HandoverFinding(
            "in-use",
            "a process on this machine has the store open for writing",
            "A broker refuses to start on it, after it has deleted the open index files",
            "close the store first",
        )


def _rocksdb(store: _Store) -> Iterator[HandoverFinding]:
    is_there = has_rocksdb_files(store.disk, store.root / CONSUME_QUEUE_FOLDER)
    if is_there or rocksdb_configs(store.disk, store.root):
        yield HandoverFinding(
            "rocksdb",
            f"{'consume queues' if is_there else 'topics and offsets'} in RocksDB: a broker wrote them",
            "Only a broker with the same storeType and configManagerVersion reads them",
            "hand the folder back to a broker with that conf",
        )


def _damage(store: _Store) -> Iterator[HandoverFinding]:
    damaged = store.survey.damaged + [place.physical_offset for place in store.view.lost_places()]
    if damaged:
        yield HandoverFinding(
            "damage",
            f"{_count(len(damaged), 'place')} of the log without a record where one should be, the first at physical "
            f"offset {min(damaged):,}",
            "A broker that recovers cuts the log at the first one and throws everything behind it away",
            "`flightlog verify` names each; restore the file from a copy before a broker opens it",
        )


def _file_sizes(store: _Store) -> Iterator[HandoverFinding]:
    wanted = DEFAULT_SIZES
    if store.conf is not None:
        told = store.conf.settings
        wanted = {name: getattr(told, name) or size for name, size in DEFAULT_SIZES.items()}

    def shown(name: str, size: int) -> str:
        return f"{int(broker_text(name, size)):,}"

    wrong = [
        f"{NAMES[name]} is {shown(name, getattr(store.settings, name))} here and {shown(name, size)} there"
        for name, size in wanted.items()
        if getattr(store.settings, name) != size
        and (name != "queue_extension_file_size" or store.settings.queue_extension)
    ]
    if wrong:
        yield HandoverFinding(
            "file-sizes",
            "; ".join(wrong),
            "A broker dies of it at its start, with the reason in store.log alone, or reads queues and keys wrongly",
            MAKE_CONF,
        )


def _retention(store: _Store) -> Iterator[HandoverFinding]:
    conf = None if store.conf is None else store.conf.settings
    told: int = BROKER_DEFAULTS["retention_hours"]
    if conf is not None and conf.retention_hours is not None:
        told = conf.retention_hours
    may_delete_any = conf is None or conf.clean_forcibly
    ours = store.settings.retention_hours
    if ours is not None and told >= ours:
        return
    full = store.view.segments[:-1]
    before_s = time.time() - told * 3600
    old = [segment for segment in full if segment.path.stat().st_mtime < before_s]
    if old:
        yield HandoverFinding(
            "retention",
            f"{len(old):,} of {len(full) + 1:,} segments were last written more than {told:,} hours ago "
            "(fileReservedTime)",
            "A broker deletes them at 04:00, or at once above 75 % of the disk: their messages are gone",
            MAKE_CONF,
        )
    elif full and may_delete_any and ours is None:
        yield HandoverFinding(
            "retention",
            f"cleanFileForciblyEnable is true and segments go after {told:,} hours (fileReservedTime); here nothing "
            "is deleted",
            "A broker deletes messages that are so old, and above 85 % of the disk the oldest, whatever their age",
            MAKE_CONF,
        )


def _topic_names(store: _Store) -> Iterator[HandoverFinding]:
    refused = sorted(name for name in store.topics if not is_client_name(name, NAME_MAX_LENGTH))
    if refused:
        yield HandoverFinding(
            "topic-names",
            f"{_count(len(refused), 'topic')} with a name that RocketMQ's clients refuse: {_names(refused)}",
            "Its broker keeps them, but no client can send to them, and those of gRPC cannot subscribe",
            "put their messages to topics with names of a-z, A-Z, 0-9, %, |, _ and - and at most 127 characters",
        )


def _group_names(store: _Store) -> Iterator[HandoverFinding]:
    groups = stored_groups(store.disk, store.root, store.view.queues())
    refused = sorted(name for name in groups if not is_client_name(name, GROUP_MAX_LENGTH))
    if refused:
        yield HandoverFinding(
            "group-names",
            f"{_count(len(refused), 'consumer group')} with a name that RocketMQ's clients refuse: {_names(refused)}",
            "No client can join them: their offsets are stranded",
            "commit their offsets to groups with names of a-z, A-Z, 0-9, %, |, _ and - (commit_offset)",
        )


def _closed(store: _Store) -> Iterator[HandoverFinding]:
    state = store.view.shutdown_state
    if state.is_ours and not state.is_clean and not is_held(store.root):
        yield HandoverFinding(
            "not-closed",
            "its last writer did not close it",
            "A broker recovers it as after its own death; a torn tail is cut without a copy",
            "open and close it with flightlog once: what is cut is kept in flightlog/cut-OFFSET",
        )


def _empty_bodies(store: _Store) -> Iterator[HandoverFinding]:
    counts = store.survey.empty_bodies
    if counts:
        yield HandoverFinding(
            "empty-bodies",
            f"{_count(counts.total(), 'message')} without a body in {_count(len(counts), 'topic')} "
            f"({_names(sorted(counts))}), the first at physical offset {store.survey.first_empty:,}",
            "The gRPC proxy of 5.3.3 fails on such a message and on all that it received together with it: a group may "
            "get nothing at all. Clients of the remoting protocol get them",
            "let groups read past them here first, or read these topics with remoting clients",
        )


def _broker_name(store: _Store) -> Iterator[HandoverFinding]:
    theirs = None if store.conf is None else store.conf.broker_name
    others = [point for point in store.check_points if store.conf is not None and point.key.broker_name != theirs]
    if others:
        count = sum(len(point.open_offsets) for point in others)
        groups = sorted({point.key.group for point in others})
        names = sorted({point.key.broker_name for point in others})
        yield HandoverFinding(
            "broker-name",
            f"{_count(count, 'message')} that {_count(len(groups), 'group')} ({_names(groups)}) received "
            f"(Store.receive, gRPC clients) and did not acknowledge, under the broker name {_names(names)}; the conf "
            "has " + ("no brokerName" if theirs is None else f"brokerName={theirs}"),
            "A broker of another name never delivers them again",
            f"start the broker with brokerName={names[0]}, or have the groups receive and acknowledge them first",
        )


def _store_hosts(store: _Store) -> Iterator[HandoverFinding]:
    hosts = store.survey.store_hosts
    expected = store.settings.store_host if store.conf is None else store.conf.settings.store_host
    others = sorted(host for host in hosts if (host.address, host.port) != expected)
    if store.conf is None and not others and expected[0] == "127.0.0.1" and hosts:
        others = sorted(hosts)
    if others:
        count = sum(hosts[host] for host in others)
        is_no_host = store.conf is None and len(others) == len(hosts)
        yield HandoverFinding(
            "store-host",
            f"{_count(count, 'record')} with {_names([str(host) for host in others])}"
            + ("" if is_no_host else f", not {expected[0]}:{expected[1]}"),
            "Offset message ids name that address: queries by such an id go there and not to the broker",
            "give new stores the broker's address before the first put (StoreSettings.store_host); queries by key and "
            "unique key find these messages all the same",
        )


def _attributes(store: _Store) -> Iterator[HandoverFinding]:
    named = sorted(name for name, topic in store.view.topics(include_system=True).items() if topic.attributes)
    if named:
        yield HandoverFinding(
            "topic-attributes",
            f"{_count(len(named), 'topic')} with attributes: {_names(named)}",
            "Slaves of 5.3.2 and 5.3.3 lose their topics over them (apache/rocketmq#9403)",
            "use slaves of another release, or none",
        )


def _batch_queues(store: _Store) -> Iterator[HandoverFinding]:
    named = sorted(name for name, topic in store.view.topics().items() if topic.holds_batches)
    if named:
        yield HandoverFinding(
            "batch-queues",
            f"{_count(len(named), 'topic')} with batch queues: {_names(named)}",
            "The gRPC proxy hands whole batches out as if each were one message. Java's pull consumers are right",
            "read these topics with remoting clients that pull",
        )


def _deleted_topics(store: _Store) -> Iterator[HandoverFinding]:
    deleted, there = store.view.deleted_topics.marked(), store.view.topics()
    if deleted:
        again = sorted(name for name in deleted if name in there)
        text = f"; {_names(again)} of them made again" if again else ""
        yield HandoverFinding(
            "deleted-topics",
            f"{_count(len(deleted), 'deleted topic')} with records in the log{text}",
            "A slave or a broker that makes its queues from the log shows the old messages again, and new ones of the "
            "same topic behind them",
            "seed slaves with a copy of this folder, and never let a broker rebuild consumequeue/",
        )


def _cancelled_timers(store: _Store) -> Iterator[HandoverFinding]:
    names_topic = store.conf is not None and store.conf.names_topic_of_cancelled
    count = 0 if names_topic else waiting_cancellations(store.view, time.time_ns() // 1_000_000)
    if count:
        yield HandoverFinding(
            "cancelled-timers",
            f"{_count(count, 'cancelled timer')} that would not be due yet; the conf lacks {CANCELLED_BY_TOPIC}=true",
            "A broker of 5.5 looks for cancellations by UNIQ_KEY alone, and delivers these messages; 5.3 does not",
            f"start the broker with {CANCELLED_BY_TOPIC}=true, as `flightlog handover broker-conf` writes it",
        )


def _release_49(store: _Store) -> Iterator[HandoverFinding]:
    found = [
        f"{count:,} {what}"
        for count, what in unknown_to_49(store.disk, store.root, store.view, store.survey, store.check_points)
    ]
    if found:
        yield HandoverFinding(
            "rocketmq-4.9",
            "; ".join(found),
            "Brokers of 4.9 do not take these; they take all other messages, delay levels, and what members of the "
            "remoting protocol sent back",
            "use a broker of 5.x, or have them delivered here first",
        )


Look = Callable[[_Store], Iterator[HandoverFinding]]
FINDINGS: tuple[Look, ...] = (
    *(_in_use, _rocksdb, _damage, _file_sizes, _retention),
    *(_topic_names, _group_names),
)
NOTES: tuple[Look, ...] = (
    *(_closed, _empty_bodies, _broker_name, _store_hosts),
    *(_attributes, _batch_queues, _deleted_topics, _cancelled_timers, _release_49),
)
