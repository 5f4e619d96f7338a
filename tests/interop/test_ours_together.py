"""`append_atomically` and RocketMQ: it reads all the rows, and of those that were never committed none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, TopicColumns
from flightlog.store.log.atomic_append import AtomicRange
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import RocketMq

pytestmark = pytest.mark.ci


def parts(word: str) -> Iterator[TopicColumns]:
    """600 rows of three topics: three segments."""
    for number in range(6):
        bodies = [f"{word} {number} {row} ".encode() + bytes(150) for row in range(100)]
        columns = {"value": bodies, "partition": [row % 3 for row in range(100)], "tags": "T", "keys": word}
        yield TopicColumns(f"topic{number % 3}", columns)


def die(appended: AtomicRange) -> None:
    raise InterruptedError(f"before the commit of {appended.count} rows")


def test_rocketmq_reads_all_rows_of_an_append_and_none_of_one_that_was_not_committed(
    rocketmq: RocketMq, tmp_path: Path
) -> None:
    killed, settings = tmp_path / "killed", mixed.small_settings()
    store = flightlog.open(killed, settings)
    store.put(Message("topic0", b"before"))
    store.append_atomically(parts("committed"))
    with pytest.raises(InterruptedError):
        store.append_atomically(parts("never"), die)
    store.close()
    assert (killed / "abort").exists()
    assert len(list((killed / "commitlog").iterdir())) >= 4, (
        "the rows that were not committed lie in segments of their own"
    )
    theirs = Path(shutil.copytree(killed, tmp_path / "theirs"))
    with flightlog.open(killed, settings) as store:
        found = mixed.read_all(store)
        assert store.verify().is_clean
    assert len(found) == 1 + 600
    assert len(list((killed / "commitlog").iterdir())) < len(list((theirs / "commitlog").iterdir()))

    opened = rocketmq.open_store(theirs, append=300, **mixed.SMALL)

    assert opened.store["abortFileBefore"]
    mixed.check_rocketmq(opened, found)
    with flightlog.open(theirs, settings) as store:
        mixed.check_flightlog(store, found + list(map(mixed.their_line, opened.appended)))
        report = store.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
    assert report.records == 601 + 300
