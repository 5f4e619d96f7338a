"""Queue extensions, as RocketMQ's store `cqext` has them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import flightlog
from flightlog.engine.entries import may_match_mask
from flightlog.engine.tag_filter import tag_filter
from flightlog.index.queue_extension import ADDRESS_BASE, ExtensionUnit, QueueExtension
from flightlog.index.queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_DTYPE
from flightlog.store.disk import RealDisk

KEY = ("T113_1", 1)
FIRST_UNIT = bytes.fromhex("0014 000000000027a808 000001a1fbdcb642 0000")


@pytest.fixture
def path(golden_copy: Callable[[str], Path]) -> Path:
    return golden_copy("cqext") / "store"


def file_of(path: Path) -> Path:
    return path / "consumequeue_ext" / KEY[0] / str(KEY[1]) / f"{0:020d}"


def test_units_by_address(path: Path) -> None:
    assert file_of(path).read_bytes()[:20] == FIRST_UNIT
    extension = QueueExtension(RealDisk(), file_of(path).parent)
    assert extension.unit(ADDRESS_BASE) == ExtensionUnit(20, 2_598_920, 0x01A1FBDCB642)
    assert extension.unit(ADDRESS_BASE + 19) is None
    assert extension.unit(ADDRESS_BASE + (1 << 40)) is None
    assert extension.unit(2_598_920) is None


def test_a_filter_looks_at_codes_in_the_extension(path: Path) -> None:
    """Not one entry of another tag is looked up in the log."""
    with flightlog.open_read_only(path) as view:
        for key, (first, end) in view.queues().items():
            queue = view._table.get(key)
            assert queue is not None
            units = queue.units(first, end - first)
            assert (units["tags_code"] <= HIGHEST_EXTENSION_ADDRESS).all()
            tags = [message.tags for message in view.read(*key)]
            for tag in {tag for tag in tags if tag and "||" not in tag}:
                mask = may_match_mask(queue, units, tag_filter(tag))
                assert mask.tolist() == [t == tag for t in tags]
                assert view.estimate_count(*key, first, end, tags=tag) == sum(mask)


def test_without_its_unit_a_message_is_asked_itself(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        expected = [message.body for message in view.read(*KEY, tags="TagB")]
    with file_of(path).open("r+b") as file:
        file.write(bytes(20))
    with flightlog.open_read_only(path) as view:
        assert [message.body for message in view.read(*KEY, tags="TagB")] == expected
        (finding,) = view.verify().findings
        assert (finding.path.parent.name, finding.path.name, finding.offset) == (KEY[0], "1", 0)
    shutil.rmtree(file_of(path).parent)
    with flightlog.open_read_only(path) as view:
        assert [message.body for message in view.read(*KEY, tags="TagB")] == expected


@pytest.mark.parametrize(
    "unit",
    [
        bytes(20),
        b"\xff\xff" + bytes(18),  # filler
        b"\0\x15" + FIRST_UNIT[2:],  # its size and its bit map's differ
        b"\0\x12" + FIRST_UNIT[2:18] + b"\xff\xfe",  # a bit map of less than nothing
        FIRST_UNIT[:2] + (ADDRESS_BASE + 20).to_bytes(8, "big", signed=True) + FIRST_UNIT[10:],  # an address again
    ],
)
def test_what_is_no_unit_resolves_nothing(path: Path, unit: bytes) -> None:
    with file_of(path).open("r+b") as file:
        file.write(unit)
    extension = QueueExtension(RealDisk(), file_of(path).parent)
    units = np.array([(0, 100, ADDRESS_BASE), (100, 100, ADDRESS_BASE + 20), (200, 100, 7)], UNIT_DTYPE)
    before = units.copy()
    codes = extension.resolved(units)["tags_code"].tolist()
    assert codes[0] == ADDRESS_BASE and codes[1] > HIGHEST_EXTENSION_ADDRESS and codes[2] == 7
    assert extension.unit(ADDRESS_BASE) is None
    assert (units == before).all()
