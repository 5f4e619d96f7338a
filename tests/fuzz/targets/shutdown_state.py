"""Progress page, `checkpoint` and `abort`: from these, recovery tells who wrote last."""

from __future__ import annotations

from flightlog.engine.open.shutdown_state import abort_content, read_shutdown_state
from flightlog.store.disk.disk import RealDisk
from flightlog.store.state.checkpoint import Checkpoint
from flightlog.store.state.progress import MAGIC, PAGE, decode_progress
from flightlog.tests.support import scratch

NAMES = ("flightlog/progress", "checkpoint", "abort")


def one(data: bytes) -> None:
    parts = scratch.split(data, len(NAMES))
    files = dict(zip(NAMES, parts, strict=True)) | {"commitlog/00000000000000000000": bytes(64)}
    root = scratch.fill({name: content for name, content in files.items() if content})
    shutdown_state = read_shutdown_state(RealDisk(), root, tolerant=True)
    page = decode_progress(parts[0])
    assert shutdown_state.progress == page
    if page is not None:
        words = PAGE.unpack_from(parts[0])
        assert words[0] == MAGIC and (page.epoch, page.pid) == words[1:3] and page.index_count == words[-1]
        assert page.segment_size > 0 <= min(page.appended, page.visible, page.flushed, page.index_entries)
    assert (shutdown_state.abort is None) == (not parts[2])
    assert not shutdown_state.is_ours or page is not None
    assert shutdown_state.durable_below == (page.flushed if page is not None and shutdown_state.is_ours else 0)
    assert not shutdown_state.is_stale(RealDisk())


def seeds() -> list[bytes]:
    words = [MAGIC, 77, 4711, 65536, 900, 900, 900, 900, 900, 900, 5, 6, 2, 10, 0, 1, 2, 3, 4, 5, 900, 20231114, 7, 1]
    page, checkpoint = PAGE.pack(*words), Checkpoint(1, 2, 3, 4, 5).encode()[:48]
    return [scratch.join(page, checkpoint, b"")] + [
        scratch.join(page, checkpoint, abort) for abort in (abort_content(4711, 77, None), abort_content(4712, 78, 77))
    ]
