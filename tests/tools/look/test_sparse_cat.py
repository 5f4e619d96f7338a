"""`cat` of a topic that is 1 % of a store reads the pages that hold its records, and little else.

It read 7 to 76 times as many: each page fault brought in what lay around a record. Pages are counted where they then
are, in the page cache, by mincore(2).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.read.selection import Selection
from flightlog.engine.read.sparse_reads import expect_sparse_reads

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

SEGMENT_SIZE = 64 << 20
COUNT, BODY_SIZE = 250_000, 300
RARE = 100
"""One message in so many is of the topic."""
PAGES_MAX = 1.5
"""As many as hold its records, at most."""
ATTEMPTS = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments of random bodies, in no order of topics; nothing of them in memory."""
    drawn = random.Random(11)
    path = tmp_path_factory.mktemp("sparse") / "store"

    def messages() -> Iterator[Message]:
        for _ in range(COUNT):
            topic = "rare" if drawn.randrange(RARE) == 0 else "orders"
            yield Message(topic, drawn.randbytes(BODY_SIZE), queue_id=drawn.randrange(4))

    with flightlog.open(path, StoreSettings(segment_size=SEGMENT_SIZE)) as store:
        store.put_many(messages())
    return path


def drop(path: Path) -> None:
    """Have the kernel forget the pages of the store. A busy one keeps some: then it is asked again."""
    for _ in range(ATTEMPTS):
        for file in filter(Path.is_file, path.rglob("*")):
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        if not resident(path):
            break


def resident(path: Path) -> int:
    """Pages of the log in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    count = 0
    for file in (path / "commitlog").iterdir():
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapping:
            pages = np.zeros(-(-len(mapping) // mmap.PAGESIZE), np.uint8)
            start = np.frombuffer(mapping, np.uint8)
            assert libc.mincore(start.ctypes.data, len(mapping), pages.ctypes.data) == 0, os.strerror(
                ctypes.get_errno()
            )
            del start
            count += int((pages & 1).sum())
    return count


def test_cat_of_a_small_topic_reads_its_pages(cli: Cli, path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        assert len(view.segments) == 2
        keys = [key for key in view.queues() if key[0] == "rare"]
        found = [each for key in keys for each in view.read(*key)]
    pages = {
        page
        for each in found
        for page in range(
            each.physical_offset // mmap.PAGESIZE, (each.physical_offset + each.size - 1) // mmap.PAGESIZE + 1
        )
    }
    drop(path)
    if resident(path) > len(pages) // 10:
        pytest.skip("the file system keeps its pages in memory")
    finished = cli("cat", path, "--topic", "rare", "--form", "csv", "--body-as", "base64")
    assert finished.code == 0 and finished.out.count("\n") == len(found) + 1 > COUNT // RARE // 2
    assert resident(path) <= PAGES_MAX * len(pages)


def test_opening_reads_little_of_the_log(path: Path) -> None:
    """It read 2 MiB behind the end of the log: as much as all of a topic of a hundred large messages."""
    drop(path)
    left = resident(path)  # a page that another processor has at hand is not given back
    if left * mmap.PAGESIZE > SEGMENT_SIZE // 10:
        pytest.skip("the file system keeps its pages in memory")
    with flightlog.open_read_only(path) as view:
        assert (resident(path) - left) * mmap.PAGESIZE < 1 << 20
        assert view.end_physical_offset > SEGMENT_SIZE


def test_dense_topics_and_empty_ranges_are_read_as_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads ahead of them."""
    with flightlog.open_read_only(path) as view:
        told: list[bool] = []
        for segment in view.segments:
            monkeypatch.setattr(type(segment), "expect_scattered_reads", lambda _, are: told.append(are))
        for selection in (Selection(), Selection(topics=("orders",)), Selection(topics=("nobody",))):
            expect_sparse_reads(view, selection.bounds(view))
        assert told == []
        expect_sparse_reads(view, Selection(topics=("rare",)).bounds(view))
        assert told == [True, True]
