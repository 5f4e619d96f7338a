"""`flightlog verify`: what is clean, what is found, and the exit codes 0, 1, 2 and 3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]


def verify(cli: Cli, path: Path) -> tuple[int, dict[str, Any]]:
    finished = cli("verify", "--json", path)
    assert finished.err == ""
    return finished.code, json.loads(finished.out)


def test_clean_stores(cli: Cli, clean_store: Path, killed_store: Path, rocketmq: Callable[[str], Path]) -> None:
    rocketmq_store = rocketmq("clean") / "store"
    for path, records in ((clean_store, 900), (killed_store, 900), (rocketmq_store, 420)):
        code, found = verify(cli, path)
        assert (code, found["findings"]) == (0, [])
        assert found["is_clean"] is True
        assert found["records"] == records
    assert found["queue_entries"] == 420
    text = cli("verify", rocketmq_store)
    assert (text.code, text.err) == (0, "")
    assert ": clean. Checked 420 records in 5 segments, 420 queue entries" in text.out


def test_a_halted_rocketmq_left_queues_behind(cli: Cli, rocketmq: Callable[[str], Path]) -> None:
    store = rocketmq("halted") / "store"
    code, found = verify(cli, store)
    assert (code, found["is_clean"], found["findings"]) == (0, True, []), "lag is not damage"
    assert {Path(behind["path"]).parents[1] for behind in found["lag"]} == {store / "consumequeue"}
    assert all(behind["meaning"].endswith("no entry yet") and behind["mend"] for behind in found["lag"])
    text = cli("verify", store)
    assert text.code == 0 and ": clean. Checked" in text.out
    assert "note: no message is lost; to add the entries, open the store for writing once" in text.out
    assert text.out.count("no entry yet: the last writer was killed") == len(found["lag"])


def test_lag_beside_damage_ends_with_1(cli: Cli, rocketmq: Callable[[str], Path]) -> None:
    store = rocketmq("halted") / "store"
    (store / "commitlog" / "notes.txt").touch()
    code, found = verify(cli, store)
    assert code == 1
    assert [Path(finding["path"]).name for finding in found["findings"]] == ["notes.txt"] and found["lag"]


def test_a_flipped_byte_is_found_with_file_offset_and_mend(cli: Cli, golden: Callable[[str], Path]) -> None:
    folder = golden("abort-crcflip")
    flip = json.loads((folder / "crcflip.json").read_text())
    code, found = verify(cli, folder / "store")
    assert code == 1
    [finding] = [f for f in found["findings"] if "/commitlog/" in f["path"]]
    assert finding["offset"] == flip["flippedMessageOffset"]
    assert "CRC" in finding["meaning"] and "copy" in finding["mend"]
    text = cli("verify", folder / "store")
    assert text.code == 1
    assert f"{finding['path']}, offset {finding['offset']:,}" in text.out
    assert finding["meaning"] in text.out and finding["mend"] in text.out


@pytest.mark.parametrize(
    "arguments", [(), ("verify",), ("verify", "--colour", "."), ("verfy", "."), ("info", "a", "b")]
)
def test_a_wrong_call_ends_with_2(cli: Cli, arguments: tuple[str, ...]) -> None:
    finished = cli(*arguments)
    assert finished.code == 2
    assert "Usage: flightlog" in finished.out + finished.err


def test_version_and_help(cli: Cli) -> None:
    kernel = {"c": "C kernel", "pure": "pure Python kernel"}[flightlog.kernel]
    assert cli("--version").out == f"flightlog {flightlog.__version__} ({kernel}) from {flightlog.__path__[0]}\n"
    shown = cli("--help")
    assert shown.code == 0
    assert all(command in shown.out for command in ("demo", "info", "verify", "bench"))
