"""How often tests use what is private to others: hardly, for each such use breaks when the inside is made better.

What tests look at inside of a store has one place, tests/support/inside.py, which alone knows how a store is built.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

THE_ONE_PLACE = "tests/support/inside.py"
USES_MAX = 40
FOREIGN = {
    *("_asdict", "_fields", "_make", "_replace"),  # the public face of a NamedTuple
    *("_Environ", "_Hash", "_current_frames", "_exit", "_getframe", "_run_exitfuncs"),  # Python's own
    "_get_local_constants",  # Hypothesis's
}
"""Names that are not the project's."""
USES = {
    "consume/test_broadcasting.py": (2, "the bytes of an offset file with a name that nobody may save"),
    "consume/test_stores_lives.py": (1, "messages of a subscription that has gone"),
    "crash/test_lost_disk.py": (1, "that the lock of the process is held meanwhile"),
    "crash/test_mutants_log.py": (1, "a mutant changes what only the log may"),
    "engine/test_catching_up.py": (2, "holds the lock of the dispatcher, as a dispatch does"),
    "engine/test_delete_beside.py": (1, "counts the pins of a folder"),
    "engine/test_delete_topic.py": (1, "a flush that never comes"),
    "engine/test_inner_batches.py": (1, "small files of batch queues, which no setting makes"),
    "engine/test_keys_views.py": (1, "which keys a view gathered itself"),
    "engine/test_long_polls.py": (1, "counts the looks at a queue"),
    "engine/test_retention.py": (1, "a retention that forgets to flush queues first"),
    "faults/test_failed_sync.py": (1, "comes in between the verdict and the line that tells it"),
    "fuzz/targets/queue_files.py": (1, "opens a queue's files a second time, through the same disk"),
    "fuzz/targets/seal.py": (1, "a reader without a log behind it"),
    "index/test_index_memory.py": (1, "how much memory an entry takes"),
    "index/test_queue_sync.py": (1, "whether this kernel's file system tells of failed writes"),
    "schedule/test_timer_failures.py": (3, "deliveries that stop in the middle; the length of the timer log"),
    "schedule/test_timer_lives.py": (2, "watches each delivery"),
    "spark/test_stream_reader.py": (3, "segments that go while a batch is planned"),
    "store/test_group_commit.py": (5, "the order in which the pure reference wakes waiters"),
    "store/test_kernel.py": (1, "every way of the kernel's CRC, of which it takes one"),
    "store/test_kernel_messages.py": (2, "the bytes that the kernel makes fields of"),
    "store/test_ordinary_put.py": (1, "the attribute in which the kernel's put looks for its fast path"),
    "store/test_seal.py": (1, "one step of a seal, on columns made for it"),
    "tools/test_bench_delay.py": (1, "lateness that was seen, without waiting for it"),
}
"""File below tests/ -> how many there are, and what for. None is to be added where tests can see the same from outside
or in `THE_ONE_PLACE`."""


def private_uses(source: str) -> Iterator[str]:
    """Private attributes of anything but oneself, each time that they occur."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        of = node.value
        is_own = isinstance(of, ast.Name) and of.id in ("self", "cls")
        is_inherited = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super"
        if not is_own and not is_inherited and node.attr not in FOREIGN:
            yield node.attr


def test_private_uses_are_few_and_each_has_a_reason(house: House) -> None:
    files = [file for file in house.sources(".py") if file.parts[0] == "tests" and str(file) != THE_ONE_PLACE]
    found = Counter(
        str(file.relative_to("tests")) for file in files for _ in private_uses((house.root / file).read_text())
    )
    assert found == {file: count for file, (count, _) in USES.items()}
    assert found.total() <= USES_MAX


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("store._log.end", 1),
        ("store._log._active", 2),
        ("self._log", 0),
        ("super()._log", 0),
        ("self.store._log", 1),
        ("store.__class__", 0),
        ("row._replace(size=0)", 0),
        ("os._exit(1)", 0),
    ],
)
def test_a_private_use_is_one_of_others(statement: str, count: int) -> None:
    assert len(list(private_uses(statement))) == count


def test_no_helper_of_tests_is_loaded_by_its_name(house: House) -> None:
    """They are imported, so that mypy sees what is called. Fuzz targets are named on the command line."""
    loading = [
        str(file)
        for file in house.sources(".py")
        if file.parts[0] == "tests"
        for node in ast.walk(ast.parse((house.root / file).read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in ("run_path", "spec_from_file_location")
    ]
    assert set(loading) <= {"tests/house/test_documents.py", "tests/store/test_stored_message.py"}
