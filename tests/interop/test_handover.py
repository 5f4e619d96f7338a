"""A store handed to and fro between RocketMQ and flightlog: nothing is lost, offsets go on, nothing is refused."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq

pytestmark = pytest.mark.ci

FEATURES = ("v2", "v6", "unicode", "empty", "noprops", "batch")
COUNT, LAG = 1200, 150


def index_answers(lines: Iterable[Line]) -> dict[tuple[str, str], list[int]]:
    """What a key query must answer: (topic, key) -> ascending physical offsets."""
    answers = defaultdict(set)
    for line in lines:
        for key in {line["uniqKey"], *(line["keys"] or "").split(" ")} - {None, ""}:
            answers[line["topic"], key].add(line["commitLogOffset"])
    return {pair: sorted(offsets) for pair, offsets in answers.items()}


def assert_clean(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


@pytest.mark.parametrize("end", [{}, {"halt": True}, {"halt": True, "lag": LAG}], ids=["clean", "halted", "lagging"])
def test_flightlog_takes_over_from_rocketmq_and_gives_back(
    rocketmq: RocketMq, end: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    theirs = rocketmq.write_store(path, seed=11, count=COUNT, orders=50, features=FEATURES, **end, **mixed.SMALL)
    lines: list[Line] = list(map(mixed.their_line, theirs))

    with flightlog.open_read_only(path) as view:
        mixed.check_flightlog(view, lines)
    with flightlog.open(path, mixed.FREE) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        mixed.check_flightlog(store, lines)
        lines += mixed.put_from_threads(store, 12, COUNT)
        mixed.check_flightlog(store, lines)
    assert_clean(path)

    # How far the index had come when RocketMQ was halted is known only where its dispatch had been stopped.
    indexed = [] if end == {"halt": True} else theirs[: len(theirs) - end.get("lag", 0)]
    queries = index_answers(indexed)
    opened = rocketmq.open_store(path, append=200, queries=queries, **mixed.SMALL)

    assert not opened.store["abortFileBefore"]
    mixed.check_rocketmq(opened, lines)
    for pair, offsets in queries.items():
        assert set(opened.queries[pair]) >= set(offsets), pair
    lines += map(mixed.their_line, opened.appended)
    with flightlog.open(path) as store:
        mixed.check_flightlog(store, lines)
    assert_clean(path)


def test_many_handovers(rocketmq: RocketMq, kill_writer: Callable[..., list[Line]], tmp_path: Path) -> None:
    """Sessions in turn, cleanly closed and killed ones mixed. Of a killed one more may be there than it acknowledged:
    what flightlog recovers from a copy is what RocketMQ must recover, too."""
    path = tmp_path / "store"
    settings = mixed.small_settings(store_host=("2001:db8::1", 10911))
    lines: list[Line] = []

    def ours(seed: int) -> None:
        with flightlog.open(path, settings) as store:
            if lines:
                mixed.check_flightlog(store, lines)
            lines.extend(mixed.put_from_threads(store, seed, 400))
            mixed.check_flightlog(store, lines)
            assert store.verify().is_clean

    def ours_killed(seed: int) -> None:
        lines.extend(kill_writer(path, seed=seed, acknowledged=300, ipv6=True))
        copy = shutil.copytree(path, tmp_path / f"killed-{seed}")
        with flightlog.open(copy) as store:
            found = mixed.read_all(store)
        mixed.check_contains(found, filter(mixed.is_listed, lines))
        lines[:] = found

    def theirs(seed: int, **end: Any) -> None:
        written = rocketmq.write_store(
            path, seed=seed, first=seed * 1000, count=300, features=FEATURES, **end, **mixed.SMALL
        )
        lines.extend(map(mixed.their_line, written))
        with flightlog.open_read_only(path) as view:
            mixed.check_flightlog(view, lines)

    ours(21)
    theirs(22, halt=True)
    ours(23)
    theirs(24)
    ours_killed(25)
    theirs(26)
    ours_killed(27)
    theirs(28, halt=True, lag=100)
    ours_killed(29)
    theirs(30, halt=True, lag=50)
    ours(31)
    assert_clean(path)
    mixed.check_rocketmq(rocketmq.open_store(path, **mixed.SMALL), lines)
    with flightlog.open(path) as store:
        mixed.check_flightlog(store, lines)
    assert_clean(path)
