"""Messages are fetched many at a time, and the log ahead of them: nobody can tell but by the time it takes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.read.entries import FETCH_COUNT, FETCH_SIZE, READ_AHEAD_SIZE
from flightlog.store.disk.disk import RealFile
from flightlog.store.errors import CorruptRecordError, StoreClosedError
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

COUNT = 5 * FETCH_COUNT
SETTINGS = StoreSettings(segment_size=1 << 18, queue_file_entries=COUNT // 3)
pytestmark = pytest.mark.usefixtures("kernel")


def fill(root: Path, *topics: str) -> None:
    """Put `COUNT` messages of each topic, over several segments and queue files."""
    with flightlog.open(root, SETTINGS) as store:
        for i in range(COUNT):
            store.put_many([Message(topic, b"%05d" % i, tags="ab"[i % 2]) for topic in topics])


def damage(root: Path, number: int) -> None:
    """Change the body of a message of the topic "t"."""
    with flightlog.open_read_only(root) as view:
        message = view.get("t", 0, number, 1).messages[0]
        segment = next(each for each in view.segments if each.base <= message.physical_offset < each.end)
        path, base = segment.path, segment.base
    with path.open("r+b") as file:
        raw = file.read()
        file.seek(raw.index(message.body, message.physical_offset - base))
        file.write(b"?")


def numbers(messages: list[flightlog.StoredMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def test_all_of_them_in_order(tmp_path: Path, assert_clean: AssertClean) -> None:
    fill(tmp_path, "t", "other")
    with flightlog.open_read_only(tmp_path) as view:
        for start in (0, 1, 31, FETCH_COUNT, COUNT - 1, COUNT):
            assert numbers(list(view.read("t", 0, start))) == list(range(start, COUNT))
        assert numbers(list(view.read("t", tags="b"))) == list(range(1, COUNT, 2))
        assert numbers(list(view.read("other", tags="a || c"))) == list(range(0, COUNT, 2))
        assert len(view.get("t", 0, 0, COUNT).messages) == 32
    with flightlog.open_read_only(tmp_path, StoreSettings(get_memory_max_count=COUNT)) as view:
        assert numbers(view.get("t", 0, 0, COUNT).messages) == list(range(COUNT // 3))  # up to the next queue file
    assert_clean(tmp_path)


def test_damage_comes_in_its_turn(tmp_path: Path) -> None:
    fill(tmp_path, "t")
    bad = {7, 8, FETCH_COUNT, 2 * FETCH_COUNT - 1, COUNT - 10}
    for number in bad:
        damage(tmp_path, number)
    with flightlog.open_read_only(tmp_path) as view:
        sound = [number for number in range(COUNT) if number not in bad]
        assert numbers(list(view.read("t", on_corrupt="skip"))) == sound and view.corrupt_skipped == len(bad)
        for start in (0, 9, FETCH_COUNT + 1, 2 * FETCH_COUNT):
            stop = min(number for number in bad if number >= start)
            found = []
            with pytest.raises(CorruptRecordError):
                for message in view.read("t", 0, start):
                    found.append(int(message.body))
            assert found == list(range(start, stop))
        assert numbers(view.get("t", 0, 0, 20).messages) == list(range(7))
        with pytest.raises(CorruptRecordError):
            view.get("t", 0, 8, 20)


def test_a_closed_store_gives_nothing_more(tmp_path: Path, assert_clean: AssertClean) -> None:
    fill(tmp_path, "t")
    for opened in (flightlog.open_read_only, flightlog.open):
        with opened(tmp_path) as store:
            reading, decompressed = store.read("t"), store.read("t", decompress=True)
            kept = [next(reading) for _ in range(100)]
            assert next(decompressed) == kept[0]
        for each in (reading, decompressed):
            with pytest.raises(StoreClosedError):
                next(each)
            assert list(each) == []
        assert numbers(kept) == list(range(100)) and kept[99].tags == "b"  # copies
    assert_clean(tmp_path)


def test_a_view_that_looked_anew_ends_its_older_iterators_too(tmp_path: Path, assert_clean: AssertClean) -> None:
    fill(tmp_path, "t")
    with flightlog.open_read_only(tmp_path) as view:
        before = view.read("t")
        next(before)
        fill(tmp_path, "t")  # by another writer, after which a view looks at everything anew
        view.refresh()
        after = view.read("t")
        assert numbers([next(before), next(after)]) == [1, 0]
    for each in (before, after):
        with pytest.raises(StoreClosedError):
            next(each)
    assert_clean(tmp_path)


def test_large_messages_among_small_ones(tmp_path: Path, assert_clean: AssertClean) -> None:
    sizes = [10, FETCH_SIZE - 200, 10, FETCH_SIZE + 1, FETCH_SIZE // 3, FETCH_SIZE // 3, FETCH_SIZE // 3, 10, 10]
    with flightlog.open(tmp_path, StoreSettings(segment_size=8 << 20)) as store:
        store.put_many([Message("t", bytes(size)) for size in sizes])
        assert [len(message.body) for message in store.read("t")] == sizes
        assert [len(message.body) for message in store.get("t", 0, 0, 9).messages] == sizes[:1]
    wide = StoreSettings(get_memory_max_size=64 << 20)
    with flightlog.open_read_only(tmp_path, wide) as view:
        assert [len(message.body) for message in view.get("t", 0, 0, 9).messages] == sizes
    assert_clean(tmp_path)


def test_the_log_is_fetched_ahead_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with flightlog.open(tmp_path, StoreSettings(segment_size=64 << 20)) as store:
        for _ in range(5):
            store.put_many([Message("t", bytes(4096)) for _ in range(1000)])
            store.put(Message("rare", b"body"))
    ahead: list[tuple[int, int]] = []

    def note(file: RealFile, position: int, size: int) -> None:
        base = int(Path(file.path).name)
        ahead.append((base + position, base + position + size))

    monkeypatch.setattr(RealFile, "will_read", note)
    with flightlog.open_read_only(tmp_path) as view:
        for _, _message in zip(range(20), view.read("t"), strict=False):
            pass
        assert list(view.read("rare")) and not ahead, "nothing is fetched for a few messages, or for scattered ones"
        last = None
        for message in view.read("t"):
            last = message
        assert last is not None
    assert all(start < stop <= start + READ_AHEAD_SIZE for start, stop in ahead)
    assert all(stop == start for (_, stop), (start, _) in pairwise(ahead)), "each byte once"
    assert ahead[-1][1] >= last.physical_offset


def test_nothing_is_opened_before_its_turn(tmp_path: Path, assert_clean: AssertClean) -> None:
    """An open file keeps the room of a segment that another process removes."""
    with flightlog.open(tmp_path, StoreSettings(segment_size=1 << 15)) as store:
        store.put_many([Message("t", bytes(100)) for _ in range(1000)])
    with flightlog.open_read_only(tmp_path) as view:
        reading = view.read("t")
        for _ in range(100):
            next(reading)
        view.read_batch("t", max_count=100, columns=["value"])
        # An opening looks at the end of the log.
        assert [inside.is_open(segment) for segment in view.segments] == [True, *[False] * 4, True]
    assert_clean(tmp_path)
