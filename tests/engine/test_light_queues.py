"""Light message queues: entries in several queues for one record, as RocketMQ's store `lmq` has them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import StoreSettings
from flightlog.store.light_queues import light_places

if TYPE_CHECKING:
    from tests.engine.conftest import AssertClean, ManualClock

    GoldenCopy = Callable[[str], Path]

LIGHT = ("%LMQ%T112_a", 0)
ENTRY_SIZE = 20


@pytest.fixture
def path(golden_copy: GoldenCopy) -> Path:
    return golden_copy("lmq") / "store"


def queue_files(path: Path) -> dict[str, bytes]:
    folder = path / "consumequeue"
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_rebuilt_queues_are_rocketmqs_byte_for_byte(path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    before = queue_files(path)
    shutil.rmtree(path / "consumequeue")
    with flightlog.open_read_only(path) as view:
        assert sum(1 for _ in view.read(*LIGHT)) == 67
    flightlog.open(path, StoreSettings(queue_file_entries=1000), clock=clock).close()
    assert queue_files(path) == before
    assert_clean(path)


def test_a_light_queue_alone_that_lags_is_completed(path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    before = queue_files(path)
    file = path / "consumequeue" / LIGHT[0] / "0" / f"{0:020d}"
    with file.open("r+b") as f:
        f.seek(40 * ENTRY_SIZE)
        f.write(bytes(27 * ENTRY_SIZE))
    with flightlog.open_read_only(path) as view:
        (finding,) = view.verify().findings
        assert (finding.path.parent.name, finding.offset) == (LIGHT[0], 40) and "27 messages have no" in finding.meaning
        assert view.queues()[LIGHT] == (0, 67)
    flightlog.open(path, clock=clock).close()
    assert queue_files(path) == before
    assert_clean(path)


def test_phantoms_of_a_light_queue_go(path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    """Entries that no record asks for: of another queue's message, behind the last one of the light queue."""
    before = queue_files(path)
    file = path / "consumequeue" / LIGHT[0] / "0" / f"{0:020d}"
    with file.open("r+b") as f:
        f.seek(67 * ENTRY_SIZE)
        f.write(before["T112_1/1/00000000000000000000"][ENTRY_SIZE : 2 * ENTRY_SIZE])
    with flightlog.open_read_only(path) as view:
        (finding,) = view.verify().findings
        assert (finding.path.parent.name, finding.offset) == (LIGHT[0], 67) and "phantom" in finding.meaning
    flightlog.open(path, clock=clock).close()
    assert queue_files(path) == before
    assert_clean(path)


@pytest.mark.parametrize(
    ("topic", "properties", "places"),
    [
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b INNER_MULTI_QUEUE_OFFSET=7,0", [("%LMQ%a", 7), ("%LMQ%b", 0)]),
        ("t", "INNER_MULTI_DISPATCH=plain,%LMQ%b INNER_MULTI_QUEUE_OFFSET=3,1", [("%LMQ%b", 1)]),
        ("t", "INNER_MULTI_DISPATCH=plain,%LMQ%b INNER_MULTI_QUEUE_OFFSET=,1", [("%LMQ%b", 1)]),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a,%LMQ%b INNER_MULTI_QUEUE_OFFSET=7", []),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=-1", []),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=x", []),
        ("t", "INNER_MULTI_DISPATCH=%LMQ%a", []),
        ("t", "INNER_MULTI_QUEUE_OFFSET=1", []),
        ("%RETRY%g", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=1", []),
        ("rmq_sys_wheel_timer", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=1", []),
        ("SCHEDULE_TOPIC_XXXX", "INNER_MULTI_DISPATCH=%LMQ%a INNER_MULTI_QUEUE_OFFSET=1", []),
    ],
)
def test_which_light_queues_list_a_record(topic: str, properties: str, places: list[tuple[str, int]]) -> None:
    raw = "".join(pair.replace("=", "\x01") + "\x02" for pair in properties.split(" ")).encode()
    assert [(key[0], offset) for key, offset in light_places(topic, raw)] == places
