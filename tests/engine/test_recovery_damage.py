"""Opening stores of ours whose log is damaged: a torn tail is cut and kept aside, anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptLogError, StoreNotFoundError
from flightlog.store.state.progress import read_progress

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import Fingerprint, Numbered

SEGMENT_SIZE = 4096

Copy = Callable[[Path, Path], Path]


def queue_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())


def segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize("loss", ["last segment", "all segments", "commitlog", "last segment emptied"])
def test_a_log_that_ends_before_its_durable_mark_is_refused(
    loss: str,
    state: str,
    request: pytest.FixtureRequest,
    numbered: Numbered,
    fingerprint: Callable[[Path], Fingerprint],
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
        flightlog.open(root, numbered.settings)
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
def test_a_torn_tail_is_cut_and_kept(tail: bytes, rebooted: bool, killed: Path, numbered: Numbered) -> None:
    progress = read_progress(RealDisk(), killed)
    assert progress is not None
    end = progress.appended
    if rebooted:
        numbered.reboot(killed)
    path, rest = torn_off(killed, end, tail)
    removed = rest.rstrip(b"\0")
    assert len(removed) >= len(tail.rstrip(b"\0"))
    with flightlog.open_read_only(killed) as view:
        assert numbered.read(view) == numbered.listed(200)
        assert view.end_physical_offset == end
    with flightlog.open(killed, numbered.settings) as store:
        assert store.recovery_report.end == end
        kept = killed / "flightlog" / f"cut-{end:020d}"
        assert kept.read_bytes() == removed
        assert any(str(kept) in line for line in store.recovery_report.cut)
        assert path.read_bytes()[end % SEGMENT_SIZE :] == bytes(len(rest))
    numbered.check_goes_on(killed, 200)
    assert kept.read_bytes() == removed


def test_a_second_cut_at_the_same_place_keeps_both(killed: Path, numbered: Numbered) -> None:
    progress = read_progress(RealDisk(), killed)
    assert progress is not None
    for number, tail in enumerate((b"\xff" * 30, b"\xee" * 40)):
        if number:
            pages = {name: (killed / name).read_bytes() for name in ("abort", "flightlog/progress")}
        torn_off(killed, progress.appended, tail)
        store = flightlog.open(killed, numbered.settings)
        pages = {name: (killed / name).read_bytes() for name in ("abort", "flightlog/progress")}
        store.close()
        for name, content in pages.items():
            (killed / name).write_bytes(content)
    name = f"cut-{progress.appended:020d}"
    assert (killed / "flightlog" / name).read_bytes() == b"\xff" * 30
    assert (killed / "flightlog" / f"{name}.1").read_bytes() == b"\xee" * 40
    numbered.check_goes_on(killed, 200)


@pytest.mark.parametrize("lost", [100, 120, 160, 199])
def test_what_a_lost_power_takes_from_the_unsynced_tail(lost: int, killed: Path, numbered: Numbered) -> None:
    """One record above the durable mark never reached the disk, those behind it did: the log ends before it, and the
    others are kept aside."""
    places = [*numbered.offsets(killed), 0]
    progress = read_progress(RealDisk(), killed)
    assert progress is not None and places[lost] >= progress.flushed
    numbered.reboot(killed)
    whole = b"".join(path.read_bytes() for path in segments(killed))
    size = int.from_bytes(whole[places[lost] : places[lost] + 4], "big")
    torn_off(killed, places[lost], bytes(size))
    with flightlog.open_read_only(killed) as view:
        assert numbered.read(view) == numbered.listed(lost)
    with flightlog.open(killed, numbered.settings) as store:
        assert store.recovery_report.end == places[lost]
        assert bool(store.recovery_report.cut) == (lost < 199)
    if lost < 199:
        kept = (killed / "flightlog" / f"cut-{places[lost]:020d}").read_bytes()
        assert kept[size:] == whole[places[lost] + size :].rstrip(b"\0")
        assert kept[:size] == bytes(size)
    numbered.check_goes_on(killed, lost)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rebooted", [False, True])
@pytest.mark.parametrize(("victim", "found"), [(60, "CRC"), (60, "zeros"), (98, "zeros"), (99, "zeros"), (99, "CRC")])
def test_damage_below_the_durable_mark_is_refused(
    victim: int,
    found: str,
    rebooted: bool,
    killed: Path,
    numbered: Numbered,
    fingerprint: Callable[[Path], Fingerprint],
) -> None:
    places = numbered.offsets(killed)
    if rebooted:
        numbered.reboot(killed)
    torn_off(killed, places[victim] + (88 if found == "CRC" else 0), b"\xee" if found == "CRC" else bytes(92))
    before = fingerprint(killed)
    for _ in range(2):
        with pytest.raises(CorruptLogError) as raised:
            flightlog.open(killed, numbered.settings)
        assert raised.value.physical_offset == places[victim]
        assert raised.value.records_behind == 199 - victim
        assert f"{199 - victim} intact records lie behind it" in str(raised.value)
        assert raised.value.path.name == f"{places[victim] // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    assert fingerprint(killed) == before
    with flightlog.open_read_only(killed) as view:
        read = numbered.read(view, on_corrupt="skip")
        assert sorted(read) == [i for i in numbered.listed(200) if i != victim]


def test_the_end_below_the_durable_mark_is_refused_too(
    tmp_path: Path, copy_as_killed: Copy, numbered: Numbered, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    """No record lies behind the damage; but it was synced once, so it is no torn tail."""
    with flightlog.open(tmp_path / "live", numbered.settings) as store:
        results = store.put_many(numbered.messages(0, 20))
        store.flush()
        root = copy_as_killed(tmp_path / "live", tmp_path / "store")
    torn_off(root, results[-1].physical_offset, bytes(results[-1].size))
    before = fingerprint(root)
    with pytest.raises(CorruptLogError, match="it was already synced to disk") as raised:
        flightlog.open(root, numbered.settings)
    assert (raised.value.physical_offset, raised.value.records_behind) == (results[-1].physical_offset, 0)
    assert raised.value.durable_below == results[-1].physical_offset + results[-1].size
    assert fingerprint(root) == before


def test_a_record_with_an_impossible_queue_offset(killed: Path, numbered: Numbered) -> None:
    """No CRC covers the field. It must neither fill the disk with filler nor stop anybody; it is said, and skipped."""
    places = numbered.offsets(killed)
    torn_off(killed, places[180] + 20, bytes.fromhex("0000010000000000"))
    with flightlog.open_read_only(killed) as view:
        found = numbered.read(view, on_corrupt="skip")
        assert sorted(found) == [i for i in numbered.listed(200) if i != 180]
        assert any(str(places[180]) in line and "queue offset" in line for line in view.report.damage)
    with flightlog.open(killed, numbered.settings) as store:
        found = numbered.read(store, on_corrupt="skip")
        assert sorted(found) == [i for i in numbered.listed(200) if i != 180]
    assert sum(path.stat().st_size for path in queue_files(killed)) < 20_000
    with flightlog.open_read_only(killed) as view:
        findings = [f for f in view.verify().findings if f.path.parent.parent.name == "consumequeue"]
        assert len(findings) == 2, "a message without an entry, and a hole in its queue"
