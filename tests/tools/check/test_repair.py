"""`flightlog repair`: shown first, done with --write, its JSON, its exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

REPAIR = {"path", "is_written", "is_clean", "steps", "left", "lost", "backups", "before", "after"}
SALVAGE = {
    "path",
    "out",
    "is_written",
    "records",
    "size",
    "deleted",
    "dropped_size",
    "placeholders",
    "renumbered",
    "lost",
} | {
    "state_files",
    "state_files_lost",
    "after",
}
FINDING = {"path", "offset", "meaning", "mend", "command"}
LOST = {"path", "physical_offset", "size", "found"}


def flip_a_body(store: Path) -> None:
    with flightlog.open_read_only(store) as view:
        place = next(iter(view.read("orders", 0, 3))).physical_offset + 100
    with sorted((store / "commitlog").iterdir())[0].open("r+b") as file:
        file.seek(place)
        file.write(b"!")


def test_it_shows_then_mends(cli: Cli, clean_store: Path) -> None:
    assert cli("repair", clean_store).out.endswith("nothing to do\n")
    shutil.rmtree(clean_store / "consumequeue" / "orders" / "1")
    flip_a_body(clean_store)
    found = cli("verify", clean_store)
    assert f"flightlog repair {clean_store} --write" in found.out
    shown = cli("repair", clean_store)
    assert (shown.code, shown.err) == (1, "")
    assert "would write over" in shown.out and "1 body would be lost" in shown.out
    assert shown.out.endswith("nothing was changed. Do it with --write\n")
    assert cli("verify", clean_store).out.splitlines()[:-1] == found.out.splitlines()[:-1], "nothing was changed"
    done = cli("repair", "--write", clean_store)
    assert (done.code, done.err) == (0, "")
    assert "orders 0 3" in done.out and "put it back" in done.out and done.out.endswith("clean\n")
    assert cli("verify", clean_store).code == 0


def test_its_json(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    flip_a_body(clean_store)
    shown = cli("repair", "--json", clean_store)
    found = json.loads(shown.out)
    assert (shown.code, found.keys(), found["is_written"], found["after"]) == (1, REPAIR, False, None)
    assert all(each.keys() == FINDING for each in found["before"]["findings"])
    out = tmp_path / "new"
    shown = cli("repair", "--json", clean_store, "--salvage", out)
    carried = json.loads(shown.out)
    assert (shown.code, carried.keys(), carried["is_written"]) == (1, SALVAGE, False) and not out.exists()
    assert [each.keys() for each in carried["lost"]] == [LOST]
    done = json.loads(cli("repair", "--json", "--write", clean_store, "--salvage", out).out)
    assert done["records"] == carried["records"] == 899
    assert done["placeholders"] == 1 and done["after"]["is_clean"]
    assert json.loads(cli("repair", "--json", "--write", clean_store).out)["after"]["is_clean"]


def test_what_only_a_new_store_helps(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    with sorted((clean_store / "commitlog").iterdir())[0].open("r+b") as file:
        file.seek(5_000)
        file.write(bytes(2_000))
    assert "--salvage OUT" in cli("verify", clean_store).out
    refused = cli("repair", "--write", clean_store)
    assert refused.code == 1 and "nothing was changed: --salvage OUT" in refused.out
    done = cli("repair", "--write", clean_store, "--salvage", tmp_path / "new")
    assert done.code == 1, "bytes were lost"
    assert "lost: " in done.out and done.out.endswith("clean\n")
    again = cli("repair", "--write", clean_store, "--salvage", tmp_path / "new")
    assert (again.code, again.out) == (2, "") and "is empty" in again.err


def test_beside_a_writer_it_ends_with_4(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    with flightlog.open(clean_store):
        assert cli("repair", clean_store).code == 0
        assert cli("repair", "--write", clean_store).code == 4
        assert cli("repair", clean_store, "--salvage", tmp_path / "new").code == 4


def test_no_store(cli: Cli, tmp_path: Path) -> None:
    assert cli("repair", tmp_path / "none").code == 2
