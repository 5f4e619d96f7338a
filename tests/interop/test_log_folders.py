"""A commit log in several folders, handed to and fro between RocketMQ and flightlog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq

pytestmark = pytest.mark.ci

COUNT = 1500


@pytest.mark.parametrize("halt", [False, True], ids=["clean", "halted"])
def test_to_and_fro(rocketmq: RocketMq, tmp_path: Path, halt: bool) -> None:
    path = tmp_path / "store"
    folders = [tmp_path / name for name in ("disk-b", "disk-a", "disk-c")]
    config = {"storePathCommitLog": ",".join(map(str, folders))}
    sizes: Any = {**mixed.SMALL, "config": config}
    settings = mixed.small_settings(commit_log_folders=tuple(map(str, folders)))
    lines: list[Line] = list(map(mixed.their_line, rocketmq.write_store(path, seed=7, count=COUNT, halt=halt, **sizes)))

    def assert_in_turn() -> int:
        """Where flightlog's and RocketMQ's segments are, by the same rule; returns how many there are."""
        found = {int(file.name) // mixed.SEGMENT_SIZE: file.parent for name in folders for file in name.iterdir()}
        assert found == {number: sorted(folders)[number % 3] for number in range(len(found))}
        return len(found)

    theirs = assert_in_turn()
    with flightlog.open_read_only(path, settings) as view:
        mixed.check_flightlog(view, lines)
    with flightlog.open(path, settings) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        lines += mixed.put_from_threads(store, 8, COUNT)
        mixed.check_flightlog(store, lines)
        assert store.verify().is_clean
    assert assert_in_turn() > theirs + 3
    assert not (path / "commitlog").exists()

    opened = rocketmq.open_store(path, append=500, **sizes)

    mixed.check_rocketmq(opened, lines)
    lines += map(mixed.their_line, opened.appended)
    assert_in_turn()
    with flightlog.open(path, settings) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        mixed.check_flightlog(store, lines)
        assert store.verify().is_clean
