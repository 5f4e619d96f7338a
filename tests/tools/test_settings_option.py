"""`--settings broker.conf`: every command that opens a store opens one whose log lies in folders of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main

from flightlog.store.errors import FlightlogError, InvalidSettingsError
from flightlog.tools.app import app

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

STORELESS = {"clean"}
"""They take a store's folder and open no store."""
CALLS = {
    "info": "",
    "groups": "",
    "verify": "",
    "cat": "-n 1",
    "config show": "",
    "config set": "billing --retry-max-times 3",
    "dead-letters list": "billing",
    "dead-letters redrive": "billing",
    "delays list": "",
    "group commit": "billing orders 0 7",
    "group reset": "billing orders --to last",
    "topic create": "bills",
    "topic alter": "orders --queues 5",
    "topic delete": "orders",
}


def commands() -> dict[str, set[str]]:
    """Every command, and the names of its parameters."""
    found: dict[str, set[str]] = {}

    def add(command: object, names: tuple[str, ...]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            add(below, (*names, name))
        if not hasattr(command, "commands"):
            found[" ".join(names)] = {each.name for each in command.params}  # type: ignore[attr-defined]

    add(typer.main.get_command(app), ())
    return found


def test_every_command_that_opens_a_store_has_it() -> None:
    missing = [name for name, options in commands().items() if "path" in options and "settings" not in options]
    assert set(missing) == STORELESS


@pytest.fixture(scope="module")
def split_store(written_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store whose log is elsewhere, and the conf that says where. Only read."""
    folder = tmp_path_factory.mktemp("split")
    path = Path(shutil.copytree(written_store, folder / "store"))
    (path / "commitlog").rename(folder / "log")
    conf = folder / "broker.conf"
    conf.write_text(f"storePathCommitLog={folder / 'log'}\n")
    return path, conf


@pytest.mark.parametrize("name", CALLS)
def test_a_store_in_several_folders_is_read(split_store: tuple[Path, Path], name: str) -> None:
    path, conf = split_store
    call = [*name.split(), str(path), *CALLS[name].split()]
    assert app([*call, "--settings", str(conf)], standalone_mode=False) in (None, 0)
    with pytest.raises(FlightlogError):
        app(call, standalone_mode=False)


@pytest.mark.parametrize("name", CALLS)
def test_a_conf_with_the_log_of_another_store_is_refused(
    split_store: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    path, conf = split_store
    other = tmp_path / "other.conf"
    other.write_text(f"storePathRootDir={tmp_path / 'else'}\n{conf.read_text()}")
    call = [*name.split(), str(path), *CALLS[name].split(), "--settings", str(other)]
    with pytest.raises(
        InvalidSettingsError, match=r"names the folders of the log of .*/else, expected those of .*/store"
    ):
        app(call, standalone_mode=False)


def test_each_side_of_a_diff_has_its_own_conf(
    cli: Cli, written_store: Path, split_store: tuple[Path, Path], tmp_path: Path
) -> None:
    path, conf = split_store
    named, plain = tmp_path / "named.conf", tmp_path / "plain.conf"
    named.write_text(f"storePathRootDir={path}\n{conf.read_text()}")
    plain.write_text(f"storePathRootDir={tmp_path / 'else'}\n")
    refused = cli("diff", path, written_store, "--settings", named)
    assert refused.code == 2 and f"of {path}, expected those of {written_store}" in refused.err
    assert cli("diff", path, written_store, "--settings", named, "--settings-b", plain).code == 0


def test_a_diff_does_not_read_one_log_for_two_stores(
    cli: Cli, written_store: Path, split_store: tuple[Path, Path]
) -> None:
    """It once found no difference between a store and any other one."""
    path, conf = split_store
    refused = cli("diff", path, written_store, "--settings", conf)
    assert refused.code == 2 and f"expected one for {written_store}: add --settings-b" in refused.err
    assert cli("diff", path, path, "--settings", conf).code == 0


def test_a_conf_may_name_its_folder_by_another_path(cli: Cli, split_store: tuple[Path, Path], tmp_path: Path) -> None:
    path, conf = split_store
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    linked, circle = tmp_path / "linked.conf", tmp_path / "circle.conf"
    linked.write_text(f"storePathRootDir={tmp_path / 'link'}\n{conf.read_text()}")
    circle.write_text(f"storePathRootDir={tmp_path / 'circle'}\n{conf.read_text()}")
    assert cli("info", path, "--settings", linked).code == 0
    refused = cli("info", path, "--settings", circle)
    assert refused.code == 2 and "correct storePathRootDir, or leave it out" in refused.err


def test_a_group_is_reset_there(cli: Cli, split_store: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(split_store[0].parent, tmp_path / "split"))
    conf = folder / "broker.conf"
    conf.write_text(f"storePathCommitLog={folder / 'log'}\nmappedFileSizeCommitLog=65536\n")
    finished = cli("group", "reset", folder / "store", "billing", "orders", "--to", "9", "--settings", conf, "--write")
    assert finished.code == 0 and "reset: 3 queues" in finished.out
    assert '"billing"' in cli("groups", folder / "store", "--settings", conf, "--json").out
