"""Stores of every format version that flightlog ever wrote open; one of a newer version is read, and not written.

The golden stores of the earlier versions, and the one that tests/data/own/make.py makes of the present version, go
through the same tests: its docstring says what each holds.
"""

from __future__ import annotations

import json
import logging
import tarfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.consume.retry.starts import FailedAttempts, Start, Starts
from flightlog.engine.open.recovery import rebuild_path
from flightlog.spark.options.write_options import default_staging
from flightlog.spark.write.staging_folder import staged_jobs
from flightlog.spark.write.writing import WriteLedger
from flightlog.store.disk.disk import RealDisk
from flightlog.store.state.format_version import FORMAT_FILE, VERSION, FormatVersion
from flightlog.tests.data.own.make import make
from flightlog.tests.support.own_files import rows_in, since

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

OWN = Path(__file__).resolve().parents[1] / "data" / "own"
SMALL = flightlog.StoreSettings.small()
LACKS = {0: {"held", "cut-OFFSET", "spark-queries.json", "staging"}, 2: {"rebuild", "backup.json", "tls"}}
"""By version: files that its stores `closed` and `killed` could have, and have not."""
Golden = Callable[[int, str], tuple[dict[str, Any], Path]]


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What make.py makes now."""
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


@pytest.fixture
def golden_own(made: Path, copy_store: Callable[[Path, Path], Path], tmp_path: Path) -> Golden:
    """What one store of a version holds, and its folder, for this test alone."""

    def unpacked(version: int, name: str) -> tuple[dict[str, Any], Path]:
        if version == VERSION:
            copy_store(made / name, tmp_path / name)
            return json.loads((made / "told.json").read_text()), tmp_path / name
        with tarfile.open(OWN / f"version-{version}.tar.xz") as tar:
            tar.extractall(tmp_path, [each for each in tar if each.name.split("/")[0] in ("told.json", name)])
        return json.loads((tmp_path / "told.json").read_text()), tmp_path / name

    return unpacked


def test_every_earlier_version_has_its_archive() -> None:
    assert {path.name for path in OWN.glob("*.tar.xz")} == {f"version-{number}.tar.xz" for number in range(VERSION)}


def test_the_document_has_no_file_of_another_version() -> None:
    assert set(since().values()) == set(range(VERSION + 1))


@pytest.mark.parametrize("ended", ["closed", "killed"])
@pytest.mark.parametrize(
    ("version", "noted"),
    [*((version, version) for version in range(VERSION + 1)), pytest.param(2, 1, id="2-noted-as-1")],
)
def test_a_store_of_a_version(
    version: int, noted: int, ended: str, golden_own: Golden, assert_clean: AssertClean
) -> None:
    told, root = golden_own(version, ended)
    assert FormatVersion(RealDisk(), root).noted == version == told["version"]
    assert rows_in(root) == {name for name, first in since().items() if first <= version} - LACKS.get(version, set())
    if noted != version:  # as builds from before the first release wrote it
        (root / "flightlog" / FORMAT_FILE).write_text(json.dumps({"version": noted}))
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
        if version >= 1:
            check_version_1(store, told, ended)
        if version >= 2:
            check_version_2(store, told)
        put = store.put(flightlog.Message("orders", b"new"))
    assert FormatVersion(RealDisk(), root).noted == VERSION
    with flightlog.open_read_only(root) as view:
        assert view.get("orders", 0, put.queue_offset).messages[0].body == b"new"
    assert_clean(root)


def check_version_1(store: flightlog.Store, told: dict[str, Any], ended: str) -> None:
    """Atomic appends, timers, a cut tail, the files of Spark's writes."""
    pairs = [b"pair %d" % number for number in range(told["pairs"])]
    late = [b"late %d" % number for number in range(told["pairs"])] if ended == "closed" else []
    assert [message.body for message in store.read("pairs")] == pairs + late
    assert len([*store.read("rmq_sys_wheel_timer")]) == told["timed"]
    [cut] = (store.path / "flightlog").glob("cut-*")
    assert cut.stat().st_size
    ledger = WriteLedger(store.path, "query")
    assert ledger.has(3) and not ledger.has(4)
    assert [job.path.name for job in staged_jobs(default_staging(store.path))] == ["job-killed"]


def check_version_2(store: flightlog.Store, told: dict[str, Any]) -> None:
    """Attempts, dead letters that were redriven, messages in process."""
    with store.subscribe("steps", "steps", ordered=True, max_attempts=3) as subscription:
        received = islice(subscription, told["steps"])
        steps = [(message.body, message.attempt, message.ack()) for message in received]
    assert steps == [(b"step %d" % number, 1 if number else 3, True) for number in range(told["steps"])]
    letters = {b"letter %d" % number for number in range(told["letters"])}
    assert {message.body for message in store.dead_letters("letters")} == letters
    assert not store.redrive("letters", to="again", dry_run=True)
    assert {message.body for message in store.read("again")} == letters
    with store.subscribe("held", "held") as subscription:
        held = {message.body for message in islice(subscription, told["held"]) if message.ack()}
    assert held == {b"held %d" % number for number in range(told["held"])}


def test_what_a_killed_store_says_of_its_groups(golden_own: Golden) -> None:
    _, root = golden_own(2, "killed")
    with flightlog.open_read_only(root) as view:
        [first, *_] = [message.physical_offset for message in view.read("steps")]
        end = view.end_physical_offset
    starts = Starts.loaded(RealDisk(), root, end)
    assert starts.left("held", "held", 0) == Start(0, 4)
    assert starts.failed("steps", "steps", 0) == FailedAttempts(first, first, 1, 2)


@pytest.mark.parametrize("version", range(2, VERSION + 1))
def test_a_backup_of_a_version(version: int, golden_own: Golden, assert_clean: AssertClean) -> None:
    told, root = golden_own(version, "backup")
    assert rows_in(root) >= {"backup.json", "starts", "redriven.json"}
    with flightlog.open(root, flightlog.StoreSettings(deliver_delayed=False)) as store:
        assert FormatVersion(RealDisk(), root).noted == VERSION
        check_version_2(store, told)
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
    [queue_file] = (tmp_path / "consumequeue" / "orders" / "0").iterdir()
    content = queue_file.read_bytes()
    queue_file.write_bytes(b"\1" * len(content))  # there is something to repair
    before = files_of(tmp_path)
    for write in (
        lambda: flightlog.open(tmp_path),
        lambda: flightlog.repair(tmp_path, write=True),
        lambda: flightlog.seal(tmp_path, write=True),
    ):
        with pytest.raises(flightlog.NewerFormatError) as raised:
            write()
        assert (raised.value.found, raised.value.expected) == (VERSION + 1, VERSION)
        assert str(note) in str(raised.value) and "open_read_only" in str(raised.value)
        assert files_of(tmp_path) == before
    assert flightlog.repair(tmp_path).steps  # a dry run
    queue_file.write_bytes(content)
    before = files_of(tmp_path)
    with caplog.at_level(logging.WARNING, "flightlog"), flightlog.open_read_only(tmp_path) as view:
        assert [message.body for message in view.read("orders")] == [b"created"]
    assert f"found format version {VERSION + 1}" in caplog.text
    assert files_of(tmp_path) == before


def test_a_repair_notes_the_version_before_what_earlier_writers_pass_over(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SMALL) as store:
        store.put(flightlog.Message("orders", b"created"))
    (tmp_path / "flightlog" / FORMAT_FILE).write_text(json.dumps({"version": 1}))
    [queue_file] = (tmp_path / "consumequeue" / "orders" / "0").iterdir()
    queue_file.write_bytes(b"\1" * queue_file.stat().st_size)
    with pytest.raises(flightlog.GeometryMismatchError):  # by the opening at its end: as if it had died before that
        flightlog.repair(tmp_path, flightlog.StoreSettings(segment_size=1 << 21), write=True)
    assert rebuild_path(tmp_path).exists() and not queue_file.exists()
    assert FormatVersion(RealDisk(), tmp_path).noted == VERSION
    flightlog.open(tmp_path).close()
    assert_clean(tmp_path)


@pytest.mark.parametrize("content", ['{"version": -1}', '{"version": "1"}', '{"version": true}', "{}", "[1]", "{"])
def test_a_note_that_makes_no_sense_is_refused_for_writing(content: str, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SMALL) as store:
        store.put(flightlog.Message("orders", b"created"))
    (tmp_path / "flightlog" / FORMAT_FILE).write_text(content)
    with pytest.raises(flightlog.ConfigFileError, match=FORMAT_FILE):
        flightlog.open(tmp_path)
    with flightlog.open_read_only(tmp_path) as view:
        assert [message.body for message in view.read("orders")] == [b"created"]
