"""Topics that a RocketMQ broker deleted, told from what it leaves: no queues, and no entry in topics.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean


def topics(path: Path) -> set[str]:
    with flightlog.open_read_only(path) as view:
        found = {key[0] for key, (first, end) in view.queues().items() if end > first}
    with flightlog.open(path) as store:
        assert {key[0] for key, (first, end) in store.queues().items() if end > first} == found
    return found


def delete_as_broker(path: Path, topic: str, known: set[str]) -> None:
    shutil.rmtree(path / "consumequeue" / topic)
    (path / "config").mkdir(exist_ok=True)
    table = {name: {"topicName": name} for name in known - {topic}}
    (path / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


@pytest.fixture
def store(golden_copy: Callable[[str], Path]) -> Path:
    """One that RocketMQ closed."""
    return golden_copy("v1-clean") / "store"


@pytest.fixture
def known(golden: Callable[[str], Path]) -> set[str]:
    return {folder.name for folder in (golden("v1-clean") / "store" / "consumequeue").iterdir()}


def test_it_stays_deleted_whatever_is_lost(store: Path, known: set[str], assert_clean: AssertClean) -> None:
    gone = max(known)
    delete_as_broker(store, gone, known)
    assert len(known) > 1 and topics(store) == known - {gone}
    for lost in ("consumequeue", "index", "flightlog/progress", "config"):
        path = store / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert topics(store) == known - {gone}
    with flightlog.open(store) as opened:
        assert opened.put(flightlog.Message(gone, b"anew")).queue_offset == 0
    shutil.rmtree(store / "consumequeue")
    with flightlog.open(store) as opened:
        assert [m.body for m in opened.read(gone)] == [b"anew"]
    assert_clean(store)


def test_nothing_was_deleted_where_no_broker_was(store: Path, known: set[str], assert_clean: AssertClean) -> None:
    delete_as_broker(store, max(known), known)
    shutil.rmtree(store / "config")
    assert topics(store) == known
    assert_clean(store)


def test_nothing_was_deleted_where_all_queues_are_lost(store: Path, known: set[str], assert_clean: AssertClean) -> None:
    delete_as_broker(store, max(known), known)
    shutil.rmtree(store / "consumequeue")
    assert topics(store) == known
    assert_clean(store)


def test_a_topic_that_a_broker_knows_has_lost_its_queues(
    store: Path, known: set[str], assert_clean: AssertClean
) -> None:
    delete_as_broker(store, max(known), known)
    (store / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": {name: {"topicName": name} for name in known}})
    )
    assert topics(store) == known
    assert_clean(store)


def test_after_a_kill_nobody_can_say(golden_copy: Callable[[str], Path], assert_clean: AssertClean) -> None:
    """A topic that was new when the broker died may be lost in both places: what is in the log is kept."""
    path = golden_copy("abort") / "store"
    known = {folder.name for folder in (path / "consumequeue").iterdir()}
    with flightlog.open_read_only(path) as view:
        before = {key[0] for key in view.queues()}
    delete_as_broker(path, max(known), known)
    assert max(known) in before and max(known) in topics(path)
    assert_clean(path)


@pytest.mark.parametrize("name", ["batch-bcq", "cqext", "lmq"])
def test_every_kind_of_queue_goes(name: str, golden_copy: Callable[[str], Path], assert_clean: AssertClean) -> None:
    """Light queues list records of other topics, and keep them, as in RocketMQ."""
    path = golden_copy(name) / "store"
    with flightlog.open(path) as store:
        before = {key: end for key, (first, end) in store.queues().items() if end > first}
        light = {key for key in before if key[0].startswith("%LMQ%")}
        for topic in store.topics():
            store.delete_topic(topic)
        assert {key for key, (first, end) in store.queues().items() if end > first} == light
        kept = {key: [m.physical_offset for m in store.read(*key)] for key in light}
    assert set(before) > light
    for folder in ("consumequeue", "batchconsumequeue", "consumequeue_ext"):
        left = {entry.name for entry in (path / folder).iterdir()} if (path / folder).exists() else set()
        assert left == ({key[0] for key in light} if folder == "consumequeue" else set())
        shutil.rmtree(path / folder, ignore_errors=True)
    with flightlog.open(path) as store:
        assert {key for key, (first, end) in store.queues().items() if end > first} == light
        assert {key: [m.physical_offset for m in store.read(*key)] for key in light} == kept
    assert_clean(path)
