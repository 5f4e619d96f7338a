"""`flightlog backup` and `flightlog copy`: what they print, how they end; more in tests/engine/test_backup.py."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]
    Fingerprint = Callable[[Path], object]


def test_a_backup_and_a_later_one(
    cli: Cli, clean_store: Path, tmp_path: Path, fingerprint: Fingerprint, assert_clean: AssertClean
) -> None:
    out, before = tmp_path / "out", fingerprint(clean_store)
    finished = cli("backup", clean_store, out)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("backed up: ") and finished.out.endswith(f"in {out}\n")
    again = cli("backup", clean_store, out, "--json")
    assert json.loads(again.out) == {"path": str(out), "copied_size": 0, "segment_count": 0}
    assert fingerprint(clean_store) == before, "nothing of the store is changed"
    assert_clean(out)


def test_a_copy_beside_a_writer_and_refused(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    with flightlog.open(clean_store):
        assert cli("copy", clean_store, out).code == 0
    other.mkdir()
    (other / "mine").touch()
    refused = cli("copy", clean_store, other)
    assert refused.code == 2 and "nothing else is written over" in refused.err
    missing = cli("copy", tmp_path / "nothing", out)
    assert missing.code == 2 and "expected the folder of a store" in missing.err
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={os.fspath(tmp_path / 'elsewhere')}\n")
    assert cli("copy", clean_store, tmp_path / "new", "--settings", conf).code == 2
