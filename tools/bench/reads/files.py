"""Reads a store's files plainly, and verifies them.

    plain read         the log's files by read calls of 1 MiB, from the page cache, or from the device
    seals              the same bytes against the seals of their segments; the last one, which has none, read plainly
    verify             the whole store against itself, from the page cache: seals, records, queues, key index

The store to verify has at least four segments; all but the last are sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ....engine.read_only import ReadOnlyStore, open_read_only
from ....store.disk.disk import RealDisk
from ....store.seal.seal import broken_blocks, read_seal
from ..case import PLAIN_COLD, Case, Work
from ..machine.page_cache import forget
from ..messages import KEPT, SEGMENT_SIZE, fill
from .reads import kept_store

PLAIN_READ, SEALS, VERIFY = "plain read", "seals", "verify"
READ_SIZE = 1 << 20
SEGMENTS_MIN = 4
SEGMENT_SIZE_MIN = 64 << 10


@contextmanager
def reading_plainly(case: Case, folder: Path) -> Iterator[Work]:
    store = kept_store(case, folder) if case.who == PLAIN_COLD else sealed_store(case, folder)
    with open_read_only(store) as view:
        pieces = pieces_of(view)
    if case.who == PLAIN_COLD:
        forget(store)
    else:
        read_plainly(pieces)
    yield lambda stamps: read_plainly(pieces)


@contextmanager
def checking_seals(case: Case, folder: Path) -> Iterator[Work]:
    store = sealed_store(case, folder)
    with open_read_only(store) as view:
        read_plainly(pieces_of(view))
        found = [(segment, read_seal(RealDisk(), store, segment)) for segment in view.segments]
        sealed = [(segment, seal) for segment, seal in found if seal is not None]
        bare = [piece for piece, (_, seal) in zip(pieces_of(view), found, strict=True) if seal is None]
        if len(bare) > 1:
            raise RuntimeError(f"{store}: {len(bare)} segments have no seal")

        def work(stamps: bool) -> None:
            if any(broken_blocks(segment, seal) for segment, seal in sealed):
                raise RuntimeError(f"{store}: a segment differs from its seal")
            read_plainly(bare)

        yield work


@contextmanager
def verifying(case: Case, folder: Path) -> Iterator[Work]:
    store = sealed_store(case, folder)
    with open_read_only(store) as view:
        read_plainly(pieces_of(view))

        def work(stamps: bool) -> None:
            report = view.verify()
            if not report.is_clean or report.records != case.count or report.sealed_segments < report.segments - 1:
                raise RuntimeError(f"{store}: {report}")

        yield work


def sealed_store(case: Case, folder: Path) -> Path:
    """A closed store with the case's messages in several segments, written at the first call."""
    each = case.size // SEGMENTS_MIN // SEGMENT_SIZE_MIN * SEGMENT_SIZE_MIN
    settings = replace(KEPT, segment_size=min(max(each, SEGMENT_SIZE_MIN), SEGMENT_SIZE))
    return fill(folder / f"sealed-{case.body_size}-{case.count}", settings, case.body_size, case.count)


def pieces_of(view: ReadOnlyStore) -> list[tuple[Path, int]]:
    """The log's files, each with the number of bytes written to it."""
    end = view.end_physical_offset
    return [(segment.path, min(segment.size, end - segment.base)) for segment in view.segments if segment.base < end]


def read_plainly(pieces: list[tuple[Path, int]]) -> None:
    buffer = memoryview(bytearray(READ_SIZE))
    for path, size in pieces:
        with path.open("rb", buffering=0) as file:
            while size > 0:
                got = file.readinto(buffer[: min(size, READ_SIZE)])
                if not got:
                    raise RuntimeError(f"{path} is shorter than it was")
                size -= got
