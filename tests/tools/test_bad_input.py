"""What users and disks do to a store: one clear answer from `info` and `verify`, no traceback, nothing changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

SEGMENT_SIZE = 64 << 10


def write_at(path: Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def add_stray_file(store: Path) -> str:
    (store / "commitlog" / "notes.txt").write_text("not a segment")
    return "notes.txt"


def shorten_a_segment(store: Path) -> str:
    os.truncate(store / "commitlog" / f"{SEGMENT_SIZE:020d}", SEGMENT_SIZE - 4096)
    return f"{SEGMENT_SIZE:020d}"


def lose_a_segment(store: Path) -> str:
    (store / "commitlog" / f"{SEGMENT_SIZE:020d}").unlink()
    return f"{2 * SEGMENT_SIZE:020d}"


def put_garbage_into_a_record(store: Path) -> str:
    write_at(store / "commitlog" / f"{SEGMENT_SIZE:020d}", 2000, b"garbage" * 9)
    return f"{SEGMENT_SIZE:020d}"


def put_garbage_into_a_seal(store: Path) -> str:
    write_at(store / "flightlog" / "seals" / f"{0:020d}", 40, b"garbage")
    return f"seals/{0:020d}"


def put_garbage_into_a_queue(store: Path) -> str:
    write_at(store / "consumequeue" / "orders" / "1" / f"{0:020d}", 200, b"garbage" * 9)
    return "consumequeue/orders/1"


def shorten_a_queue_file(store: Path) -> str:
    os.truncate(store / "consumequeue" / "orders" / "1" / f"{0:020d}", 1000)
    return "consumequeue/orders/1"


def truncate_the_checkpoint(store: Path) -> str:
    os.truncate(store / "checkpoint", 7)
    return "checkpoint"


def zero_the_checkpoint(store: Path) -> str:
    write_at(store / "checkpoint", 0, bytes(4096))
    return "checkpoint"


@pytest.mark.parametrize(
    "damage",
    [
        add_stray_file,
        shorten_a_segment,
        lose_a_segment,
        put_garbage_into_a_record,
        put_garbage_into_a_seal,
        put_garbage_into_a_queue,
        shorten_a_queue_file,
        truncate_the_checkpoint,
        zero_the_checkpoint,
    ],
)
def test_damage_is_a_finding_and_the_rest_is_told(
    cli: Cli, clean_store: Path, fingerprint: Callable[[Path], object], damage: Callable[[Path], str]
) -> None:
    where = damage(clean_store)
    before = fingerprint(clean_store)
    verified = cli("verify", "--json", clean_store)
    findings = json.loads(verified.out)["findings"]
    assert verified.code == 1
    assert [finding for finding in findings if finding["path"].endswith(where)]
    assert all(finding["meaning"] and finding["mend"] for finding in findings)
    told = cli("info", clean_store)
    assert (told.code, told.err) == (0, "")
    assert "orders" in told.out
    assert fingerprint(clean_store) == before


@dataclass(frozen=True)
class Place:
    """A path that is no store."""

    name: str
    make: Callable[[Path], object]
    code: int
    says: str


def nothing(path: Path) -> None:
    assert not path.exists()


def a_file(path: Path) -> None:
    path.write_text("hello")


def a_file_as_log(path: Path) -> None:
    path.mkdir()
    (path / "commitlog").write_text("hello")


PLACES = [
    Place("missing", nothing, 2, "no such folder"),
    Place("a-file", a_file, 2, "a file"),
    Place("empty", Path.mkdir, 2, "no commitlog/"),
    Place("file-as-log", a_file_as_log, 3, "commitlog"),
    Place("[bold]\udcff\n", nothing, 2, "no such folder"),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ascii(place.name))
def test_what_is_no_store_is_one_line(cli: Cli, tmp_path: Path, place: Place) -> None:
    path = tmp_path / place.name
    place.make(path)
    for command in ("info", "verify"):
        finished = cli(command, path)
        assert (finished.code, finished.out) == (place.code, "")
        [line] = finished.err.splitlines()
        assert line.startswith("flightlog: ") and place.says in line


def test_an_empty_log_is_a_store_without_messages(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    told = cli("info", "--json", tmp_path)
    assert told.code == 0
    found = json.loads(told.out)
    assert (found["last_writer"], found["messages"], found["segments"]) == ("NOBODY", 0, [])
    assert cli("info", tmp_path).code == cli("verify", tmp_path).code == 0


WITHOUT_PRIVILEGES = """
import ctypes, os, sys
# Root passes every permission by two capabilities; without them in the bounding set, the next program has them no more.
if os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert libc.prctl(24, capability, 0, 0, 0) == 0, ctypes.get_errno()  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("closed", ["", "commitlog", f"commitlog/{0:020d}", "checkpoint", "consumequeue/orders"])
def test_a_store_that_may_not_be_read_ends_with_3(cli: Cli, clean_store: Path, closed: str) -> None:
    path = clean_store / closed
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        finished = cli("verify", clean_store, launcher=WITHOUT_PRIVILEGES)
    finally:
        path.chmod(mode)
    assert (finished.code, finished.out) == (3, "")
    [line] = finished.err.splitlines()
    assert line.startswith("flightlog: ") and str(path) in line and "ermission" in line
