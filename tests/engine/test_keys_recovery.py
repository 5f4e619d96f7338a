"""The key index after a close, a kill and damage: every key of the log is there when the store is open for writing.

What an open sees without reading the index, and what only `verify` sees, stands at the damages below.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.index.key.index_file import HEADER_SIZE, INDEX_FOLDER, IndexGeometry
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.errors import GeometryMismatchError
from flightlog.tests.support import inside, keyed
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Numbered

    CopyAsKilled = Callable[[Path, Path], Path]

COUNT = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """60 messages with 132 keys in twelve index files, cleanly closed."""
    with flightlog.open(tmp_path / "store", keyed.settings()) as store:
        store.put_many(keyed.messages(0, COUNT))
    assert len(list((tmp_path / "store" / "index").iterdir())) == 12
    return tmp_path / "store"


def files(path: Path) -> list[Path]:
    return sorted((path / "index").iterdir())


class IndexCountingDisk(CountingDisk):
    """Counts what is read of index files."""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if path.parent.name == INDEX_FOLDER:
            return super().open(path, writable=writable, create=create)
        return RealDisk.open(self, path, writable=writable, create=create)


def overwrite(file: Path, position: int, raw: bytes) -> None:
    with open(file, "r+b") as opened:
        opened.seek(position)
        opened.write(raw)


# -- without damage


def test_after_a_close_nothing_is_read_for_keys(path: Path, assert_clean: AssertClean) -> None:
    for first in (COUNT, COUNT + 10):
        with flightlog.open(path, keyed.settings()) as store:
            report = store.recovery_report
            assert report.keys_put == 0 and report.keys_scanned_from == report.end
            store.put_many(keyed.messages(first, first + 10))
            keyed.check(store, first + 10)
    assert_clean(path)


def test_opening_an_index_of_default_size_reads_hardly_anything(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Its 20 MB of slots are read with the first put of a key, not before."""
    settings = StoreSettings(segment_size=1 << 20, flush_interval_ms=3_600_000)
    messages = [Message("t", b"%d" % i, keys=[f"k{i}", f"other-{i}"], uniq_key=f"u{i}") for i in range(3000)]
    with flightlog.open(tmp_path / "store", settings) as store:
        store.put_many(messages)
    disk = IndexCountingDisk(may_write=True)
    with flightlog.open(tmp_path / "store", disk=disk) as store:
        assert store.recovery_report.keys_put == 0
        assert 0 < disk.read_size < 1000
        assert [message.body for message in store.query("t", "k77").messages] == [b"77"]
        assert disk.read_size < 10_000
        store.put(messages[0])
        assert len(store.query("t", "k0").messages) == 2
        assert disk.read_size > 100_000, "what is counted here is not what is read"
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("entries", [3, 7, 12, 40])
def test_killed_at_any_moment(
    entries: int, tmp_path: Path, copy_as_killed: CopyAsKilled, assert_clean: AssertClean
) -> None:
    dice = random.Random(entries)
    count = 0
    with flightlog.open(tmp_path / "live", keyed.settings(index_entries=entries)) as store:
        for life in range(12):
            step = dice.choice((1, 1, 2, 5, 11))
            store.put_many(keyed.messages(count, count + step))
            count += step
            dice.choice(
                (store.queues, lambda: keyed.flush_index(store), inside.maintenance(store).flush_queues, store.flush)
            )()
            killed = copy_as_killed(tmp_path / "live", tmp_path / f"killed-{life}")
            with flightlog.open(killed) as recovered:
                keyed.check(recovered, count)
                assert recovered.verify().is_clean
                recovered.put_many(keyed.messages(count, count + 5))
                keyed.check(recovered, count + 5)
            assert assert_clean(killed).index_entries == keyed.key_count(count + 5)
            shutil.rmtree(killed)


def test_only_what_was_not_flushed_is_put_again(tmp_path: Path, copy_as_killed: CopyAsKilled) -> None:
    with flightlog.open(tmp_path / "live", keyed.settings()) as store:
        store.put_many(keyed.messages(0, 50))
        keyed.flush_index(store)
        flushed = inside.log(store).visible
        store.put_many(keyed.messages(50, COUNT))
        store.queues()
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    with flightlog.open(killed) as store:
        assert store.recovery_report.keys_scanned_from == flushed
        assert store.recovery_report.keys_put == keyed.key_count(COUNT) - keyed.key_count(50)
        keyed.check(store, COUNT)


def test_an_index_turned_off_and_on_again_is_completed(
    path: Path, tmp_path: Path, copy_as_killed: CopyAsKilled, assert_clean: AssertClean
) -> None:
    kept = files(path)[:-1]
    with flightlog.open(path, keyed.settings(key_index=False)) as store:
        store.put_many(keyed.messages(COUNT, 80))
        killed = copy_as_killed(path, tmp_path / "killed")
    assert_clean(path)
    for root in (path, killed):
        with flightlog.open(root, keyed.settings()) as store:
            assert store.recovery_report.keys_put == keyed.key_count(80) - keyed.key_count(COUNT)
            keyed.check(store, 80)
        assert assert_clean(root).index_entries == keyed.key_count(80)
    assert all(file.exists() for file in kept)


def test_settings_that_contradict_the_files(path: Path) -> None:
    for change in ({"index_slots": keyed.SLOTS + 1}, {"index_entries": keyed.ENTRIES + 1}):
        with pytest.raises(GeometryMismatchError, match=next(iter(change))):
            flightlog.open(path, keyed.settings(**change))
    with flightlog.open(path) as store:
        keyed.check(store, COUNT)


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_tail_that_is_cut_takes_its_keys_along(
    is_flushed: bool, tmp_path: Path, copy_as_killed: CopyAsKilled, numbered: Numbered, assert_clean: AssertClean
) -> None:
    """Keys of records that a power cut took stand in whole index files, flushed when those were full."""
    with flightlog.open(tmp_path / "live", keyed.settings()) as store:
        store.put_many(keyed.messages(0, 40))
        if is_flushed:
            keyed.flush_index(store)
        store.flush()
        results = store.put_many(keyed.messages(40, 80))
        store.queues()
        path = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    numbered.reboot(path)
    torn = results[7].physical_offset
    for segment in sorted((path / "commitlog").iterdir()):
        at = max(torn - int(segment.name), 0)
        if at < 4096:
            overwrite(segment, at, bytes(4096 - at))
    with flightlog.open(path) as store:
        assert store.recovery_report.end == torn
        keyed.check(store, 47)
        store.put(Message("t0", b"99999", keys="k47"))
        assert keyed.query(store, "t0", "k47") == [99999]
        assert keyed.query(store, "t1", "k47") == []
    assert_clean(path)


# -- damage


def remove_all(path: Path) -> None:
    shutil.rmtree(path / "index")


def remove(number: int) -> Callable[[Path], None]:
    return lambda path: files(path)[number].unlink()


def cut_short(number: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(files(path)[number], 100)


def zero_header(number: int) -> Callable[[Path], None]:
    return lambda path: overwrite(files(path)[number], 0, bytes(HEADER_SIZE))


def garbage_header(number: int) -> Callable[[Path], None]:
    return lambda path: overwrite(files(path)[number], 0, b"\xa5" * HEADER_SIZE)


def zero_headers(path: Path) -> None:
    for file in files(path):
        overwrite(file, 0, bytes(HEADER_SIZE))


def rename(number: int, name: str) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        file = files(path)[number]
        file.rename(file.with_name(name))

    return do


def swap(path: Path) -> None:
    one, other = files(path)[3], files(path)[7]
    raw = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(raw)


SEEN_AT_OPEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "all files removed": (remove_all, "missing"),
    "the oldest file removed": (remove(0), "missing"),
    "a file in the middle removed": (remove(5), "missing"),
    "the newest file removed": (remove(-1), "missing"),
    "a file cut short": (cut_short(5), "100 bytes long"),
    "the newest file cut short": (cut_short(-1), "100 bytes long"),
    "a header of zeros": (zero_header(5), "fewer entries"),
    "a header of zeros in the newest file": (zero_header(-1), "fewer entries"),
    "a header of garbage": (garbage_header(5), "header"),
    "headers of zeros": (zero_headers, "fewer entries"),
    "the oldest file renamed to the newest": (rename(0, "99980101000000000"), "missing"),
    "a file renamed to no time": (rename(5, "12345"), "no time"),
    "a file renamed to no number": (rename(5, "backup"), "missing"),
    "two files swapped": (swap, "older than"),
}
"""What a listing of the folder and the headers tell."""


@pytest.mark.parametrize("was", ["closed", "killed"])
@pytest.mark.parametrize("damage", SEEN_AT_OPEN)
def test_damage_that_is_mended_at_once(
    damage: str, was: str, path: Path, tmp_path: Path, copy_as_killed: CopyAsKilled, assert_clean: AssertClean
) -> None:
    if was == "killed":
        with flightlog.open(path) as store:
            store.queues()
            path = copy_as_killed(path, tmp_path / "killed")
    do, told = SEEN_AT_OPEN[damage]
    do(path)
    with flightlog.open_read_only(path) as view:
        keyed.check(view, COUNT)
        assert not view.verify().is_clean
    with flightlog.open(path, keyed.settings()) as store:
        report = store.recovery_report
        assert told in report.keys_reason and any(told in line for line in report.log_lines())
        assert report.keys_put == keyed.key_count(COUNT)
        keyed.check(store, COUNT)
        store.put_many(keyed.messages(COUNT, 70))
    assert assert_clean(path).index_entries == keyed.key_count(70)
    with flightlog.open(path) as store:
        assert store.recovery_report.keys_put == 0
        keyed.check(store, 70)


def garbage_slots(number: int) -> Callable[[Path], None]:
    return lambda path: overwrite(files(path)[number], HEADER_SIZE, b"\x00\x00\x00\x63" * 5)


def garbage_entries(number: int) -> Callable[[Path], None]:
    geometry = IndexGeometry(5, 12)
    return lambda path: overwrite(files(path)[number], geometry.entry_position(2), b"\x5a" * 60)


NOT_SEEN: dict[str, Callable[[Path], None]] = {
    "garbage in slots": garbage_slots(5),
    "garbage in slots of the newest file": garbage_slots(-1),
    "garbage in entries": garbage_entries(5),
    "zeros in slots": lambda path: overwrite(files(path)[5], HEADER_SIZE, bytes(20)),
}
"""What shows only to those who read slots and entries: an open after a clean close does not, verify does."""


@pytest.mark.parametrize("damage", NOT_SEEN)
def test_damage_that_verify_finds(damage: str, path: Path, assert_clean: AssertClean) -> None:
    """No wrong answer and no traceback even so; what verify says mends it."""
    NOT_SEEN[damage](path)
    with flightlog.open(path) as store:
        for i in range(COUNT):
            assert keyed.query(store, keyed.TOPICS[i % 2], f"u{i}") in ([i], [])
        store.put_many(keyed.messages(COUNT, 70))
        findings = store.verify().findings
    assert findings and all(
        "index" in str(finding.path) and "remove the folder" in finding.mend for finding in findings
    )
    remove_all(path)
    with flightlog.open(path, keyed.settings()) as store:
        keyed.check(store, 70)
    assert_clean(path)


def test_strays_stay_and_disturb_nobody(path: Path, assert_clean: AssertClean) -> None:
    (path / "index" / "readme.txt").write_text("not ours")
    (path / "index" / "20260101000000000.bak").write_bytes(b"x" * 300)
    (path / "index" / "folder").mkdir()
    with flightlog.open(path) as store:
        assert store.recovery_report.keys_put == 0
        store.put_many(keyed.messages(COUNT, 70))
        keyed.check(store, 70)
    assert_clean(path)
    assert {"readme.txt", "20260101000000000.bak", "folder"} <= {file.name for file in files(path)}


@pytest.mark.parametrize("content", ["copy", "empty", "zeros"])
def test_a_file_that_nobody_noted_goes(content: str, path: Path, assert_clean: AssertClean) -> None:
    """A writer that died between making a file and saying so leaves one behind the last that was flushed."""
    last = files(path)[-1]
    extra = last.with_name(str(int(last.name) + 1))
    extra.write_bytes({"copy": last.read_bytes(), "empty": b"", "zeros": bytes(last.stat().st_size)}[content])
    with flightlog.open(path) as store:
        assert store.recovery_report.keys_put == 0
        keyed.check(store, COUNT)
        store.put_many(keyed.messages(COUNT, 70))
        keyed.check(store, 70)
    assert assert_clean(path).index_entries == keyed.key_count(70)
