"""The small store that ships with flightlog: written by Apache RocketMQ, with a list of the messages that it put."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from importlib.resources import files
from pathlib import Path

from ...store.errors import FlightlogError

ARCHIVE = "rocketmq-5.3.3-orders.tar.xz"
ROCKETMQ_VERSION = "5.3.3"
MANIFEST = "manifest.jsonl"
STORE = "store"


class MissingDataError(FlightlogError):
    """The archive is missing in this installation."""


def unpack_rocketmq_store(folder: Path) -> Path:
    """Unpack the archive into `folder`. Returns the folder of the store. Raises MissingDataError."""
    archive = files(__package__.rpartition(".")[0]).joinpath("data", ARCHIVE)
    if not archive.is_file():
        raise MissingDataError(
            f"{archive}: the store that RocketMQ wrote is not here. Reinstall flightlog, which contains it"
        )
    with archive.open("rb") as opened, tarfile.open(fileobj=opened, mode="r:xz") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has it from 3.11.4 on
        tar.extractall(folder)
    return folder / STORE


def put_by_rocketmq(folder: Path) -> Counter[str]:
    """Number of messages in each topic, from RocketMQ's list, which is unpacked next to the store."""
    with open(folder / MANIFEST, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return Counter(row["topic"] for row in rows if row["type"] == "msg" and row["status"] == "PUT_OK")
