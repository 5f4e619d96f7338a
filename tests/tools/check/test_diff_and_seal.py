"""`flightlog diff` and `flightlog seal`: text, JSON and exit codes."""

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

DIFFERENCE = {"kind", "name", "field", "a", "b", "topic", "queue_id", "queue_offset"}
SEAL = {"path", "is_written", "sealed", "kept", "covered_size", "left"}


def test_diff(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(clean_store, tmp_path / "other"))
    assert (same := cli("diff", clean_store, other)).out == "no difference\n" and (same.code, same.err) == (0, "")
    assert json.loads(cli("diff", "--json", clean_store, other).out)["differences"] == []
    with flightlog.open(other) as store:
        store.put(flightlog.Message("orders", b"one more", queue_id=0))
    shown = cli("diff", clean_store, other)
    assert (shown.code, shown.err) == (1, "")
    assert shown.out == "queue orders/0: end offset: 300 | 301\n1 difference: queue 1\n"
    found = json.loads(cli("diff", "--json", clean_store, other).out)
    assert found.keys() == {"a", "b", "differences", "count"} and found["count"] == 1
    assert found["differences"][0].keys() == DIFFERENCE
    refused = cli("diff", "--json", clean_store, tmp_path / "none")
    assert (refused.code, refused.out) == (2, "") and "no such folder" in refused.err


def test_seal(cli: Cli, clean_store: Path) -> None:
    shutil.rmtree(clean_store / "flightlog" / "seals")
    shown = cli("seal", clean_store)
    assert shown.code == 0 and "would seal" in shown.out and shown.out.endswith("Do it with --write\n")
    found = json.loads(cli("seal", "--json", clean_store).out)
    assert found.keys() == SEAL and not found["is_written"] and found["sealed"]
    done = cli("seal", "--write", clean_store)
    assert (done.code, done.err) == (0, "") and done.out.startswith("sealed ")
    assert cli("seal", clean_store).out == f"{len(found['sealed'])} segments had a seal\n"
    with flightlog.open(clean_store):
        assert cli("seal", "--write", clean_store).code == 4
