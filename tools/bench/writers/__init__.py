"""The writers: this store, the limits of the machine, and installed peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from ....store import native
from ....store.errors import UsageError
from ..case import FRESH_PAGES, MEMCPY, NOTHING, OWN, PURE, RAW_LOOP, REFERENCES, Case, Sample, Work
from ..drive import drive, no_collection
from ..machine import device
from ..machine.free_pages import touch_free_pages
from ..machine.system_use import SystemUse
from ..messages import make_rows, record_size
from .session import Session

PEERS = {
    "sqlite3": "sqlite3",
    "lmdb": "lmdb",
    "rocksdict": "rocksdict",
    "diskcache": "diskcache",
    "persist-queue": "persistqueue",
    "litequeue": "litequeue",
}
"""Name -> the module that it needs."""
_MODULES = {
    **dict.fromkeys((OWN, PURE), "own"),
    **dict.fromkeys((MEMCPY, FRESH_PAGES, NOTHING, RAW_LOOP), "limits"),
    **dict.fromkeys(PEERS, "peers"),
}
FIRST_MESSAGES = 256
"""Messages put into every fresh store before the clock starts, by the same call, so that its topic, queues and first
segment exist, and whatever it prepares while idle."""
FIRST_UNITS_MAX = 1 << 16
"""Different messages put before the clock starts; larger numbers repeat them."""
FILL_THREADS = 64
"""Threads that fill a store before the clock starts."""
FREE_PAGES_MIN_SIZE, FREE_PAGES_MAX_SIZE = 64 << 20, 256 << 20
"""Bytes of memory that a round may need beyond twice its records, for queues, index and pages ahead. Grows with the
records."""


def put_case(who: str, *, sync: bool = False, **fields: Any) -> Case:
    """Puts by one of these writers; `fields` are those of Case."""
    kernel = {OWN: "c", PURE: "pure"}.get(who)
    against = None if who in REFERENCES else RAW_LOOP if sync else MEMCPY
    return Case(who, sync=sync, kernel=kernel, prepare=putting, against=against, needs_disk=sync, **fields)


def own_writers() -> tuple[str, ...]:
    """This store over the C kernel, if it is there, and the pure reference."""
    return tuple(name for name, kernel in ((OWN, "c"), (PURE, "pure")) if kernel in native.available())


def peers_at_hand() -> tuple[str, ...]:
    return tuple(name for name, module in PEERS.items() if find_spec(module) is not None)


def check_peer(name: str) -> None:
    """Raises UsageError for an unknown peer, and for one that is not installed."""
    if name not in PEERS:
        raise UsageError(
            f"--versus {name}: no such peer; there are {', '.join(PEERS)}, rocketmq=FOLDER_OF_JARS and all"
        )
    if find_spec(PEERS[name]) is None:
        raise UsageError(f"--versus {name}: not installed; pip install {name}")


def opened(folder: Path, case: Case, size: int) -> closing[Session]:
    """A context manager: a session of the case's writer in an empty folder, with room for `size` bytes of records."""
    open_session: Callable[[Path, Case, int], Session] = import_module(f".{_MODULES[case.who]}", __name__).open_session
    return closing(open_session(folder, case, size))


def first_calls(case: Case) -> int:
    """Calls before the clock starts."""
    return case.first_calls or -(-max(FIRST_MESSAGES, case.filled) // case.batch)


def first_threads(case: Case) -> int:
    return FILL_THREADS if case.filled else 1


def begin(session: Session, case: Case) -> None:
    """Put the first messages, and wait until the writer is at rest."""
    calls, put = first_calls(case), session.puts()[0]
    units = session.units(make_rows(case.body_size, min(calls * case.batch, FIRST_UNITS_MAX)))
    drive([put] * first_threads(case), units, calls, rate=None, stamps=False)
    session.settle()


def free_memory_for(case: Case) -> None:
    """Touch as much free memory as the round will need."""
    touch_free_pages(2 * case.size + min(FREE_PAGES_MIN_SIZE + case.size, FREE_PAGES_MAX_SIZE))


@contextmanager
def putting(case: Case, folder: Path) -> Iterator[Work]:
    """Prepare a round of puts into its own folder, which is removed afterwards."""
    if not case.sync:
        # What earlier rounds left to write is not charged to this one. Before it opens: a page that was written back
        # faults at its next store, and the pages of memcpy are to be dirty.
        os.sync()
    room = (first_calls(case) + case.calls) * case.batch * record_size(case.body_size)
    with TemporaryDirectory(dir=folder) as place, opened(Path(place), case, room) as session:
        begin(session, case)
        units = session.units(make_rows(case.body_size, case.count))

        def work(stamps: bool) -> Sample:
            written, use, started_s = device.Written(folder), SystemUse(), perf_counter()
            rate = case.rate / case.batch if case.rate else None
            times = drive(session.puts(), units, case.calls, rate=rate, stamps=stamps)
            put_s = perf_counter() - started_s
            session.drain()
            drained_s = perf_counter() - started_s
            figures = use.since(case.count)
            return Sample(case.count, drained_s, put_s, *times, device_size=written.since(), figures=figures)

        free_memory_for(case)
        with no_collection():
            yield work
