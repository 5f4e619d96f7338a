"""Who can be asked to write: this store, what the machine can do at best, and the peers that are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ....store import native
from ....store.errors import UsageError
from ..loads.load import Load
from .session import Session

OWN, PURE = "flightlog", "flightlog, pure"
RAW_LOOP, MEMCPY, FRESH_PAGES, FILE = "raw loop", "memcpy", "fresh pages", "buffered file"
NOTHING = "nothing"
REFERENCES = (MEMCPY, FRESH_PAGES, RAW_LOOP, FILE, NOTHING)
"""What no store can beat, or what promises less than one."""
PEERS = {
    "sqlite3": "sqlite3",
    "lmdb": "lmdb",
    "rocksdict": "rocksdict",
    "diskcache": "diskcache",
    "persist-queue": "persistqueue",
    "litequeue": "litequeue",
}
"""Name -> the module that has to be installed."""
_MODULES = {
    OWN: "own",
    PURE: "own",
    MEMCPY: "memory",
    FRESH_PAGES: "memory",
    NOTHING: "memory",
    RAW_LOOP: "files",
    FILE: "files",
    "sqlite3": "sqlite_peer",
    "lmdb": "lmdb_peer",
    "rocksdict": "rocks_peer",
    "diskcache": "queue_peers",
    "persist-queue": "queue_peers",
    "litequeue": "queue_peers",
}

Open = Callable[[str, Path, Load, int], Session]
"""(writer, empty folder, load, bytes of records to come) -> an open session."""


def own_writers() -> tuple[str, ...]:
    """This store over the C kernel, if it is there, and the pure reference."""
    return tuple(name for name, kernel in ((OWN, "c"), (PURE, "pure")) if kernel in native.available())


def peers_at_hand() -> tuple[str, ...]:
    return tuple(name for name, module in PEERS.items() if find_spec(module) is not None)


def check_peer(name: str) -> None:
    """Raises UsageError for what is no peer, or is not installed."""
    if name not in PEERS:
        raise UsageError(
            f"--versus {name}: no such peer; there are {', '.join(PEERS)}, rocketmq=FOLDER_OF_JARS and all"
        )
    if find_spec(PEERS[name]) is None:
        raise UsageError(f"--versus {name}: not installed; pip install {name}")


@contextmanager
def opened(folder: Path, load: Load, size: int) -> Iterator[Session]:
    """A session of the load's writer in an empty folder."""
    open_session: Open = import_module(f".{_MODULES[load.writer]}", __name__).open_session
    before = native.NAME
    if load.writer in (OWN, PURE):
        native.use("pure" if load.writer == PURE else "c")
    try:
        session = open_session(load.writer, folder, load, size)
        try:
            yield session
        finally:
            session.close()
    finally:
        native.use(before)
