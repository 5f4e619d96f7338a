"""Queue extensions handed to and fro between RocketMQ and flightlog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq

pytestmark = pytest.mark.ci

FILE_SIZE = 1000
CONFIG = {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": str(FILE_SIZE)}
COUNT = 1000


@pytest.mark.parametrize("halt", [False, True], ids=["clean", "halted"])
def test_to_and_fro(rocketmq: RocketMq, tmp_path: Path, halt: bool) -> None:
    """What RocketMQ says of an entry's tag comes out of the extension (`check_rocketmq`)."""
    path = tmp_path / "store"
    sizes: Any = {**mixed.SMALL, "config": CONFIG}
    settings = mixed.small_settings(queue_extension=True, queue_extension_file_size=FILE_SIZE)
    with flightlog.open(path, settings) as store:
        lines: list[Line] = mixed.put_from_threads(store, 5, COUNT)
        assert store.verify().is_clean
    assert all(len(list(queue.iterdir())) > 1 for queue in (path / "consumequeue_ext").glob("*/0"))

    written = rocketmq.write_store(path, seed=6, count=COUNT, features=("unicode",), halt=halt, **sizes)
    lines += map(mixed.their_line, written)

    with flightlog.open(path, mixed.small_settings()) as store:  # which finds that there are extensions
        assert not store.recovery_report.damage and not store.recovery_report.cut
        mixed.check_flightlog(store, lines)
        lines += mixed.put_from_threads(store, 7, COUNT)
        assert store.verify().is_clean

    opened = rocketmq.open_store(path, append=200, **sizes)

    mixed.check_rocketmq(opened, lines)
    lines += map(mixed.their_line, opened.appended)
    mixed.check_rocketmq(rocketmq.open_store(path, **sizes), lines)
    with flightlog.open(path) as store:
        assert not store.recovery_report.damage
        mixed.check_flightlog(store, lines)
        assert store.verify().is_clean
