"""`config/consumerOffset.json`: what is written, what is kept, what a damaged one answers; the log comes first."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.engine.topics.offset_table import OffsetTable
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import ConfigFileError, DiskError, UsageError
from flightlog.store.queue_offsets import QueueKey
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

END = 1_000


def offsets_json(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "config" / "consumerOffset.json").read_text())
    return found


def put_file(root: Path, text: str) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(text)


def opened(
    root: Path, ends: Mapping[QueueKey, int] | None = None, flush: Callable[[], None] = lambda: None
) -> OffsetTable:
    table = OffsetTable(RealDisk(), root, SystemClock(), flush)
    table.load(lambda key: END if ends is None else ends.get(key, 0))
    return table


def test_what_is_saved_is_there_again(tmp_path: Path) -> None:
    table = opened(tmp_path)
    assert table.get("g", "t", 0) is None and not table.is_unsaved
    table.set("g", "t", 1, 7)
    table.set("g", "t", 0, 12)
    table.set("h", "%RETRY%h", 0, 1)
    assert table.is_unsaved and not (tmp_path / "config").exists(), "a save writes, and nothing else"
    table.save()
    assert not table.is_unsaved
    assert offsets_json(tmp_path)["offsetTable"] == {"t@g": {"0": 12, "1": 7}, "%RETRY%h@h": {"0": 1}}
    assert opened(tmp_path).of("g", "t") == {0: 12, 1: 7}
    table.set("g", "t", 1, 7)
    assert not table.is_unsaved, "nothing has changed"


def test_what_we_do_not_know_is_kept(tmp_path: Path) -> None:
    put_file(
        tmp_path,
        '{"dataVersion":{"counter":7,"stateVersion":3,"timestamp":5},"later":[1],'
        '"offsetTable":{"a@b@c":{0:99999},"t@g":{0:12,1:7,2:-1}}}',
    )
    table = opened(tmp_path)
    assert table.of("g", "t") == {0: 12, 1: 7}, "-1 is RocketMQ's word for none"
    table.set("g", "t", 0, 13)
    table.save()
    found = offsets_json(tmp_path)
    assert found["later"] == [1] and found["offsetTable"] == {"a@b@c": {"0": 99999}, "t@g": {"0": 13, "1": 7}}
    assert found["dataVersion"].pop("timestamp") > 5 and found["dataVersion"] == {"counter": 8, "stateVersion": 3}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"offsetTable":[]}',
        '{"offsetTable":{"t@g":7}}',
        '{"offsetTable":{"t@g":{"x":7}}}',
        '{"offsetTable":{"t@g":{"-1":7}}}',
        '{"offsetTable":{"t@g":{"٣":7}}}',
        '{"offsetTable":{"t@g":{0:true}}}',
        '{"offsetTable":{"t@g":{0:1.5}}}',
        '{"offsetTable":{"t@g":{0:-2}}}',
        '{"offsetTable":{"t@g":{0:9223372036854775808}}}',
        '{"offsetTable":{"t@g":{0:',
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    put_file(tmp_path, text)
    with pytest.raises(ConfigFileError, match=r"consumerOffset\.json"):
        opened(tmp_path)


def test_an_offset_beyond_its_queue_is_lowered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put_file(tmp_path, '{"offsetTable":{"t@g":{0:12,1:7},"gone@g":{0:3}}}')
    table = opened(tmp_path, {("t", 0): 10, ("t", 1): 7})
    assert table.of("g", "t") == {0: 10, 1: 7} and table.of("g", "gone") == {0: 0}
    assert "ends at 10" in caplog.text and table.is_unsaved
    table.save()
    assert offsets_json(tmp_path)["offsetTable"] == {"t@g": {"0": 10, "1": 7}, "gone@g": {"0": 0}}


def test_the_log_is_durable_first_and_nothing_is_written_without_it(tmp_path: Path) -> None:
    seen: list[bool] = []

    def flush() -> None:
        seen.append((tmp_path / "config" / "consumerOffset.json").exists())
        if len(seen) == 1:
            raise DiskError("no")

    table = opened(tmp_path, flush=flush)
    table.set("g", "t", 0, 1)
    with pytest.raises(DiskError):
        table.save()
    assert table.is_unsaved and not (tmp_path / "config").exists()
    table.save()
    assert seen == [False, False] and offsets_json(tmp_path)["offsetTable"] == {"t@g": {"0": 1}}


def test_an_ack_during_the_flush_waits_for_the_next_save(tmp_path: Path) -> None:
    """Its message may have come after what was flushed."""
    table: OffsetTable

    def flush() -> None:
        table.set("g", "t", 0, 2)

    table = opened(tmp_path, flush=flush)
    table.set("g", "t", 0, 1)
    table.save()
    assert offsets_json(tmp_path)["offsetTable"] == {"t@g": {"0": 1}} and table.is_unsaved


@pytest.mark.parametrize("at", ["write", "sync", "rename", "sync_folder"])
def test_a_save_that_fails_leaves_the_old_or_the_new(tmp_path: Path, at: str) -> None:
    disk = FaultyDisk()
    table = OffsetTable(disk, tmp_path, SystemClock(), lambda: None)
    table.load(lambda key: END)
    table.set("g", "t", 0, 1)
    table.save()
    table.set("g", "t", 0, 2)
    disk.fail(at, "config", errno.EIO)
    with pytest.raises(DiskError):
        table.save()
    disk.heal()
    assert opened(tmp_path).get("g", "t", 0) in (1, 2)
    table.save()
    assert opened(tmp_path).get("g", "t", 0) == 2 and not table.is_unsaved


def test_a_topic_is_forgotten_with_all_its_groups(tmp_path: Path) -> None:
    table = opened(tmp_path)
    for topic, group in (("t", "g"), ("t", "h"), ("tt", "g")):
        table.set(group, topic, 0, 5)
    table.save()
    table.forget_topic("t")
    table.save()
    assert offsets_json(tmp_path)["offsetTable"] == {"tt@g": {"0": 5}}


@pytest.mark.parametrize(
    ("group", "topic", "queue_id", "offset"),
    [
        ("", "t", 0, 0),
        ("g@", "t", 0, 0),
        ("g", "a@b", 0, 0),
        ("g", "t", -1, 0),
        ("g", "t", 0, -1),
        ("g", "t", 0, 1 << 63),
    ],
)
def test_what_the_file_could_not_say_is_refused(
    tmp_path: Path, group: str, topic: str, queue_id: int, offset: int
) -> None:
    table = opened(tmp_path)
    with pytest.raises(UsageError):
        table.set(group, topic, queue_id, offset)
    assert not table.is_unsaved


def test_threads_save_while_others_acknowledge(tmp_path: Path) -> None:
    """No save loses what was set before it began."""
    table = opened(tmp_path)

    def work(queue_id: int) -> None:
        for offset in range(1, 41):
            table.set("g", "t", queue_id, offset)
            table.save()
            # Read as readers do: while another thread saves, the file has its other name for a moment.
            assert (opened(tmp_path).get("g", "t", queue_id) or 0) >= offset

    failures: list[BaseException] = []

    def guarded(queue_id: int) -> None:
        try:
            work(queue_id)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and opened(tmp_path).of("g", "t") == dict.fromkeys(range(4), 40)
