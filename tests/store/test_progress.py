"""The progress page: one page of words, published one by one."""

from __future__ import annotations

import errno
import struct
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.disk.disk import RealDisk
from flightlog.store.state import progress
from flightlog.store.state.progress import Progress, ProgressPage, decode_progress, progress_path, read_progress
from flightlog.testing.faulty_disk import FaultyDisk

WORD = st.integers(-(1 << 63), (1 << 63) - 1)
OFFSET = st.integers(0, (1 << 63) - 1)


@st.composite
def pages(draw: st.DrawFn) -> Progress:
    queues_flushed, dispatched = sorted((draw(OFFSET), draw(OFFSET)))
    return Progress(
        epoch=draw(WORD),
        pid=draw(WORD),
        segment_size=draw(st.integers(1, 1 << 31)),
        appended=draw(OFFSET),
        visible=draw(OFFSET),
        flushed=draw(OFFSET),
        dispatched=dispatched,
        queues_flushed=queues_flushed,
        clean_close=draw(WORD),
        boot=draw(WORD),
        store_timestamp_ms=draw(WORD),
        queue_count=draw(WORD),
        queue_ends=draw(WORD),
        queue_starts=draw(WORD),
        checkpoint=tuple(draw(st.lists(WORD, min_size=5, max_size=5))),
        index_flushed=draw(OFFSET),
        index_file=draw(OFFSET),
        index_entries=draw(OFFSET),
        index_count=draw(OFFSET),
    )


def written(root: Path, words: Progress) -> ProgressPage:
    page = ProgressPage(RealDisk(), root)
    page.begin(words)
    return page


@given(words=pages())
def test_round_trip(words: Progress, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp() / "progress"
    written(root, words).close()
    assert read_progress(RealDisk(), root) == words
    assert progress_path(root).stat().st_size == 4096


EXAMPLE = Progress(
    *(7, 4711, 65536, 5000, 4000, 3000, 2000, 1000, -1, 99, 1_700_000_000_123, 3, 60, 8),
    checkpoint=(1, 2, 3, 4, 5),
    index_flushed=900,
    index_file=6,
    index_entries=77,
    index_count=5,
)


def test_the_words_stand_where_the_drawing_says(tmp_path: Path) -> None:
    written(tmp_path, EXAMPLE).close()
    raw = progress_path(tmp_path).read_bytes()
    assert raw[:8] == b"FLTLOG01"
    assert struct.unpack_from("<23q", raw, 8) == (
        *(7, 4711, 65536, 5000, 4000, 3000, 2000, 1000, -1, 99, 1_700_000_000_123, 3, 60, 8),
        *(1, 2, 3, 4, 5),
        *(900, 6, 77, 5),
    )
    assert raw[24 * 8 :] == bytes(4096 - 24 * 8)


PUBLISHED = {
    "appended": progress.APPENDED,
    "visible": progress.VISIBLE,
    "flushed": progress.FLUSHED,
    "dispatched": progress.DISPATCHED,
    "queues_flushed": progress.QUEUES_FLUSHED,
    "clean_close": progress.CLEAN_CLOSE,
    "store_timestamp_ms": progress.STORE_TIMESTAMP,
    "queue_count": progress.QUEUE_COUNT,
    "queue_ends": progress.QUEUE_ENDS,
    "queue_starts": progress.QUEUE_STARTS,
}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_word_is_seen_at_once(
    name: str, ordered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways: through the mapping, and by write calls where the processor promises no order between stores."""
    monkeypatch.setattr(progress, "STORES_ARE_ORDERED", ordered)
    page = written(tmp_path, EXAMPLE)
    page.publish(PUBLISHED[name], 1234)
    assert name in {f.name for f in fields(Progress)}
    change: dict[str, Any] = {name: 1234}
    assert read_progress(RealDisk(), tmp_path) == replace(EXAMPLE, **change)
    page.sync()
    page.close()
    assert read_progress(RealDisk(), tmp_path) == replace(EXAMPLE, **change)


def test_a_sync_writes_the_words_that_had_no_room(tmp_path: Path) -> None:
    disk = FaultyDisk()
    page = ProgressPage(disk, tmp_path, is_mapped=False)
    page.begin(EXAMPLE)
    disk.fail("write", "flightlog/progress", errno.EDQUOT)
    page.publish(progress.APPENDED, 6000)
    assert read_progress(RealDisk(), tmp_path) == EXAMPLE
    disk.heal()
    page.sync()
    assert read_progress(RealDisk(), tmp_path) == replace(EXAMPLE, appended=6000)
    page.close()


def test_no_page(tmp_path: Path) -> None:
    assert read_progress(RealDisk(), tmp_path) is None


@given(st.binary(max_size=4096))
def test_garbage_is_no_page(raw: bytes) -> None:
    assert decode_progress(raw) is None


@given(st.binary(max_size=200))
def test_garbage_behind_the_magic_is_a_page_only_if_its_words_make_sense(raw: bytes) -> None:
    found = decode_progress(b"FLTLOG01" + raw)
    if found is not None:
        assert found.segment_size > 0
        assert min(found.appended, found.visible, found.flushed) >= 0
        assert 0 <= found.queues_flushed <= found.dispatched


@pytest.mark.parametrize("size", [0, 8, 191])
def test_a_truncated_page_is_none(size: int, tmp_path: Path) -> None:
    written(tmp_path, EXAMPLE).close()
    raw = progress_path(tmp_path).read_bytes()
    assert decode_progress(raw[:192]) == EXAMPLE
    assert decode_progress(raw[:size]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"segment_size": 0},
        {"appended": -1},
        {"visible": -1},
        {"flushed": -1},
        {"queues_flushed": -1},
        {"dispatched": 999},
    ],
)
def test_words_that_contradict_each_other_are_no_page(change: dict[str, int], tmp_path: Path) -> None:
    written(tmp_path, replace(EXAMPLE, **change)).close()  # type: ignore[arg-type]
    assert read_progress(RealDisk(), tmp_path) is None


def test_the_page_says_which_boot_it_is_of() -> None:
    assert replace(EXAMPLE, boot=progress.boot_number()).is_of_this_boot
    assert not replace(EXAMPLE, boot=progress.boot_number() + 1).is_of_this_boot
    assert not replace(EXAMPLE, boot=0).is_of_this_boot
