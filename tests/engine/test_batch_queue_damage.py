"""Batch queues that disagree with the log: told by a view and by verify, mended by opening for writing, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.index.queue.batch_unit import BATCH_UNIT_DTYPE, BATCH_UNIT_SIZE
from flightlog.store.errors import CorruptRecordError, SegmentLengthError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

BATCHES, A_BATCH = 6, 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Six batches of three messages, and ordinary ones of another topic."""
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        for i in range(BATCHES):
            store.put_batch([Message("b", b"%d-%d" % (i, j), tags=f"t{j}", keys=["all"]) for j in range(A_BATCH)])
            store.put(Message("t", b"%d" % i))
    return tmp_path / "store"


def file_of(path: Path) -> Path:
    return path / "batchconsumequeue" / "b" / "0" / f"{0:020d}"


def bodies(store: flightlog.Store | flightlog.ReadOnlyStore) -> list[bytes]:
    return [message.body for message in store.read("b")]


ALL = [b"%d-%d" % (i, j) for i in range(BATCHES) for j in range(A_BATCH)]


def change(path: Path, entry: int, **fields: int) -> None:
    """Change fields of an entry; one behind the last is a copy of the last one."""
    with file_of(path).open("r+b") as file:
        file.seek(BATCH_UNIT_SIZE * min(entry, BATCHES - 1))
        unit = np.frombuffer(file.read(BATCH_UNIT_SIZE), BATCH_UNIT_DTYPE).copy()
        for name, value in fields.items():
            unit[name] = value
        file.seek(BATCH_UNIT_SIZE * entry)
        file.write(unit.tobytes())


def findings(path: Path) -> list[tuple[Path, int, str]]:
    with flightlog.open_read_only(path) as view:
        return [(finding.path, finding.offset, finding.meaning) for finding in view.verify().findings]


def test_an_entry_of_no_batch_behind_the_last_one(path: Path, assert_clean: AssertClean) -> None:
    change(path, BATCHES, physical_offset=1 << 19, base=A_BATCH * BATCHES)
    [(where, offset, meaning)] = findings(path)
    assert (where, offset) == (file_of(path).parent, A_BATCH * BATCHES)
    assert meaning.startswith("1 phantom entries behind the last batch")
    with flightlog.open(path) as store:
        assert bodies(store) == ALL
    assert_clean(path)


def test_an_entry_that_says_something_else_than_the_log(path: Path, assert_clean: AssertClean) -> None:
    change(path, 2, store_timestamp_ms=1)
    [(where, offset, meaning)] = findings(path)
    assert (where, offset, meaning) == (
        file_of(path).parent,
        2 * A_BATCH,
        "1 entries of batches that differ from the log",
    )
    (path / "abort").touch()  # as one that was killed: every queue is compared with the log
    (path / "flightlog" / "progress").unlink()
    with flightlog.open(path) as store:
        assert bodies(store) == ALL
    assert_clean(path)


def test_a_queue_file_of_the_wrong_length(path: Path) -> None:
    """A view reads everything else; a writer refuses, and nothing has changed. Lengths are what files agree on."""
    size = file_of(path).stat().st_size
    for number in (1, 2):
        with (file_of(path).parent / f"{number * size:020d}").open("wb") as file:
            file.truncate(size)
    short = file_of(path).parent / f"{3 * size:020d}"
    short.write_bytes(b"cut off")
    with flightlog.open_read_only(path) as view:
        assert any(short.name in damage for damage in view.report.damage)
        assert len(list(view.read("t"))) == BATCHES
        assert any(short.name in str(finding) for finding in view.verify().findings)
    with pytest.raises(SegmentLengthError, match=short.name):
        flightlog.open(path)
    short.unlink()
    with flightlog.open(path) as store:
        assert bodies(store) == ALL


def test_messages_of_batches_are_counted_by_their_own_tags(path: Path) -> None:
    """Entries of batches have no hash of a tag: their records tell."""
    with flightlog.open_read_only(path) as view:
        end = A_BATCH * BATCHES
        assert view.estimate_count("b", 0, 0, end, tags="t1") == BATCHES
        assert view.estimate_count("b", 0, 2, 8, tags="t1 || t2") == 4
        assert view.estimate_count("b", 0, 0, end, tags="none") == 0


def test_a_batch_whose_body_is_damaged_is_told_or_left_out_by_a_query(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        place = next(view.read("b", 0, 2 * A_BATCH)).physical_offset
    with (path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(place + 100)
        log.write(b"?")
    with flightlog.open_read_only(path) as view:
        with pytest.raises(CorruptRecordError):
            view.query("b", "all")
        found = view.query("b", "all", on_corrupt="skip").messages
        assert [message.body for message in found] == [body for body in reversed(ALL) if not body.startswith(b"2-")]
        assert view.corrupt_skipped >= 1
