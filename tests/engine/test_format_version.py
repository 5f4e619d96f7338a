"""Stores of every format version that flightlog ever wrote open; one of a newer version is read, and not written."""

from __future__ import annotations

import json
import logging
import tarfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.store.disk.disk import RealDisk
from flightlog.store.state.format_version import FORMAT_FILE, VERSION, FormatVersion

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

OWN = Path(__file__).resolve().parents[1] / "data" / "own"
SMALL = flightlog.StoreSettings.small()


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_earlier_version_has_its_archive() -> None:
    assert {path.name for path in OWN.glob("*.tar.xz")} == {f"version-{number}.tar.xz" for number in range(VERSION)}


@pytest.mark.parametrize("ended", ["closed", "killed"])
@pytest.mark.parametrize("version", range(VERSION))
def test_a_store_of_an_earlier_version(version: int, ended: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    with tarfile.open(OWN / f"version-{version}.tar.xz") as tar:
        tar.extractall(tmp_path)
    told, root = json.loads((tmp_path / "told.json").read_text()), tmp_path / ended
    assert FormatVersion(RealDisk(), root).noted == version == told["version"]
    with flightlog.open_read_only(root) as view:
        orders = {message.body for queue_id in range(4) for message in view.read("orders", queue_id)}
        assert orders == {f"order {number}".encode() * 20 for number in range(told["orders"])}
        assert [message.body for message in view.read("rows")] == [b"row %d" % number for number in range(told["rows"])]
        assert [message.body for message in view.query("orders", "order-7").messages] == [b"order 7" * 20]
        assert len(view.query("orders", "all", max_count=1000).messages) == told["orders"]
    with flightlog.open(root, flightlog.StoreSettings(deliver_delayed=False)) as store:  # they have long been due
        assert store.settings.segment_size is None  # adopted, as all sizes
        assert sum(store.group_offsets("billing", "orders").values()) == told["consumed"]
        with store.subscribe("orders", group="billing") as subscription:
            left = told["orders"] - told["consumed"]
            received = {message.body for message in islice(subscription, left)}
            assert len(received) == left and received < orders
        assert len([*store.read("SCHEDULE_TOPIC_XXXX", 17)]) == told["parked"]
        assert "gone" not in store.topics()
        put = store.put(flightlog.Message("orders", b"new"))
    assert FormatVersion(RealDisk(), root).noted == VERSION
    with flightlog.open_read_only(root) as view:
        assert view.get("orders", 0, put.queue_offset).messages[0].body == b"new"
    assert_clean(root)


def test_a_new_store_notes_its_version_before_the_first_put(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SMALL):
        assert json.loads((tmp_path / "flightlog" / FORMAT_FILE).read_text()) == {"version": VERSION}
    assert_clean(tmp_path)


def test_a_newer_version_is_read_and_not_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with flightlog.open(tmp_path, SMALL) as store:
        store.put(flightlog.Message("orders", b"created"))
    note = tmp_path / "flightlog" / FORMAT_FILE
    note.write_text(json.dumps({"version": VERSION + 1}))
    before = files_of(tmp_path)
    with pytest.raises(flightlog.NewerFormatError) as raised:
        flightlog.open(tmp_path)
    assert (raised.value.found, raised.value.expected) == (VERSION + 1, VERSION)
    assert str(note) in str(raised.value) and "open_read_only" in str(raised.value)
    with caplog.at_level(logging.WARNING, "flightlog"), flightlog.open_read_only(tmp_path) as view:
        assert [message.body for message in view.read("orders")] == [b"created"]
    assert f"found format version {VERSION + 1}" in caplog.text
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("content", ['{"version": -1}', '{"version": "1"}', '{"version": true}', "{}", "[1]", "{"])
def test_a_note_that_makes_no_sense_is_refused_for_writing(content: str, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SMALL) as store:
        store.put(flightlog.Message("orders", b"created"))
    (tmp_path / "flightlog" / FORMAT_FILE).write_text(content)
    with pytest.raises(flightlog.ConfigFileError, match=FORMAT_FILE):
        flightlog.open(tmp_path)
    with flightlog.open_read_only(tmp_path) as view:
        assert [message.body for message in view.read("orders")] == [b"created"]
