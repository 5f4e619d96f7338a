"""Settings from a RocketMQ broker's own file, `broker.conf`.

RocketMQ keeps its default, silently, where it cannot read a value. Here it is an error that names file and line,
because `flushDiskType = SYNC` was written for a reason. Blanks behind a value are ignored.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..disk.disk import Disk, RealDisk
from ..errors import InvalidSettingsError
from ..segments.log_files import COMMIT_LOG_FOLDER
from ..settings import FlushMode, StoreSettings
from .broker_promises import KNOWN, UnkeptPromise, unkept_promise
from .java_properties import MalformedEscapeError, Property, parse_properties

log = logging.getLogger("flightlog.settings")

MAX_FILE_SIZE = 1 << 20
"""A broker has some 500 settings: 30 KB with all of them."""
MAX_SHOWN = 80
MAX_NAMED = 20
QUEUE_ENTRY_SIZE = 20
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")

NAMES: Mapping[str, str] = {
    "segment_size": "mappedFileSizeCommitLog",
    "queue_file_entries": "mappedFileSizeConsumeQueue",
    "key_index": "messageIndexEnable",
    "index_slots": "maxHashSlotNum",
    "index_entries": "maxIndexNum",
    "flush_mode": "flushDiskType",
    "flush_interval_ms": "flushIntervalCommitLog",
    "flush_least_pages": "flushCommitLogLeastPages",
    "flush_thorough_interval_ms": "flushCommitLogThoroughInterval",
    "queue_flush_interval_ms": "flushIntervalConsumeQueue",
    "queue_flush_least_pages": "flushConsumeQueueLeastPages",
    "queue_flush_thorough_interval_ms": "flushConsumeQueueThoroughInterval",
    "sync_flush_timeout_ms": "syncFlushTimeout",
    "max_message_size": "maxMessageSize",
    "queue_extension": "enableConsumeQueueExt",
    "queue_extension_file_size": "mappedFileSizeConsumeQueueExt",
    "multi_dispatch": "enableMultiDispatch",
    "auto_create_topics": "autoCreateTopicEnable",
    "default_queue_count": "defaultTopicQueueNums",
    "append_crc_property": "enabledAppendPropCRC",
    "check_crc_property": "forceVerifyPropCRC",
    "delay_levels": "messageDelayLevel",
    "delay_save_interval_ms": "flushDelayOffsetInterval",
    "offset_save_interval_ms": "flushConsumerOffsetInterval",
    "timer_max_delay_s": "timerMaxDelaySec",
    "timer_slot_max_count": "timerCongestNumEachSlot",
    "transaction_timeout_ms": "transactionTimeOut",
    "transaction_check_interval_ms": "transactionCheckInterval",
    "transaction_check_max_count": "transactionCheckMax",
    "get_memory_max_size": "maxTransferBytesOnMessageInMemory",
    "get_memory_max_count": "maxTransferCountOnMessageInMemory",
    "get_disk_max_size": "maxTransferBytesOnMessageInDisk",
    "get_disk_max_count": "maxTransferCountOnMessageInDisk",
    "access_memory_percent": "accessMessageInMemoryMaxRatio",
    "get_scan_size": "maxFilterMessageSize",
    "retention_hours": "fileReservedTime",
    "delete_when": "deleteWhen",
    "disk_max_used_percent": "diskMaxUsedSpaceRatio",
    "disk_clean_forcibly_percent": "diskSpaceCleanForciblyRatio",
    "disk_warning_percent": "diskSpaceWarningLevelRatio",
    "clean_forcibly": "cleanFileForciblyEnable",
    "clean_interval_ms": "cleanResourceInterval",
    "clean_batch_count": "deleteFileBatchMax",
}
"""Our setting -> RocketMQ's. `store_host` comes from two, see below."""

BROKER_DEFAULTS: Mapping[str, Any] = {"retention_hours": 72}
"""What a broker does unless it is told otherwise, and a store of flightlog only if it is told."""

ADDRESS, PORT = "brokerIP1", "listenPort"
ROOT, COMMIT_LOG = "storePathRootDir", "storePathCommitLog"
READ_ONLY_LOG = "readOnlyCommitLogStorePaths"
BROKER_NAME = "brokerName"

CANCELLED_BY_TOPIC = "appendTopicForTimerDeleteKey"
"""A setting of RocketMQ 5.5: whether a timer to be cancelled is named by its topic, too, as 5.3 and flightlog name
it."""
KEPT = frozenset({*NAMES.values(), ADDRESS, PORT, ROOT, COMMIT_LOG, READ_ONLY_LOG})
"""RocketMQ's names of the settings that are taken over. What becomes of the others: store/conf/broker_promises.py."""


@dataclass(frozen=True, slots=True)
class BrokerConf:
    """What a `broker.conf` says about its store."""

    path: Path
    settings: StoreSettings
    root: Path | None
    """The store's folder (`storePathRootDir`); None where the file does not say it, which means `$HOME/store`."""
    commit_log: str | None
    """`storePathCommitLog` as it stands there; None means `commitlog` in the store's folder."""
    broker_name: str | None
    """`brokerName`; None where the file does not say it, which means the name of the machine."""
    names_topic_of_cancelled: bool
    """`appendTopicForTimerDeleteKey`, false by default: unless it is true, a broker of 5.5 delivers timers that were
    cancelled by another release, or here."""
    mapped: tuple[str, ...]
    """RocketMQ's names of what is in `settings` now, in the order of the file."""
    ignored: tuple[str, ...]
    """RocketMQ's names of what does not concern a store of flightlog. Without values: some of them are secret."""
    unkept: tuple[UnkeptPromise, ...]
    """Settings that promise what flightlog does not keep, in the order of the file. Those that promise safety are in
    `settings.unkept_promises`, too: opening for writing refuses them."""
    unknown: tuple[str, ...]
    """Names of what is no setting of RocketMQ 5.3.3: typing errors, or settings of another release."""

    @property
    def log_folders(self) -> tuple[str, ...]:
        """Folders of segments that the file names in place of the store's own."""
        return self.settings.commit_log_folders + self.settings.commit_log_read_only_folders

    def settings_for(self, root: Path) -> StoreSettings:
        """`settings`, for the store at `root`. Raises InvalidSettingsError where they name the folders of another
        store's log, which would be read, and written, as this store's. A file without `storePathRootDir` does not
        say whose folders it names."""
        if self.log_folders and self.root is not None and not _is_same(self.root, root):
            raise InvalidSettingsError(
                f"{self.path}: it names the folders of the log of {self.root}, expected those of {root}: correct "
                "storePathRootDir, or leave it out"
            )
        return self.settings


def _is_same(folder: Path, other: Path) -> bool:
    try:
        return folder.samefile(other)
    except OSError:  # one of them is not there
        return os.path.realpath(folder) == os.path.realpath(other)


def read_broker_conf(path: str | os.PathLike[str], *, disk: Disk | None = None) -> BrokerConf:
    """Read a broker's settings. What the file leaves out has RocketMQ's default: so messages go after 72 hours
    (`retention_hours`). A new topic without a number of queues gets 4, though: what RocketMQ's clients ask for.

    What promises something that flightlog does not keep is logged as a warning, one for each setting; what is not a
    setting of RocketMQ is named in one more.

    Where the file names no `brokerIP1`, RocketMQ asks the machine for its address; `store_host` keeps its default then.
    Raises InvalidSettingsError, with file and line, for what makes no sense, and for a file that is none.
    """
    path = Path(path)
    last: dict[str, Property] = {}
    for found in _read(path, disk or RealDisk()):
        last.pop(found.key, None)
        last[found.key] = found
    conf = _Conf(path, last).convert()
    log.info(
        "%s: %d settings taken over, %d ignored",
        *(path, len(conf.mapped), len(conf.ignored)),
        extra={"path": str(path), "mapped": conf.mapped, "ignored": conf.ignored},
    )
    for promise in conf.unkept:
        text = "%s, %s" + ("; opening for writing refuses it" if promise.is_safety else "")
        log.warning(text, path, promise, extra={"path": str(path), "setting": promise.name, "line": promise.line})
    if conf.unknown:
        shown = ", ".join(name[:MAX_SHOWN] for name in conf.unknown[:MAX_NAMED])
        text = "%s: %d names are no settings of RocketMQ 5.3.3 and were ignored: %s"
        log.warning(text, path, len(conf.unknown), shown, extra={"path": str(path), "unknown": conf.unknown})
    return conf


def _read(path: Path, disk: Disk) -> list[Property]:
    if not path.is_file():
        raise InvalidSettingsError(f"{path}: no such file; expected a RocketMQ broker.conf")
    file = disk.open(path)
    try:
        raw = file.read(0, MAX_FILE_SIZE + 1)
    finally:
        file.close()
    if len(raw) > MAX_FILE_SIZE:
        raise InvalidSettingsError(f"{path}: more than {MAX_FILE_SIZE} bytes long; expected a RocketMQ broker.conf")
    if b"\0" in raw or raw.startswith(b"\xef\xbb\xbf"):
        # Java takes a byte order mark for a part of the first key, and loses that setting.
        line = raw[: max(raw.find(b"\0"), 0)].count(b"\n") + 1
        raise InvalidSettingsError(
            f"{path}, line {line}: found a zero byte or a byte order mark, expected a Java properties file: "
            "save it as plain ASCII or as UTF-8 without a mark"
        )
    try:
        return parse_properties(raw)
    except MalformedEscapeError as e:
        raise InvalidSettingsError(f"{path}, {e}") from e


class _Conf:
    """The properties of one file on their way into settings."""

    def __init__(self, path: Path, found: Mapping[str, Property]) -> None:
        self._path, self._found = path, found
        self._mapped: set[str] = set()

    def convert(self) -> BrokerConf:
        values = dict(BROKER_DEFAULTS)
        for ours, theirs in NAMES.items():
            if theirs in self._found:
                self._put(values, ours, theirs)
        if ADDRESS in self._found or PORT in self._found:
            self._put_host(values)
        root, commit_log = self._text(ROOT), self._text(COMMIT_LOG)
        if commit_log is not None and commit_log != f"{root}/{COMMIT_LOG_FOLDER}":
            values["commit_log_folders"] = _folders(commit_log)
        if READ_ONLY_LOG in self._found:
            values["commit_log_read_only_folders"] = _folders(self._text(READ_ONLY_LOG) or "")
            self._mapped.add(READ_ONLY_LOG)
        found = (self._unkept(each) for name, each in self._found.items() if name not in KEPT)
        unkept = tuple(promise for promise in found if promise is not None)
        values["unkept_promises"] = tuple(f"{self._path}, {promise}" for promise in unkept if promise.is_safety)
        try:
            settings = StoreSettings(**values)
        except InvalidSettingsError as e:  # two that contradict each other: each of them alone was accepted
            raise InvalidSettingsError(f"{self._path}: {e}") from e
        named = {promise.name for promise in unkept}
        return BrokerConf(
            self._path,
            settings,
            None if root is None else Path(root),
            commit_log,
            self._found[BROKER_NAME].value.strip() if BROKER_NAME in self._found else None,
            CANCELLED_BY_TOPIC in self._found and self._found[CANCELLED_BY_TOPIC].value.strip() == "true",
            tuple(name for name in self._found if name in self._mapped),
            tuple(name for name in self._found if name in KNOWN and name not in named),
            unkept,
            tuple(name for name in self._found if name not in KEPT | KNOWN),
        )

    def _unkept(self, found: Property) -> UnkeptPromise | None:
        return unkept_promise(found.key, _shown(found.value.strip()), found.line)

    def _put(self, values: dict[str, Any], ours: str, theirs: str) -> None:
        found = self._found[theirs]
        try:
            values[ours] = convert_value(ours, found.value)
            StoreSettings(**{ours: values[ours]})
        except (InvalidSettingsError, ValueError) as e:
            raise self._error(found, e) from e
        self._mapped.add(theirs)

    def _put_host(self, values: dict[str, Any]) -> None:
        address, port = StoreSettings().store_host
        for name in (ADDRESS, PORT):
            if name in self._found:
                found = self._found[name]
                try:
                    if name == ADDRESS:
                        address = found.value.strip()
                    else:
                        port = _number(found.value.strip())
                    StoreSettings(store_host=(address, port))
                except (InvalidSettingsError, ValueError) as e:
                    raise self._error(found, e) from e
                self._mapped.add(name)
        values["store_host"] = (address, port)

    def _text(self, name: str) -> str | None:
        found = self._found.get(name)
        if found is None:
            return None
        text = found.value.strip()
        if not text or not text.isprintable():
            raise self._error(found, ValueError("expected a path"))
        return text

    def _error(self, found: Property, why: Exception) -> InvalidSettingsError:
        value = _shown(found.value)
        return InvalidSettingsError(f"{self._path}, line {found.line}: {found.key} = {value!r}: {str(why)[:300]}")


def convert_value(name: str, text: str) -> Any:
    """RocketMQ's text for the setting that we call `name`. Raises ValueError with what was expected."""
    kind = str(StoreSettings.__dataclass_fields__[name].type).removesuffix(" | None")
    return (CONVERTERS.get(name) or CONVERTERS[kind])(text.strip())


def _shown(value: str) -> str:
    return value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + "..."


def _number(text: str) -> int:
    if WHOLE_NUMBER.fullmatch(text) is None:
        raise ValueError("expected a whole number")
    return int(text)


def _folders(text: str) -> tuple[str, ...]:
    return tuple(folder.strip() for folder in text.split(",") if folder.strip())


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _flush_mode(text: str) -> FlushMode:
    names = [mode.value for mode in FlushMode]
    if text not in names:
        raise ValueError(f"expected {' or '.join(names)}")
    return FlushMode(text)


def _queue_entries(text: str) -> int:
    """RocketMQ rounds the bytes of a queue file up to whole entries."""
    return -(-_number(text) // QUEUE_ENTRY_SIZE)


CONVERTERS: Mapping[str, Callable[[str], Any]] = {
    "int": _number,
    "bool": _switch,
    "str": str,
    "FlushMode": _flush_mode,
    "queue_file_entries": _queue_entries,
}
"""From RocketMQ's text, by the type of our setting or, where that is not enough, by its name."""


TEXTS: Mapping[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "FlushMode": lambda value: value.value,
    "queue_file_entries": lambda value: str(value * QUEUE_ENTRY_SIZE),
}
"""RocketMQ's text of a value, by the name of our setting or by its type; `str` for others."""
assert set(TEXTS) == {"bool", FlushMode.__name__, "queue_file_entries"}


def broker_text(name: str, value: Any) -> str:
    """The value of one of our settings, as `broker.conf` has it."""
    return TEXTS.get(name, TEXTS.get(type(value).__name__, str))(value)
