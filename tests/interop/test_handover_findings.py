"""What RocketMQ's own store does with a folder that `flightlog handover check` warns of, with nothing mended.

Each finding here has a store that shows it, and all are opened by one process with RocketMQ's defaults but for the
sizes of files. `file-sizes` is in test_handover_conf.py; the findings that take a whole broker, its proxy, a slave or
its clients are in tests/cluster/test_findings.py.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings, handover
from flightlog.testing import kill
from flightlog.tests.interop.asking import Get
from flightlog.tests.interop.harness import Answers, Geometry, Line, Questions, RocketMq

pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("interop-findings")]

SMALL = StoreSettings.small()
SIZES: Geometry = {
    "segment_size": SMALL.segment_size or 0,
    "queue_entries": SMALL.queue_file_entries or 0,
    "index_slots": SMALL.index_slots or 0,
    "index_entries": SMALL.index_entries or 0,
}
COUNT, DAMAGED = 100, 40
OLD_LIFE, NEW_LIFE = 5, 2
LONG_AGO_S = 100 * 3600
"""Older than the 72 hours of `fileReservedTime`."""
ROCKSDB_COUNT = 120
ROCKSDB = Path(__file__).resolve().parents[1] / "data" / "rocksdb" / "closed.tar.xz"


@dataclass
class Case:
    """A store, and what RocketMQ is asked once it has opened it."""

    make: Callable[[Path], None]
    questions: Sequence[Sequence[object]] = ()
    sizes: Geometry = field(default_factory=lambda: SIZES)


def put_orders(path: Path, body: bytes = b"x" * 100) -> None:
    with flightlog.open(path, SMALL) as store:
        for number in range(COUNT):
            store.put(Message("orders", body, keys=f"k{number}"))


def damage(path: Path) -> None:
    """A record in the middle that is none any more."""
    put_orders(path)
    with flightlog.open_read_only(path) as view:
        at = view.get("orders", 0, DAMAGED).messages[0].physical_offset
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at + 4)
        file.write(bytes(4))


def tear(path: Path) -> None:
    """A killed writer's store, whose last record is not whole."""
    store = flightlog.open(path, SMALL)
    for number in range(COUNT):
        last = store.put(Message("orders", b"%03d" % number * 100))
    kill(store)
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(last.physical_offset + last.size // 2)
        file.write(bytes(last.size))


def age(path: Path) -> None:
    """Segments that were last written long ago, all but the last."""
    put_orders(path, b"x" * 60_000)
    full = sorted((path / "commitlog").iterdir())[:-1]
    assert len(full) >= 4
    for segment in full:
        os.utime(segment, (time.time() - LONG_AGO_S,) * 2)


def live_twice(path: Path) -> None:
    """A topic that was deleted and made again."""
    with flightlog.open(path, SMALL) as store:
        for life, count in (("old", OLD_LIFE), ("new", NEW_LIFE)):
            store.create_topic("orders", 1)
            for number in range(count):
                store.put(Message("orders", f"{life} {number}".encode()))
            if life == "old":
                store.delete_topic("orders")


def live_twice_without_queues(path: Path) -> None:
    """As a slave has it that got the log alone."""
    live_twice(path)
    shutil.rmtree(path / "consumequeue")


def extract_rocksdb(path: Path) -> None:
    with tarfile.open(ROCKSDB) as tar:
        tar.extractall(path.parent, filter="data")
    (path.parent / "store").rename(path)


FIRST_OF_ORDERS = Get("orders", 0, 0, 32).words()
CASES = {
    "sound": Case(put_orders),
    "damage": Case(damage),
    "not-closed": Case(tear),
    "retention": Case(age, [["clean"], FIRST_OF_ORDERS], {**SIZES, "config": {"fileReservedTime": "72"}}),
    "deleted-topics": Case(live_twice_without_queues, [FIRST_OF_ORDERS]),
    "deleted-topics with queues": Case(live_twice, [FIRST_OF_ORDERS]),
    "rocksdb": Case(extract_rocksdb, sizes={**SIZES, "segment_size": 64 << 10}),
}


@dataclass
class Asked:
    path: Path
    found: dict[str, str]
    """What the check found, by name."""
    answers: Answers

    @property
    def last(self) -> Line:
        return self.answers.lines[-1]


@pytest.fixture(scope="module")
def asked(rocketmq: RocketMq, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asked]]:
    """Every case, checked here and then opened by RocketMQ, which is not shut down."""
    folder = tmp_path_factory.mktemp("findings")
    jobs, found = [], {}
    for name, case in CASES.items():
        path = folder / name.replace(" ", "-") / "store"
        path.parent.mkdir()
        case.make(path)
        report = handover.check(path)
        found[name] = {each.name: each.found for each in report.findings + report.notes}
        jobs.append(Questions(path, case.questions, case.sizes))
    answers = rocketmq.ask(jobs)
    yield {name: Asked(job.path, found[name], answer) for (name, job, answer) in zip(CASES, jobs, answers, strict=True)}
    shutil.rmtree(folder)


def test_without_a_finding_everything_is_there(asked: dict[str, Asked]) -> None:
    sound = asked["sound"]
    assert set(sound.found) == {"file-sizes", "store-host"}
    assert sound.answers.bounds["orders", 0] == (0, COUNT)


def test_damage_ends_the_log(asked: dict[str, Asked]) -> None:
    """Also of a store that was closed cleanly: what lies behind it is thrown away."""
    assert "damage" in asked["damage"].found
    assert asked["damage"].answers.bounds["orders", 0] == (0, DAMAGED)


def test_a_torn_tail_is_cut_without_a_copy(asked: dict[str, Asked], tmp_path: Path) -> None:
    torn = asked["not-closed"]
    assert "not-closed" in torn.found
    assert torn.answers.bounds["orders", 0] == (0, COUNT - 1)
    assert not list((torn.path / "flightlog").glob("cut-*"))
    tear(tmp_path)
    flightlog.open(tmp_path, SMALL).close()
    [kept] = (tmp_path / "flightlog").glob("cut-*")
    assert b"%03d" % (COUNT - 1) in kept.read_bytes()


def test_old_segments_are_deleted(asked: dict[str, Asked]) -> None:
    old = asked["retention"]
    assert "retention" in old.found and old.answers.bounds["orders", 0] == (0, COUNT)
    assert len(list((old.path / "commitlog").iterdir())) == 1
    assert old.last["status"] == "OFFSET_TOO_SMALL" and old.last["min"] > COUNT // 2


def test_queues_made_from_the_log_show_a_deleted_topic_and_hide_the_new_one(asked: dict[str, Asked]) -> None:
    kept, made = asked["deleted-topics with queues"], asked["deleted-topics"]
    assert "deleted-topics" in kept.found and "deleted-topics" in made.found
    assert kept.answers.bounds["orders", 0] == (0, NEW_LIFE)
    assert made.answers.bounds["orders", 0] == (0, OLD_LIFE + 1)  # the new ones from offset 1 on are taken for repeated
    with flightlog.open_read_only(kept.path) as view:
        new = [message.physical_offset for message in view.read("orders")]
    assert kept.last["positions"] == new
    shown = made.last["positions"]
    assert max(shown[:OLD_LIFE]) < min(new) and shown[OLD_LIFE:] == new[:1]


def test_queues_in_rocksdb_are_not_read(asked: dict[str, Asked]) -> None:
    """Queues alone do no harm: a broker with another storeType makes new ones from the log. What it loses are topics
    and offsets that are in RocksDB: tests/cluster/test_findings.py."""
    found = asked["rocksdb"]
    assert "rocksdb" in found.found
    assert sum(end - first for first, end in found.answers.bounds.values()) == ROCKSDB_COUNT
    assert (found.path / "consumequeue" / "stock" / "0").is_dir()
