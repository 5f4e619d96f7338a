"""One writer a store, any number of readers: in this process, in others, and after readers have come and gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.lock import LOCK_FILE, is_held, is_served
from flightlog.store.errors import StoreLockedError, StoreNotFoundError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

TRY_TO_OPEN = """
import sys, flightlog
from flightlog.store.errors import StoreLockedError
try:
    flightlog.open(sys.argv[1]).close()
except StoreLockedError as e:
    print("locked:", e)
else:
    print("opened")
"""

READ = """
import sys, flightlog
with flightlog.open_read_only(sys.argv[1]) as view:
    print(sum(len(list(view.read(*key))) for key in view.queues()), "messages,", len(view.verify().findings),
    "findings")
"""


def run(program: str, path: Path) -> str:
    """What a program says in a process of its own."""
    command = [sys.executable, "-P", "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


@pytest.fixture
def store(tmp_path: Path) -> flightlog.Store:
    return flightlog.open(tmp_path / "store", StoreSettings.small())


def put(store: flightlog.Store, count: int) -> None:
    store.put_many([Message("orders", f"{i}".encode(), queue_id=i % 2) for i in range(count)])


def test_a_second_open_in_this_process_is_refused(
    store: flightlog.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    put(store, 10)
    (tmp_path / "other name").symlink_to(store.path)
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in (store.path, tmp_path / "other name", Path("store"), tmp_path / "x" / ".." / "store"):
        with pytest.raises(StoreLockedError, match="already open for writing by this process.*open_read_only"):
            flightlog.open(name)
    put(store, 10)
    assert len(list(store.read("orders"))) == 10
    store.close()
    with flightlog.open(store.path) as again:
        put(again, 2)
    assert assert_clean(store.path).records == 22


def test_a_second_open_in_another_process_is_refused(store: flightlog.Store, assert_clean: AssertClean) -> None:
    put(store, 10)
    said = run(TRY_TO_OPEN, store.path)
    assert said.startswith("locked:") and "another process" in said and "open_read_only" in said
    put(store, 10)
    store.close()
    assert run(TRY_TO_OPEN, store.path) == "opened"
    assert assert_clean(store.path).records == 20


def look(path: Path) -> None:
    """Everything that may be done beside a writer, in this process."""
    with flightlog.open_read_only(path) as view:
        assert list(view.read("orders"))
        view.refresh()
        assert view.verify().is_clean
        view.get("orders", 0, 0)


LOOKS: dict[str, Callable[[flightlog.Store], object]] = {
    "view": lambda store: look(store.path),
    "verify": lambda store: store.verify(),
    "view elsewhere": lambda store: run(READ, store.path),
    "attempt here": lambda store: pytest.raises(StoreLockedError, flightlog.open, store.path),
    "attempt elsewhere": lambda store: run(TRY_TO_OPEN, store.path),
    "command": lambda store: subprocess.run(
        [sys.executable, "-P", "-m", "flightlog", "info", str(store.path)], check=True, capture_output=True, timeout=240
    ),
}


@pytest.mark.parametrize("what", LOOKS)
def test_another_process_is_still_refused_after(what: str, store: flightlog.Store, assert_clean: AssertClean) -> None:
    """Closing any descriptor of the lock file would drop this process's lock: nobody may open it."""
    put(store, 10)
    LOOKS[what](store)
    assert run(TRY_TO_OPEN, store.path).startswith("locked:")
    put(store, 10)
    store.close()
    assert assert_clean(store.path).records == 20


def test_readers_elsewhere_see_what_was_put_while_the_writer_lives(store: flightlog.Store) -> None:
    put(store, 10)
    assert run(READ, store.path) == "10 messages, 0 findings"
    put(store, 5)
    assert run(READ, store.path) == "15 messages, 0 findings"
    store.close()
    assert run(READ, store.path) == "15 messages, 0 findings"


def test_the_lock_is_free_after_an_open_that_failed(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        put(store, 3)
    (path / "commitlog" / "stray").touch()
    for _ in range(2):
        with pytest.raises(flightlog.FlightlogError, match="stray"):
            flightlog.open(path)
    (path / "commitlog" / "stray").unlink()
    assert run(TRY_TO_OPEN, path) == "opened"
    flightlog.open(path).close()
    assert assert_clean(path).records == 3


def test_what_is_no_store_is_not_opened_and_not_changed(tmp_path: Path) -> None:
    for name in ("notes.txt", "commitlogs"):
        folder = tmp_path / name.partition(".")[0] / "folder"
        folder.mkdir(parents=True)
        (folder / name).write_text("mine")
        with pytest.raises(StoreNotFoundError, match=rf"contains '{name}'.*an empty directory"):
            flightlog.open(folder)
        with pytest.raises(StoreNotFoundError, match="expected the folder of a store"):
            flightlog.open_read_only(folder)
        assert [path.name for path in folder.iterdir()] == [name]


LOCK_BEHIND = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX, 1, int(sys.argv[2]))
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("byte", [0, 1, 2])
def test_each_byte_of_the_lock_is_asked_about_alone(byte: int, tmp_path: Path) -> None:
    """A process that locks another byte is no writer, and serves nobody."""
    lock = tmp_path / LOCK_FILE
    lock.touch()
    command = [sys.executable, "-P", "-c", LOCK_BEHIND, str(lock), str(byte)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        assert (is_held(tmp_path), is_served(tmp_path)) == (byte == 0, byte == 1)
        holder.communicate(timeout=240)
    assert not is_held(tmp_path) and not is_served(tmp_path)
