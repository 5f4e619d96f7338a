"""`config/topics.json`: in RocketMQ's shape, kept as it is where we do not know it, and damaged in every way."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings, Topic
from flightlog.engine.open import boot
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.store.errors import (
    ConfigFileError,
    DiskError,
)
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

SETTINGS = StoreSettings.small(key_index=False)


def topics_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "config" / "topics.json").read_text())
    return found


def test_what_we_do_not_know_is_kept(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    path = tmp_path / "config" / "topics.json"
    path.parent.mkdir()
    given = {
        "dataVersion": {"counter": 7, "stateVersion": 3, "timestamp": 5, "what": [1]},
        "later": {"a": None},
        "topicConfigTable": {
            "t": {
                "attributes": {"cleanup.policy": "DELETE"},
                "order": True,
                "perm": 7,
                "readQueueNums": 3,
                "topicFilterType": "MULTI_TAG",
                "topicName": "t",
                "topicSysFlag": 2,
                "writeQueueNums": 2,
                "new": {"1": 2.5},
            }
        },
    }
    path.write_text(json.dumps(given).replace('"1"', "1"))
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        topic = store.topic("t")
        assert topic is not None and topic.extra == {"new": {"1": 2.5}} and topic.perm == 7
        store.put(Message("t", b"x", queue_id=1))
        assert json.loads(path.read_text().replace("{1:", '{"1":')) == given, "nothing has changed yet"
        store.update_topic("t", write_queue_count=5)
    given["dataVersion"] = {"counter": 8, "stateVersion": 3, "timestamp": clock.at_ms, "what": [1]}
    given["topicConfigTable"]["t"]["writeQueueNums"] = 5  # type: ignore[index]
    assert topics_json(tmp_path) == given
    text = path.read_text()
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":8,'), "as RocketMQ's writer lays it out"
    assert_clean(tmp_path)


BAD: dict[str, Any] = {
    "no table": {"topicConfigTable": [1]},
    "no topic": {"topicConfigTable": {"t": 1}},
    "queues in words": {"topicConfigTable": {"t": {"readQueueNums": "4"}}},
    "queues below none": {"topicConfigTable": {"t": {"writeQueueNums": -1}}},
    "too many queues": {"topicConfigTable": {"t": {"writeQueueNums": 1 << 40}}},
    "true queues": {"topicConfigTable": {"t": {"readQueueNums": True}}},
    "permission in words": {"topicConfigTable": {"t": {"perm": "rw"}}},
    "an order that is a number": {"topicConfigTable": {"t": {"order": 1}}},
    "attributes that are a list": {"topicConfigTable": {"t": {"attributes": []}}},
    "a filter that is none": {"topicConfigTable": {"t": {"topicFilterType": None}}},
    "another name": {"topicConfigTable": {"t": {"topicName": "u"}}},
    "a name that leaves the store": {"topicConfigTable": {"../../etc": {}}},
    "half a letter": {"topicConfigTable": {"\ud800": {}}},
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_of_the_wrong_shape_is_an_error_with_a_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("t", b"x"))
    path.write_text(json.dumps(BAD[name]))
    with pytest.raises(ConfigFileError, match="topics.json"):
        flightlog.open(tmp_path, SETTINGS)
    with flightlog.open_read_only(tmp_path) as view:
        assert [m.body for m in view.read("t")] == [b"x"]
        with pytest.raises(ConfigFileError):
            view.topics()
        (finding,) = view.verify().findings
        assert finding.path == path
    path.unlink()
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert store.topics() == {"t": Topic("t", 4, 4)}
        assert store.verify().is_clean


def test_a_field_that_is_not_there_has_rocketmqs_default(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text('{"topicConfigTable":{"t":{}}}')
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert store.topic("t") == Topic("t", 16, 16)


def test_a_file_that_is_cut_is_read_from_its_backup(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", 2)
        store.create_topic("u", 3)
    path = tmp_path / "config" / "topics.json"
    path.write_bytes(path.read_bytes()[:40])
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert set(store.topics()) == {"t"}
    with flightlog.open_read_only(tmp_path) as view:
        [finding] = view.verify().findings
    assert finding.path == path and "topics.json.bak is whole and is read in its place" in finding.meaning
    path.unlink()  # as the finding says
    assert_clean(tmp_path)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_call_that_cannot_be_made_durable_changes_nothing(
    operation: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    disk = FaultyDisk()
    with flightlog.open(tmp_path, SETTINGS, disk=disk) as store:
        store.create_topic("t", 2)
        disk.fail(operation, "config", errno.EIO)
        with pytest.raises(DiskError):
            store.update_topic("t", 3)
        with pytest.raises(DiskError):
            store.create_topic("u")
        assert store.topics() == {"t": Topic("t", 2, 2)}
        store.put(Message("made-by-a-put", b"x"))
        store.flush()
        disk.heal()
        store.create_topic("u")
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert set(store.topics()) == {"made-by-a-put", "t", "u"}
    assert_clean(tmp_path)


def test_a_disk_without_room_for_the_file_does_not_stop_the_store(tmp_path: Path, assert_clean: AssertClean) -> None:
    disk = FaultyDisk()
    disk.fail("create", "config", errno.ENOSPC)
    with flightlog.open(tmp_path, SETTINGS, disk=disk) as store:
        store.put(Message("t", b"x"))
        inside.maintenance(store).flush_queues()
        store.put(Message("u", b"x"))
    assert not (tmp_path / "config" / "topics.json").exists()
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert set(store.topics()) == {"t", "u"}
    assert_clean(tmp_path)


def test_queues_outlive_a_disk_that_is_full_twice_and_a_death_in_the_middle_of_an_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """The file is written neither by the writer that is killed nor by the opening, which dies when `abort` says already
    that it writes now, and the progress page does not yet: it is not taken for RocketMQ, whose file counts."""
    disk = FaultyDisk()
    store = flightlog.open(tmp_path, replace(SETTINGS, put_adds_queues=True), disk=disk)
    store.create_topic("t", 1)
    disk.fail("create", "config", errno.ENOSPC)
    store.put(Message("t", b"x", queue_id=3))
    kill(store)

    def die(*arguments: object) -> None:
        raise InterruptedError("died")

    before = (tmp_path / "abort").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(boot, "_begin_progress", die)
        with pytest.raises(InterruptedError):
            flightlog.open(tmp_path, SETTINGS, disk=disk)
    assert (tmp_path / "abort").read_bytes() != before
    assert topics_json(tmp_path)["topicConfigTable"]["t"]["writeQueueNums"] == 1
    with flightlog.open_read_only(tmp_path) as view:
        assert view.shutdown_state.last_writer is LastWriter.FLIGHTLOG_KILLED
    with flightlog.open(tmp_path, SETTINGS) as store:
        topic = store.topic("t")
        assert topic is not None and topic.write_queue_count == 4
        assert store.recovery_report.last_writer is LastWriter.FLIGHTLOG_KILLED
    assert_clean(tmp_path)


def test_queues_that_outlived_a_kill_outlive_the_close_behind_it(tmp_path: Path, assert_clean: AssertClean) -> None:
    """What recovery learns of a topic from its queues goes into the file: after a clean close nobody looks again."""
    store = flightlog.open(tmp_path, replace(SETTINGS, put_adds_queues=True))
    store.create_topic("t", 1)
    store.put(Message("t", b"x", queue_id=3))
    kill(store)
    for _ in range(3):
        with flightlog.open(tmp_path, SETTINGS) as store:
            topic = store.topic("t")
            assert topic is not None and (topic.read_queue_count, topic.write_queue_count) == (4, 4)
    assert topics_json(tmp_path)["topicConfigTable"]["t"]["writeQueueNums"] == 4
    assert_clean(tmp_path)
