"""A disk that is full in the middle of the deletion of a topic: the store goes on, and what is made since stays."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import DiskFullError
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

NEVER_MS = 3_600_000
SETTINGS = StoreSettings.small(
    flush_interval_ms=NEVER_MS, queue_flush_interval_ms=NEVER_MS, index_flush_interval_ms=NEVER_MS
)


@pytest.mark.parametrize(("part", "skip"), [("topics.json", 0), ("deleted-topics.json", 1)])
def test_a_topic_made_again_after_half_a_deletion_stays(
    part: str, skip: int, disk: FaultyDisk, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """Its queues were gone when the disk was full. The note of it would take the new topic, too, at the next open."""
    store = flightlog.open(tmp_path, SETTINGS, disk=disk)
    store.put_many([Message(topic, b"%d" % number) for number in range(10) for topic in ("goes", "stays")])
    disk.fail("write", f"/{part}", errno.ENOSPC, skip=skip)
    with pytest.raises(DiskFullError):
        store.delete_topic("goes")
    with pytest.raises(DiskFullError):
        store.create_topic("goes", 7)
    disk.heal()
    store.create_topic("goes", 7)
    kill(store)
    with flightlog.open(tmp_path, SETTINGS) as store:
        made = store.topic("goes")
        assert made is not None and made.queue_count == 7
        assert store.queues() == {("stays", 0): (0, 10)}
    assert_clean(tmp_path)
