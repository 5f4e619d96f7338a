"""Opening stores that flightlog closed, and stores whose writer was killed: nothing is lost, and what was done is
said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.evidence import LastWriter
from flightlog.store.disk import RealDisk, RealFile
from flightlog.store.errors import CorruptLogError, StoreNotFoundError
from flightlog.store.progress import progress_path, read_progress

if TYPE_CHECKING:
    from tests.engine.conftest import AssertClean, Fingerprint

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_interval_ms=3_600_000)
"""The service thread never comes round: what is dispatched and synced is what the test asks for."""

Copy = Callable[[Path, Path], Path]


def message(number: int) -> Message:
    transaction = 4 if number % 17 == 16 else 0
    return Message(
        f"t{number % 3}", b"%05d" % number + bytes(number % 200), tags="A", queue_id=number % 2, sys_flag=transaction
    )


def listed(count: int) -> list[int]:
    return [i for i in range(count) if i % 17 != 16]


def numbers(store: flightlog.MessageStore | flightlog.ReadOnlyStore) -> list[int]:
    """What the queues list, in the order of the log."""
    found = sorted((m for key in store.queues() for m in store.read(*key)), key=lambda m: m.physical_offset)
    return [int(m.body[:5]) for m in found]


def check_goes_on(root: Path, count: int, assert_clean: AssertClean) -> None:
    """All are there, further ones follow them, and after a clean close nothing needs to be scanned."""
    with flightlog.open(root, SETTINGS) as store:
        assert numbers(store) == listed(count)
        store.put_many([message(i) for i in range(count, count + 30)])
    assert_clean(root)
    with flightlog.open(root, SETTINGS) as store:
        assert numbers(store) == listed(count + 30)
        assert store.recovery_report.last_writer is LastWriter.FLIGHTLOG_CLOSED
        assert store.recovery_report.records_scanned == 0
    assert_clean(root)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """200 messages, cleanly closed."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        store.put_many([message(i) for i in range(200)])
    return tmp_path / "store"


@pytest.fixture
def killed(tmp_path: Path, copy_as_killed: Copy) -> Path:
    """200 messages: 50 in synced queues, 50 more synced, 50 more dispatched, and 50 in the page cache alone."""
    with flightlog.open(tmp_path / "live", SETTINGS) as store:
        store.put_many([message(i) for i in range(50)])
        store._upkeep.flush_queues()
        store.put_many([message(i) for i in range(50, 100)])
        store.flush()
        store.put_many([message(i) for i in range(100, 150)])
        store.queues()
        store.put_many([message(i) for i in range(150, 200)])
        return copy_as_killed(tmp_path / "live", tmp_path / "store")


def after_a_reboot(root: Path) -> None:
    """The page cache is gone: the progress page is of another boot."""
    raw = bytearray(progress_path(root).read_bytes())
    raw[80:88] = (int.from_bytes(raw[80:88], "little") ^ 1).to_bytes(8, "little")
    progress_path(root).write_bytes(raw)
    progress = read_progress(RealDisk(), root)
    assert progress is not None and not progress.is_of_this_boot


@pytest.mark.usefixtures("kernel")
def test_a_clean_store_is_not_scanned(closed: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(closed, SETTINGS) as store:
        report = store.recovery_report
        assert report.last_writer is LastWriter.FLIGHTLOG_CLOSED
        assert report.scanned_from == report.end > 40 * SEGMENT_SIZE // 10
        assert (report.records_scanned, report.entries_dispatched, report.damage, report.cut) == (0, 0, [], [])
        assert "closed cleanly" in report.reason and "scanned 0 bytes" in report.log_lines()[0]
    check_goes_on(closed, 200, assert_clean)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rebooted", [False, True])
def test_a_killed_writer_loses_nothing(killed: Path, rebooted: bool, assert_clean: AssertClean) -> None:
    if rebooted:
        after_a_reboot(killed)
    with flightlog.open_read_only(killed) as view:
        assert numbers(view) == listed(200)
    progress = read_progress(RealDisk(), killed)
    assert progress is not None
    assert 0 < progress.queues_flushed < progress.flushed < progress.dispatched < progress.appended
    with flightlog.open(killed, SETTINGS) as store:
        report = store.recovery_report
        assert report.last_writer is LastWriter.FLIGHTLOG_KILLED
        assert (report.scanned_from, report.end) == (progress.queues_flushed, progress.appended)
        assert (report.records_scanned, report.damage, report.cut) == (150, [], [])
        assert 0 < report.entries_dispatched <= 50
    check_goes_on(killed, 200, assert_clean)


@pytest.mark.parametrize("flush_mode", list(FlushMode))
@pytest.mark.parametrize("count", [0, 1, 2, 30, 31, 500])
def test_killed_at_any_moment(
    count: int, flush_mode: FlushMode, tmp_path: Path, copy_as_killed: Copy, assert_clean: AssertClean
) -> None:
    settings = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_mode=flush_mode)
    with flightlog.open(tmp_path / "live", settings) as store:
        for i in range(count):
            store.put(message(i))
        copy = copy_as_killed(tmp_path / "live", tmp_path / "copy")
    check_goes_on(copy, count, assert_clean)


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize(
    "loss",
    [
        *("consumequeue", "consumequeue/t1", "consumequeue/t1/0", "consumequeue/t1/1/00000000000000000000"),
        *("consumequeue/t1/1/00000000000000000200", "flightlog", "flightlog/progress", "checkpoint", "lock", "abort"),
    ],
)
def test_everything_derived_may_be_missing(
    loss: str, state: str, request: pytest.FixtureRequest, assert_clean: AssertClean
) -> None:
    root: Path = request.getfixturevalue(state)
    path = root / loss
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    else:
        assert (loss, state) == ("abort", "closed")
    with flightlog.open_read_only(root) as view:
        assert numbers(view) == listed(200)
    check_goes_on(root, 200, assert_clean)


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("checkpoint", b""), ("checkpoint", bytes(4096)), ("checkpoint", bytes(100)), ("checkpoint", b"\xff" * 4096)),
        *(("flightlog/progress", b""), ("flightlog/progress", bytes(4096)), ("flightlog/progress", b"\xa5" * 4096)),
        *(("flightlog/progress", b"FLTLOG01" + b"\x11" * 4088), ("flightlog/progress", b"FLTLOG01")),
        *(("abort", b""), ("abort", b"4711"), ("abort", b"\xff" * 1000)),
    ],
)
def test_small_files_may_hold_nonsense(
    name: str, content: bytes, state: str, request: pytest.FixtureRequest, assert_clean: AssertClean
) -> None:
    root: Path = request.getfixturevalue(state)
    (root / name).write_bytes(content)
    with flightlog.open_read_only(root) as view:
        assert numbers(view) == listed(200)
    check_goes_on(root, 200, assert_clean)


def queue_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize("nonsense", [b"\0", b"\xff", b"\x01", b"random"])
def test_queues_may_hold_nonsense(
    nonsense: bytes, state: str, request: pytest.FixtureRequest, assert_clean: AssertClean
) -> None:
    """The last file of every queue: what a lost power leaves of files that were never synced."""
    root: Path = request.getfixturevalue(state)
    for folder in {path.parent for path in queue_files(root)}:
        last = max(folder.iterdir())
        last.write_bytes((nonsense * 200)[:200] if nonsense != b"random" else os.urandom(200))
    with flightlog.open_read_only(root) as view:
        assert numbers(view) == listed(200)
    check_goes_on(root, 200, assert_clean)


@pytest.mark.parametrize("state", ["closed", "killed"])
def test_a_queue_of_another_queue(state: str, request: pytest.FixtureRequest, assert_clean: AssertClean) -> None:
    """Entries that point at sound records, which are not theirs."""
    root: Path = request.getfixturevalue(state)
    shutil.rmtree(root / "consumequeue" / "t0" / "0")
    shutil.copytree(root / "consumequeue" / "t1" / "1", root / "consumequeue" / "t0" / "0")
    with flightlog.open_read_only(root) as view:
        assert numbers(view) == listed(200)
    with flightlog.open(root, SETTINGS) as store:
        assert "points at" in store.recovery_report.reason
    check_goes_on(root, 200, assert_clean)


@pytest.mark.parametrize("state", ["closed", "killed"])
def test_entries_of_messages_that_are_not_there(
    state: str, request: pytest.FixtureRequest, assert_clean: AssertClean
) -> None:
    root: Path = request.getfixturevalue(state)
    (path,) = [path for path in queue_files(root) if path.parent == root / "consumequeue" / "t2" / "1"][-1:]
    raw = path.read_bytes()
    end = len(raw.rstrip(b"\0")) // 20 * 20 + 20
    phantom = (1 << 40).to_bytes(8, "big") + raw[8:20]
    path.write_bytes((raw[:end] + phantom + phantom).ljust(200, b"\0")[:200])
    with flightlog.open_read_only(root) as view:
        assert numbers(view) == listed(200)
    check_goes_on(root, 200, assert_clean)


def segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize("loss", ["last segment", "all segments", "commitlog", "last segment emptied"])
def test_a_log_that_ends_before_its_durable_mark_is_refused(
    loss: str, state: str, request: pytest.FixtureRequest, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    """A segment that was synced and is gone is not a torn tail: somebody must bring it back."""
    root: Path = request.getfixturevalue(state)
    flushed = read_progress(RealDisk(), root)
    assert flushed is not None
    durable = [path for path in segments(root) if int(path.name) < flushed.flushed]
    if loss == "last segment emptied":
        for path in segments(root)[len(durable) - 1 :]:
            path.write_bytes(b"")
            if path != durable[-1]:
                path.unlink()
    else:
        for path in segments(root)[len(durable) - 1 :] if loss == "last segment" else segments(root):
            path.unlink()
    if loss == "commitlog":
        (root / "commitlog").rmdir()
    before = fingerprint(root)
    with pytest.raises((CorruptLogError, StoreNotFoundError), match="commitlog"):
        flightlog.open(root, SETTINGS)
    after = fingerprint(root)
    assert {name: entry for name, entry in after.items() if entry[2]} == {n: e for n, e in before.items() if e[2]}


def torn_off(root: Path, position: int, tail: bytes) -> tuple[Path, bytes]:
    """Put `tail` at the physical offset where the log ends, as a write that was not finished; the bytes from there
    on."""
    path = root / "commitlog" / f"{position // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    raw = path.read_bytes()
    at = position % SEGMENT_SIZE
    path.write_bytes((raw[:at] + tail + raw[at + len(tail) :])[:SEGMENT_SIZE])
    return path, path.read_bytes()[at:]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rebooted", [False, True])
@pytest.mark.parametrize(
    "tail",
    [
        bytes.fromhex("000000ae daa320a7") + b"\1" * 50,
        bytes.fromhex("00000fff daa320a7"),
        bytes.fromhex("00000010 daa320ab") + b"\1" * 50,
        b"\xff" * 30,
        b"\0\0\0\0\xda\xa3\x20\xa7",
        bytes.fromhex("00000064 cbd43194"),
        b"\0" * 20 + b"x",
    ],
    ids=["half", "long", "short", "garbage", "sizeless", "filler", "late"],
)
def test_a_torn_tail_is_cut_and_kept(tail: bytes, rebooted: bool, killed: Path, assert_clean: AssertClean) -> None:
    progress = read_progress(RealDisk(), killed)
    assert progress is not None
    end = progress.appended
    if rebooted:
        after_a_reboot(killed)
    path, rest = torn_off(killed, end, tail)
    removed = rest.rstrip(b"\0")
    assert len(removed) >= len(tail.rstrip(b"\0"))
    with flightlog.open_read_only(killed) as view:
        assert numbers(view) == listed(200)
        assert view.end_physical_offset == end
    with flightlog.open(killed, SETTINGS) as store:
        assert store.recovery_report.end == end
        kept = killed / "flightlog" / f"cut-{end:020d}"
        assert kept.read_bytes() == removed
        assert any(str(kept) in line for line in store.recovery_report.cut)
        assert path.read_bytes()[end % SEGMENT_SIZE :] == bytes(len(rest))
    check_goes_on(killed, 200, assert_clean)
    assert kept.read_bytes() == removed


def test_a_second_cut_at_the_same_place_keeps_both(killed: Path, assert_clean: AssertClean) -> None:
    progress = read_progress(RealDisk(), killed)
    assert progress is not None
    for number, tail in enumerate((b"\xff" * 30, b"\xee" * 40)):
        if number:
            pages = {name: (killed / name).read_bytes() for name in ("abort", "flightlog/progress")}
        torn_off(killed, progress.appended, tail)
        store = flightlog.open(killed, SETTINGS)
        pages = {name: (killed / name).read_bytes() for name in ("abort", "flightlog/progress")}
        store.close()
        for name, content in pages.items():
            (killed / name).write_bytes(content)
    name = f"cut-{progress.appended:020d}"
    assert (killed / "flightlog" / name).read_bytes() == b"\xff" * 30
    assert (killed / "flightlog" / f"{name}.1").read_bytes() == b"\xee" * 40
    check_goes_on(killed, 200, assert_clean)


def offsets(root: Path) -> list[int]:
    """The physical offset of every record."""
    with flightlog.open_read_only(root) as view:
        found = []
        for segment, first, stop in view.log_reader.segments_between(0, view.end_physical_offset):
            for _, rows in view.log_reader.scan(segment, first, stop, check_crc=True):
                found += rows["physical_offset"].tolist()
        return found


@pytest.mark.parametrize("lost", [100, 120, 160, 199])
def test_what_a_lost_power_takes_from_the_unsynced_tail(lost: int, killed: Path, assert_clean: AssertClean) -> None:
    """One record above the durable mark never reached the disk, those behind it did: the log ends before it, and the
    others are kept aside."""
    places = [*offsets(killed), 0]
    progress = read_progress(RealDisk(), killed)
    assert progress is not None and places[lost] >= progress.flushed
    after_a_reboot(killed)
    whole = b"".join(path.read_bytes() for path in segments(killed))
    size = int.from_bytes(whole[places[lost] : places[lost] + 4], "big")
    torn_off(killed, places[lost], bytes(size))
    with flightlog.open_read_only(killed) as view:
        assert numbers(view) == listed(lost)
    with flightlog.open(killed, SETTINGS) as store:
        assert store.recovery_report.end == places[lost]
        assert bool(store.recovery_report.cut) == (lost < 199)
    if lost < 199:
        kept = (killed / "flightlog" / f"cut-{places[lost]:020d}").read_bytes()
        assert kept[size:] == whole[places[lost] + size :].rstrip(b"\0")
        assert kept[:size] == bytes(size)
    check_goes_on(killed, lost, assert_clean)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rebooted", [False, True])
@pytest.mark.parametrize(("victim", "found"), [(60, "CRC"), (60, "zeros"), (98, "zeros"), (99, "zeros"), (99, "CRC")])
def test_damage_below_the_durable_mark_is_refused(
    victim: int, found: str, rebooted: bool, killed: Path, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    places = offsets(killed)
    if rebooted:
        after_a_reboot(killed)
    torn_off(killed, places[victim] + (88 if found == "CRC" else 0), b"\xee" if found == "CRC" else bytes(92))
    before = fingerprint(killed)
    for _ in range(2):
        with pytest.raises(CorruptLogError) as raised:
            flightlog.open(killed, SETTINGS)
        assert raised.value.physical_offset == places[victim]
        assert raised.value.records_behind == 199 - victim
        assert f"{199 - victim} intact records lie behind it" in str(raised.value)
        assert raised.value.path.name == f"{places[victim] // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    assert fingerprint(killed) == before
    with flightlog.open_read_only(killed) as view:
        read = [int(m.body[:5]) for key in view.queues() for m in view.read(*key, on_corrupt="skip")]
        assert sorted(read) == [i for i in listed(200) if i != victim]


def test_the_end_below_the_durable_mark_is_refused_too(
    tmp_path: Path, copy_as_killed: Copy, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    """No record lies behind the damage; but it was synced once, so it is no torn tail."""
    with flightlog.open(tmp_path / "live", SETTINGS) as store:
        results = store.put_many([message(i) for i in range(20)])
        store.flush()
        root = copy_as_killed(tmp_path / "live", tmp_path / "store")
    torn_off(root, results[-1].physical_offset, bytes(results[-1].size))
    before = fingerprint(root)
    with pytest.raises(CorruptLogError, match="it was already synced to disk") as raised:
        flightlog.open(root, SETTINGS)
    assert (raised.value.physical_offset, raised.value.records_behind) == (results[-1].physical_offset, 0)
    assert raised.value.durable_below == results[-1].physical_offset + results[-1].size
    assert fingerprint(root) == before


class HookedDisk(RealDisk):
    """Calls `hook` in the middle of a segment's sync."""

    hook: Callable[[], None] | None = None

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        file = super().open(path, writable=writable, create=create)
        if path.parent.name != "commitlog":
            return file
        hooked = HookedFile(file.path, os.dup(file._descriptor), writable)
        hooked.disk = self
        return hooked


class HookedFile(RealFile):
    disk: HookedDisk

    def sync(self) -> None:
        super().sync()
        hook, self.disk.hook = self.disk.hook, None
        if hook is not None:
            hook()


def test_the_page_never_promises_queues_beyond_the_durable_log(tmp_path: Path, assert_clean: AssertClean) -> None:
    """A reader that dispatches what a sync under way does not cover: were that promised, a recovery after a lost power
    would begin behind the end of the log."""
    disk = HookedDisk()
    with flightlog.open(tmp_path, SETTINGS, disk=disk) as store:
        store.put_many([message(i) for i in range(10)])

        def put_and_read() -> None:
            store.put_many([message(i) for i in range(10, 20)])
            assert len(store.queues()) == 6

        def put_and_read_in_the_next_one_too() -> None:
            store.put(message(20))
            disk.hook = put_and_read

        for hook in (put_and_read, put_and_read_in_the_next_one_too):
            disk.hook = hook
            store.put(message(20))
            store._upkeep.flush_queues()
            progress = read_progress(RealDisk(), tmp_path)
            assert progress is not None
            assert progress.queues_flushed <= progress.flushed
    assert_clean(tmp_path)


def test_a_record_with_an_impossible_queue_offset(killed: Path) -> None:
    """No CRC covers the field. It must neither fill the disk with filler nor stop anybody; it is said, and skipped."""
    places = offsets(killed)
    torn_off(killed, places[180] + 20, bytes.fromhex("0000010000000000"))
    with flightlog.open_read_only(killed) as view:
        found = [int(m.body[:5]) for key in view.queues() for m in view.read(*key, on_corrupt="skip")]
        assert sorted(found) == [i for i in listed(200) if i != 180]
        assert any(str(places[180]) in line and "queue offset" in line for line in view.report.damage)
    with flightlog.open(killed, SETTINGS) as store:
        found = [int(m.body[:5]) for key in store.queues() for m in store.read(*key, on_corrupt="skip")]
        assert sorted(found) == [i for i in listed(200) if i != 180]
    assert sum(path.stat().st_size for path in queue_files(killed)) < 20_000
    with flightlog.open_read_only(killed) as view:
        findings = [f for f in view.verify().findings if f.path.parent.parent.name == "consumequeue"]
        assert len(findings) == 2, "a message without an entry, and a hole in its queue"
