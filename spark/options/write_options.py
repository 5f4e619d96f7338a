"""Options of a write: `df.write.format("flightlog").mode("append").save(path)`.

    path         the folder of the store, the argument of save() and start(). A missing store is created
    topic        the topic of all rows; without it, each row names its topic in a column `topic`
    stagingPath  a folder that driver and executors share, for rows until they are appended; by default
                 flightlog/staging in the store
    settings     a broker.conf with the settings that the store is opened with (store_settings.py)
    rocketmqStrict  true (default) or false: whether new topics must have names, and rows bodies, that RocketMQ's
                 clients take (the setting `rocketmq_strict`)

Names are taken in any case. A stream's own options (checkpointLocation and the like) are Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...store.errors import InvalidSettingsError
from ...store.settings import StoreSettings
from ...store.state.progress import FLIGHTLOG_FOLDER
from .store_settings import SETTINGS, local_path, settings_of

NAMES = ("path", "topic", "stagingPath", "settings", "rocketmqStrict")
STREAM_NAMES = frozenset({"checkpointlocation", "queryname"})
"""Options of a stream that are Spark's and not ours."""
STAGING_FOLDER = "staging"
LOCAL = "a store is written in a local or mounted folder alone"
"""Nothing else can be locked or appended to."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked."""

    root: Path
    """Absolute: workers may run in another folder."""
    topic: str | None
    """None: each row has its own."""
    staging: Path
    settings: StoreSettings = SETTINGS
    """Settings of the store while rows are appended."""


def default_staging(root: Path) -> Path:
    """The staging folder of a store, where the option stagingPath names no other."""
    return root / FLIGHTLOG_FOLDER / STAGING_FOLDER


def parse_write_options(options: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """Check the options as Spark hands them over. Raises InvalidSettingsError with what was expected."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower() for name in NAMES} | (STREAM_NAMES if is_stream else set())
    unknown = sorted(given.keys() - known)
    if unknown:
        raise InvalidSettingsError(f"option {unknown[0]!r}: unknown to a write; expected one of {', '.join(NAMES)}")
    if not given.get("path"):
        way = (
            'df.writeStream.format("flightlog").start'
            if is_stream
            else 'df.write.format("flightlog").mode("append").save'
        )
        raise InvalidSettingsError(
            f'no path: expected {way}("/folder/of/the/store"). Spark hands no path over where rows are inserted into a '
            "table: in SQL expected INSERT INTO name WITH (path = '/folder/of/the/store') ..., or a temporary view; in "
            "place of saveAsTable(name) and CREATE TABLE ... AS SELECT expected save(path), then CREATE TABLE name "
            "USING flightlog OPTIONS (path '/folder/of/the/store')"
        )
    root = local_path("path", given["path"], LOCAL)
    staging = given.get("stagingpath")
    if given.get("topic") == "":
        raise InvalidSettingsError("topic='': expected the name of a topic, or no such option and a column topic")
    settings = settings_of(given, root)
    if settings.unkept_promises:
        raise InvalidSettingsError(
            f"settings={given['settings']!r} promises what is not kept: {'; '.join(settings.unkept_promises)}. Take "
            "these lines out of the file"
        )
    strict = given.get("rocketmqstrict", str(settings.rocketmq_strict)).lower()
    if strict not in ("true", "false"):
        raise InvalidSettingsError(f"rocketmqStrict={given['rocketmqstrict']!r}: expected true or false")
    return WriteOptions(
        root,
        given.get("topic"),
        default_staging(root) if staging is None else local_path("stagingPath", staging, LOCAL),
        # A write deletes nothing: a broker's default is 72 hours.
        replace(settings, rocketmq_strict=strict == "true", retention_hours=None, clean_forcibly=False),
    )
