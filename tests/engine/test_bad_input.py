"""Bad input: what a store refuses, by which name and in which words; what it goes past; and that nothing is lost.

Every refusal changes nothing, says which file, what was found and what to do, and once that is done the store opens
with all its messages.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlightlogError, Message, StoreSettings
from flightlog.store.errors import (
    CorruptLogError,
    CorruptRecordError,
    DamagedStoreError,
    DiskError,
    GeometryMismatchError,
    InvalidArgumentError,
    SegmentLengthError,
    StoreNotFoundError,
    StrayFileError,
    UnsupportedStoreError,
)

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint

SEGMENT_SIZE = 16 << 10
MESSAGES = 300
NAMES = [f"{base:020d}" for base in range(0, 5 * SEGMENT_SIZE, SEGMENT_SIZE)]


def settings(**changes: object) -> StoreSettings:
    return StoreSettings.small(segment_size=SEGMENT_SIZE, queue_file_entries=50, **changes)


def body(i: int) -> bytes:
    return b"%d " % i + b"." * (i % 400)


@pytest.fixture(params=["closed", "killed"])
def path(request: pytest.FixtureRequest, tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path]) -> Path:
    """A store of four full segments and a part of one, in two queues; left in two ways."""
    with flightlog.open(tmp_path / "live", settings()) as store:
        store.put_many([Message("orders", body(i), queue_id=i % 2, keys=f"k{i}") for i in range(MESSAGES)])
        store.flush()
        assert len(store.queues()) == 2  # the queues are written, too
        assert sorted(file.name for file in (store.path / "commitlog").iterdir()) == NAMES
        if request.param == "killed":
            return copy_as_killed(tmp_path / "live", tmp_path / "store")
    return (tmp_path / "live").rename(tmp_path / "store")


def bodies(store: flightlog.Store | flightlog.ReadOnlyStore, **how: object) -> set[bytes]:
    return {m.body for queue_id in range(2) for m in store.read("orders", queue_id, **how)}  # type: ignore[arg-type]


def opens_whole(path: Path, assert_clean: AssertClean) -> None:
    """Nothing is lost, and the store goes on where it was."""
    with flightlog.open(path) as store:
        assert bodies(store) == set(map(body, range(MESSAGES)))
        assert store.put(Message("orders", b"one more")).queue_offset == MESSAGES // 2
    assert assert_clean(path).records == MESSAGES + 1


@dataclass
class Harm:
    """Something done to a store, what opening for writing answers, and how it is mended."""

    do: Callable[[Path], object]
    error: type[FlightlogError]
    words: tuple[str, ...]
    mend: Callable[[Path, Path], object]
    """(store, copy from before)"""


def restore(name: str) -> Callable[[Path, Path], object]:
    return lambda path, copy: shutil.copy(copy / name, path / name)


def resize(name: str, size: int) -> Callable[[Path], object]:
    def do(path: Path) -> None:
        with (path / name).open("r+b") as file:
            file.truncate(size)

    return do


def overwrite(name: str, position: int, content: bytes) -> Callable[[Path], object]:
    def do(path: Path) -> None:
        with (path / name).open("r+b") as file:
            file.seek(position)
            file.write(content)

    return do


def remove_segments(path: Path) -> None:
    for file in (path / "commitlog").iterdir():
        file.unlink()


LAST = f"commitlog/{NAMES[-1]}"
MIDDLE = f"commitlog/{NAMES[2]}"
HARMS: dict[str, Harm] = {
    "stray file": Harm(
        lambda path: (path / "commitlog" / "notes.txt").write_text("mine"),
        StrayFileError,
        ("commitlog/notes.txt", "no segment", "20 decimal digits", "Move it out"),
        lambda path, copy: (path / "commitlog" / "notes.txt").unlink(),
    ),
    "a copy among the segments": Harm(
        lambda path: shutil.copy(path / MIDDLE, path / f"{MIDDLE}.bak"),
        StrayFileError,
        (f"{MIDDLE}.bak", "Move it out"),
        lambda path, copy: (path / f"{MIDDLE}.bak").unlink(),
    ),
    "middle segment too short": Harm(
        resize(MIDDLE, 5000),
        SegmentLengthError,
        (MIDDLE, "5000 bytes", f"expected {SEGMENT_SIZE}", "restore this file"),
        restore(MIDDLE),
    ),
    "middle segment empty": Harm(
        resize(MIDDLE, 0), SegmentLengthError, (MIDDLE, "0 bytes", "restore this file"), restore(MIDDLE)
    ),
    "last segment too short": Harm(
        resize(LAST, 4096), SegmentLengthError, (LAST, "4096 bytes", "restore this file"), restore(LAST)
    ),
    "last segment too long": Harm(
        resize(LAST, 2 * SEGMENT_SIZE), SegmentLengthError, (LAST, f"{2 * SEGMENT_SIZE}"), restore(LAST)
    ),
    "middle segment missing": Harm(
        lambda path: (path / MIDDLE).unlink(),
        DamagedStoreError,
        (NAMES[3], f"expected {NAMES[2]}", "Restore the missing segment"),
        restore(MIDDLE),
    ),
    "last segment missing": Harm(
        lambda path: (path / LAST).unlink(), DamagedStoreError, (NAMES[3], "restore the segment"), restore(LAST)
    ),
    "all segments missing": Harm(
        remove_segments,
        DamagedStoreError,
        ("commitlog", "restore the segment"),
        lambda path, copy: shutil.copytree(copy / "commitlog", path / "commitlog", dirs_exist_ok=True),
    ),
    "a queue file too short": Harm(
        resize("consumequeue/orders/1/00000000000000000000", 999),
        SegmentLengthError,
        ("consumequeue/orders/1/00000000000000000000", "999 bytes"),
        restore("consumequeue/orders/1/00000000000000000000"),
    ),
    "compacted topics": Harm(
        lambda path: (path / "compaction" / "compactionLog" / "orders").mkdir(parents=True),
        UnsupportedStoreError,
        ("compaction", "open_read_only", "let RocketMQ write it"),
        lambda path, copy: shutil.rmtree(path / "compaction"),
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_refused_by_name_and_nothing_changed(
    name: str, path: Path, tmp_path: Path, fingerprint: Callable[[Path], Fingerprint], assert_clean: AssertClean
) -> None:
    harm = HARMS[name]
    copy = shutil.copytree(path, tmp_path / "copy")
    harm.do(path)
    before = fingerprint(path)
    for _ in range(2):
        with pytest.raises(harm.error) as caught:
            flightlog.open(path)
        missing = [word for word in (str(path), *harm.words) if word not in str(caught.value)]
        assert not missing, f"{caught.value} does not say {missing}"
    with flightlog.open_read_only(path) as view:  # reading goes as far as there is something to read
        assert bodies(view, on_corrupt="skip") <= set(map(body, range(MESSAGES)))
        view.verify()
    after = fingerprint(path)
    assert before.keys() == after.keys() and [n for n in before if before[n][0::2] != after[n][0::2]] == []
    harm.mend(path, copy)
    opens_whole(path, assert_clean)


def test_garbage_that_an_open_must_look_at(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], Path], assert_clean: AssertClean
) -> None:
    """Behind what was synced into queues when the writer died, with intact records behind it: nothing is cut."""
    path = tmp_path / "store"
    with flightlog.open(tmp_path / "live", settings(flush_interval_ms=3_600_000)) as store:
        store.put_many([Message("orders", body(i), queue_id=i % 2) for i in range(MESSAGES)])
        store.flush()
        copy_as_killed(tmp_path / "live", path)
    good = (path / LAST).read_bytes()
    overwrite(LAST, 300, bytes(range(256)))(path)
    for _ in range(2):
        with pytest.raises(CorruptLogError) as caught:
            flightlog.open(path)
        for word in (
            LAST,
            "damaged at physical offset",
            "Nothing was changed",
            "open_read_only",
            "restore the segment",
        ):
            assert word in str(caught.value)
    (path / LAST).write_bytes(good)
    opens_whole(path, assert_clean)


MISLEADING: dict[str, Callable[[Path], object]] = {
    "checkpoint truncated": resize("checkpoint", 17),
    "checkpoint empty": resize("checkpoint", 0),
    "checkpoint zeroed": overwrite("checkpoint", 0, bytes(4096)),
    "checkpoint of noise": overwrite("checkpoint", 0, b"\x7f\xff" * 2048),
    "checkpoint from the future": overwrite("checkpoint", 0, (1 << 62).to_bytes(8, "big") * 5),
    "checkpoint missing": lambda path: (path / "checkpoint").unlink(),
    "progress truncated": resize("flightlog/progress", 100),
    "progress empty": resize("flightlog/progress", 0),
    "progress zeroed": overwrite("flightlog/progress", 0, bytes(4096)),
    "progress of noise": overwrite("flightlog/progress", 8, b"\xa5" * 4088),
    "progress missing": lambda path: (path / "flightlog" / "progress").unlink(),
    "abort of noise": lambda path: (path / "abort").write_bytes(b"\xff\x00garbage"),
    "abort empty": lambda path: (path / "abort").write_bytes(b""),
    "seals of noise": lambda path: [f.write_bytes(b"x" * 99) for f in (path / "flightlog").glob("seals/*")],
    "seal of another segment": lambda path: shutil.copy(
        *(lambda seals: (seals[0], seals[1]))(sorted((path / "flightlog").glob("seals/*")))
    ),
    "no folder of ours": lambda path: shutil.rmtree(path / "flightlog"),
    "no queues": lambda path: shutil.rmtree(path / "consumequeue"),
    "a queue file missing": lambda path: (path / "consumequeue/orders/0/00000000000000000000").unlink(),
    "last queue entries of noise": overwrite(
        "consumequeue/orders/0/00000000000000002000",
        960,
        b"\x7f" * 40,  # of the last file
    ),
    "an empty next segment": lambda path: (path / "commitlog" / f"{5 * SEGMENT_SIZE:020d}").touch(),
    "an empty queue folder": lambda path: (path / "consumequeue" / "orders" / "7").mkdir(),
    "foreign names in the root": lambda path: (path / "README").write_text("ours"),
    "lock of noise": lambda path: (path / "lock").write_bytes(b"noise"),
}


@pytest.mark.parametrize("name", MISLEADING)
def test_small_and_derived_files_are_never_trusted_more_than_the_log(
    name: str, path: Path, assert_clean: AssertClean
) -> None:
    if name.startswith("seal") and len(list((path / "flightlog").glob("seals/*"))) < 2:
        with flightlog.open(path):
            pass  # a killed writer may not have come to its seals: let one close do it
    MISLEADING[name](path)
    with flightlog.open_read_only(path) as view:
        assert bodies(view) == set(map(body, range(MESSAGES)))
        view.verify()
    opens_whole(path, assert_clean)


@pytest.mark.parametrize(
    ("setting", "value", "found"), [("segment_size", 8192, SEGMENT_SIZE), ("queue_file_entries", 7, 50)]
)
def test_settings_that_contradict_the_files(
    setting: str,
    value: int,
    found: int,
    path: Path,
    fingerprint: Callable[[Path], Fingerprint],
    assert_clean: AssertClean,
) -> None:
    before = fingerprint(path)
    with pytest.raises(GeometryMismatchError) as caught:
        flightlog.open(path, StoreSettings(**{setting: value}))  # type: ignore[arg-type]
    for word in (str(path), f"{setting} was set to {value}", f"have {found}", f"Leave {setting} unset"):
        assert word in str(caught.value)
    after = fingerprint(path)
    assert [n for n in before if before[n][0::2] != after[n][0::2]] == []
    opens_whole(path, assert_clean)


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "store"):
        for attempt in (flightlog.open, flightlog.open_read_only):
            with pytest.raises((InvalidArgumentError, StoreNotFoundError, DiskError), match=str(file)) as caught:
                attempt(path)
            assert "Not a directory" in str(caught.value) or "expected" in str(caught.value)
    assert file.read_text() == "mine"
    with pytest.raises(StoreNotFoundError, match="no such folder"):
        flightlog.open_read_only(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def place_of(path: Path, i: int) -> tuple[Path, int, int]:
    """File, position and physical offset of message `i`."""
    with flightlog.open_read_only(path) as view:
        message = view.get("orders", i % 2, i // 2, 1).messages[0]
    assert message.body == body(i)
    segment = path / "commitlog" / f"{message.physical_offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    return segment, message.physical_offset % SEGMENT_SIZE, message.physical_offset


@pytest.mark.parametrize("i", [10, 101, MESSAGES - 2])
def test_garbage_in_one_record(
    i: int,
    path: Path,
    tmp_path: Path,
    kernel: str,
    fingerprint: Callable[[Path], Fingerprint],
    assert_clean: AssertClean,
) -> None:
    """Readers name the place, go past it on request, and count it; a writer is not let near it if it looks there."""
    segment, position, physical_offset = place_of(path, i)
    good = segment.read_bytes()
    overwrite(str(segment.relative_to(path)), position + 95, b"\xff")(path)  # in the body
    expected = set(map(body, range(MESSAGES))) - {body(i)}
    with flightlog.open_read_only(path) as view:
        with pytest.raises(CorruptRecordError) as caught:
            list(view.read("orders", i % 2))
        for word in (segment.name, f"physical offset {physical_offset}", "CRC", "on_corrupt='skip'"):
            assert word in str(caught.value)
        assert bodies(view, on_corrupt="skip") == expected
        assert view.corrupt_skipped == 1
        findings = view.verify().findings
        assert [f.offset for f in findings if "body" in f.meaning] == [physical_offset]
    before = fingerprint(path)
    try:
        flightlog.open(path).close()
    except CorruptLogError as e:
        assert f"physical offset {physical_offset}" in str(e)
        after = fingerprint(path)
        assert [n for n in before if before[n][0::2] != after[n][0::2]] == []
    segment.write_bytes(good)
    opens_whole(path, assert_clean)
