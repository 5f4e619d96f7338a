"""Searching an index that grows, rolls and expires: in the process of its writer, and beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from flightlog.index.key.index_file import IndexGeometry
from flightlog.index.key.index_folder import IndexFolder
from flightlog.index.key.key_index import KeyIndex
from flightlog.store.disk.disk import RealDisk
from flightlog.tests.support import plain_index

SMALL = IndexGeometry(5, 20)
BEGIN_MS = 1_700_000_000_000


def index_at(root: Path, geometry: IndexGeometry = SMALL) -> KeyIndex:
    index = KeyIndex(RealDisk(), root, geometry, plain_index.StillClock())
    index.load()
    return index


def test_a_reader_sees_what_a_file_has_and_not_what_its_header_said(tmp_path: Path) -> None:
    """A writer in another process goes on after the reader has read the headers."""
    index = index_at(tmp_path)
    keys = [plain_index.Key(i * 3 % 7, i // 2 * 100, BEGIN_MS + i * 900) for i in range(36)]
    index.put(plain_index.key_entries_of(keys[:4]))
    index.flush()
    reader = IndexFolder(RealDisk(), tmp_path, SMALL)
    reader.load()
    index.put(plain_index.key_entries_of(keys[4:]))
    index.flush()
    in_first_file = {key.physical_offset for key in keys[:19]}
    assert {o for h in range(7) for o in reader.candidates(h)} == in_first_file
    reader.load()
    assert {o for h in range(7) for o in reader.candidates(h)} == {key.physical_offset for key in keys}
    index.close()


def test_files_that_were_removed_keep_no_disk(tmp_path: Path) -> None:
    """Retention removes what a reader has searched: what is mapped of it would keep its blocks."""
    index = index_at(tmp_path)
    index.put(plain_index.key_entries_of([plain_index.Key(i % 7, i * 100, BEGIN_MS + i) for i in range(36)]))
    index.close()
    reader = IndexFolder(RealDisk(), tmp_path, SMALL)
    reader.load()
    assert list(reader.candidates(3))
    removed, kept = (str(file.path) for file in reader.files)

    def mapped() -> str:
        return Path("/proc/self/maps").read_text()

    assert removed in mapped() and kept in mapped()
    Path(removed).unlink()
    reader.release_removed()
    assert removed not in mapped() and kept in mapped()
    reader.release()
    assert kept not in mapped()


def test_times_within_a_file(tmp_path: Path) -> None:
    """Second for second, with two to spare on either side; where the file says nothing, nothing is left out."""
    index = index_at(tmp_path)
    minutes = 60_000
    times = {0: 0, 100: 10_999, 200: -30 * minutes, 300: 50 * minutes, 400: 1 << 50, 500: 10 * minutes}
    index.put(plain_index.key_entries_of([plain_index.Key(3, offset, BEGIN_MS + ms) for offset, ms in times.items()]))

    def found(begin: int, end: int | None) -> set[int]:
        return set(index.candidates(3, BEGIN_MS + begin, None if end is None else BEGIN_MS + end))

    # The first entry, the one from before the file's begin and the one from far away have no time that could be asked.
    timeless = {0, 200, 400}
    for reopened in (False, True):
        if reopened:
            index.flush()
            index.close()
            index = index_at(tmp_path)
        assert found(0, None) == set(times)
        assert found(10_999, 10_999) == timeless | {100}
        # Its entry says 10 s.
        assert found(0, 8_000) == found(12_000, 13_000) == timeless | {100}
        assert found(0, 7_999) == found(12_001, 13_000) == timeless
        assert found(-31 * minutes, -29 * minutes) == timeless
        assert found(49 * minutes, 51 * minutes) == timeless | {300}, "though the header ends at 10 minutes"
        assert found(-3_600_000 - 9, -3_600_000) == timeless
        assert found(-3_700_000, -3_600_001) == set(), "a file that begins more than an hour later"
        assert found(4_200_000, None) == timeless
        assert found(4_200_001, None) == set(), "a file that ended more than an hour before"
    index.close()


def test_headers_without_times_exclude_nothing(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.put(
        plain_index.key_entries_of(
            [plain_index.Key(3, 0, 0), plain_index.Key(3, 100, BEGIN_MS), plain_index.Key(3, 200, 0)]
        )
    )
    assert list(index.candidates(3, BEGIN_MS, BEGIN_MS)) == [200, 100, 0]
    index.clear()
    # A clock that ran ahead and was set right: the file begins after it ends.
    keys = [
        plain_index.Key(3, 0, BEGIN_MS + (1 << 40)),
        plain_index.Key(3, 100, BEGIN_MS),
        plain_index.Key(3, 200, BEGIN_MS + 5),
    ]
    index.put(plain_index.key_entries_of(keys))
    assert list(index.candidates(3, BEGIN_MS, BEGIN_MS)) == [200, 100, 0]
    index.close()


def test_expiring_while_a_search_is_under_way(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    keys = [plain_index.Key(3, i * 100, BEGIN_MS) for i in range(60)]
    index.put(plain_index.key_entries_of(keys))
    search = index.candidates(3)
    assert next(search) == 5900
    assert len(index.expire(3800)) == 2
    rest = list(search)
    assert rest[:21] == list(range(5800, 3700, -100)), "what the log still has is found"
    assert len(index.expire(10_000)) == 1 and len(index.files) == 1, "the newest file stays"
    assert list(index.candidates(3)) == [5900, 5800, 5700]
    index.put(plain_index.key_entries_of([plain_index.Key(3, 6000, BEGIN_MS)]))
    index.flush()
    index.close()
    assert list(index_at(tmp_path).candidates(3)) == [6000, 5900, 5800, 5700]


def test_one_writer_a_flusher_and_many_readers(tmp_path: Path) -> None:
    """A search that begins after a put has returned finds its key, whatever rolls and flushes go on."""
    index = index_at(tmp_path, IndexGeometry(50, 400))
    done: list[Any] = []
    problems: list[str] = []
    is_over = threading.Event()
    total = 6000

    def read(number: int) -> None:
        step = 0
        while not is_over.is_set() and not problems:
            step += 1
            if not done:
                continue
            key = done[-1] if step % 2 else done[(step * 7919 + number) % len(done)]
            if key.physical_offset not in index.candidates(key.hash):
                problems.append(f"{key} was put and is not found")

    def flush() -> None:
        while not is_over.is_set() and not problems:
            with lock:
                flush_round = index.prepare_flush()
            flush_round.write()

    lock = threading.Lock()
    threads = [threading.Thread(target=read, args=(i,)) for i in range(3)] + [threading.Thread(target=flush)]
    for thread in threads:
        thread.start()
    at = 0
    while at < total and not problems:
        keys = [plain_index.Key((i * 31) % 997, i, BEGIN_MS) for i in range(at, at + (1, 3, 100)[at % 3])]
        with lock:
            index.put(plain_index.key_entries_of(keys))
        done += keys
        at += len(keys)
    is_over.set()
    for thread in threads:
        thread.join()
    assert not problems
    index.flush()
    index.close()
    made = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert made == [bytes(file) for file in plain_index.PlainIndex(50, 400, done).files]
