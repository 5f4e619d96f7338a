"""The `broker.conf` that fits one store: the reverse of `StoreSettings.from_broker_conf`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..engine.read_only import ReadOnlyStore, open_read_only
from ..index.queue.queue_table import last_entry
from ..store.arguments import checked_path
from ..store.conf.broker_conf import CANCELLED_BY_TOPIC, NAMES, READ_ONLY_LOG, broker_text
from ..store.conf.java_properties import escaped_value
from ..store.conf.settings_check import check_host
from ..store.disk.disk import RealDisk
from ..store.segments.log_files import LogFolders
from ..store.settings import StoreSettings
from .sizes import with_sizes

FOR_EVER_HOURS = 876_000
"""A hundred years: RocketMQ has no value for "never"."""
SIZES = ("segment_size", "queue_file_entries", "index_slots", "index_entries")
EXTENSION = ("queue_extension", "queue_extension_file_size")
ALWAYS = ("flush_mode", "delay_levels", "default_queue_count", "auto_create_topics")
"""Named in any case: a person looks for them, or a release of RocketMQ may have another default."""
RETENTION = ("retention_hours", "clean_forcibly")
RETENTION_DETAILS = (
    *("delete_when", "disk_max_used_percent", "disk_clean_forcibly_percent", "disk_warning_percent"),
    *("clean_interval_ms", "clean_batch_count"),
)
TOLD_APART = frozenset({*SIZES, *EXTENSION, *ALWAYS, *RETENTION, *RETENTION_DETAILS, "multi_dispatch"})


def broker_conf(
    path: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    address: str | None = None,
    port: int | None = None,
    broker_id: int = 0,
    broker_name: str | None = None,
    cluster_name: str = "DefaultCluster",
    name_server: str = "127.0.0.1:9876",
) -> str:
    """The text of a `broker.conf` with which a RocketMQ broker (5.3 or newer) serves the store in `path` as it is.

    File sizes are those of the store's files, whatever `settings` leaves out; everything else is what `settings` says,
    the settings that the store is opened with here. Nothing is deleted by age unless `retention_hours` says so: a
    broker without this file deletes what is older than 72 hours. `address` and `port` are the broker's own; None takes
    those in the newest message, whose id names them, or else `settings.store_host`. `broker_name` is the name that the
    store has had, `settings.broker_name`, unless you give one: what groups received and did not acknowledge names it,
    and a broker of another name never delivers that. A `broker_id` above 0 makes it the conf of a slave, which also
    serves reads.

    The text is ASCII; comments say why. `StoreSettings.from_broker_conf` reads it back. Nothing is written, no lock is
    taken. Raises StoreNotFoundError, GeometryMismatchError for a size in `settings` that the store does not have,
    InvalidSettingsError for an address that is none, ConfigFileError, DiskError.
    """
    root = checked_path("path", path).absolute()
    disk = RealDisk()
    settings = with_sizes(disk, root, settings or StoreSettings())
    with open_read_only(root, replace(settings, unkept_promises=())) as view:
        host = _newest_store_host(view) or settings.store_host
    host = (host[0] if address is None else address, host[1] if port is None else port)
    check_host("address, port", host)
    lines = [
        *_head(root, settings, host),
        *_identity(broker_id, broker_name or settings.broker_name, cluster_name, name_server),
        "",
        "# Sizes of the files that are there: a broker that expects others does not start.",
        *(_line(settings, name) for name in SIZES + (EXTENSION if settings.queue_extension else ())),
        "",
        "# What the store was run with.",
        *(_line(settings, name) for name in ALWAYS),
        *_light_queues(settings),
        *_changed(settings),
        "",
        *_retention(settings),
        "",
        "# What flightlog does in any case, and a broker where it is told to.",
        *("enablePropertyFilter=true", "timerWheelEnable=true", "recallMessageEnable=true"),
        "# Of 5.5: it delivers timers that were cancelled here otherwise.",
        f"{CANCELLED_BY_TOPIC}=true",
    ]
    return "\n".join(lines) + "\n"


def _newest_store_host(view: ReadOnlyStore) -> tuple[str, int] | None:
    ends = [entry.physical_offset for _, queue in view.queue_table.items() if (entry := last_entry(queue)) is not None]
    message = view.message_at(max(ends)) if ends else None
    return None if message is None else (message.store_host.address, message.store_host.port)


def _head(root: Path, settings: StoreSettings, host: tuple[str, int]) -> Iterator[str]:
    folders = LogFolders.of(root, settings)
    yield "# For the store in the folder below, made by flightlog. Start: mqbroker -c THIS_FILE"
    yield f"storePathRootDir={escaped_value(str(root))}"
    yield f"storePathCommitLog={escaped_value(','.join(map(str, folders.writable)))}"
    if folders.read_only:
        yield f"{READ_ONLY_LOG}={escaped_value(','.join(map(str, folders.read_only)))}"
    yield ""
    yield "# Clients go to this address, and ids of messages have it in them."
    for name, value in (("brokerIP1", host[0]), ("brokerIP2", host[0]), ("listenPort", str(host[1]))):
        yield f"{name}={escaped_value(value)}"


def _identity(broker_id: int, broker_name: str, cluster_name: str, name_server: str) -> Iterator[str]:
    yield ""
    yield "# What was received and not acknowledged names its broker: another one would never deliver it again."
    for name, value in (("brokerClusterName", cluster_name), ("brokerName", broker_name), ("namesrvAddr", name_server)):
        yield f"{name}={escaped_value(value)}"
    yield f"brokerId={broker_id}"
    yield from ["brokerRole=SLAVE", "slaveReadEnable=true"] if broker_id else ["brokerRole=ASYNC_MASTER"]


def _line(settings: StoreSettings, name: str) -> str:
    return f"{NAMES[name]}={escaped_value(broker_text(name, getattr(settings, name)))}"


def _light_queues(settings: StoreSettings) -> Iterator[str]:
    if settings.multi_dispatch:
        yield _line(settings, "multi_dispatch")
        yield "enableLmq=true"


def _changed(settings: StoreSettings) -> Iterator[str]:
    usual = StoreSettings()
    for name in NAMES:
        if name not in TOLD_APART and getattr(settings, name) != getattr(usual, name):
            yield _line(settings, name)


def _retention(settings: StoreSettings) -> Iterator[str]:
    if settings.retention_hours is None:
        yield "# Nothing is deleted. Without these two lines a broker deletes what is older than 72 hours, and above"
        yield "# 85 % of the disk the oldest messages, whatever their age."
        for_ever = replace(settings, retention_hours=FOR_EVER_HOURS, clean_forcibly=False)
        yield from (_line(for_ever, name) for name in RETENTION)
    else:
        yield "# What is deleted, and when."
        yield from (_line(settings, name) for name in (*RETENTION, *RETENTION_DETAILS))
    for name in ("retention_bytes", "retention"):
        if (value := getattr(settings, name)) is not None:
            yield f"# {name}={value} of flightlog has no counterpart: a broker keeps what it would let go."
