"""How often tests use what is private to others: hardly, for each such use breaks when the inside is made better.

What tests look at inside of a store has one place, tests/support/inside.py, which alone knows how a store is built.
Names in strings count (`setattr(log, "_end", 0)`), and imported ones, and those of a `self` outside of its class.
Mutants have a count of their own: each is the product with one part of its inside replaced.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

THE_ONE_PLACE = "support/inside.py"
IN_THE_ONE_PLACE_MAX = 73
USES_MAX = 40
FOREIGN = {
    *("_asdict", "_fields", "_make", "_replace"),  # the public face of a NamedTuple
    *("_Environ", "_Hash", "_current_frames", "_exit", "_getframe", "_run_exitfuncs"),  # Python's own
    "_get_local_constants",  # Hypothesis's
}
"""Names that are not the project's."""
MODULES = {"_kernel", "_thread"}
"""What may be imported by such a name: the compiled module, which tests run beside its reference, and Python's own."""
USES = {
    "consume/test_group_admin.py": (1, "a member that is closed and has not left its group yet"),
    "crash/test_lost_disk.py": (1, "that the lock of the process is held meanwhile"),
    "engine/test_catching_up.py": (2, "holds the lock of the dispatcher, as a dispatch does"),
    "engine/test_delete_beside.py": (1, "counts the pins of a folder"),
    "engine/test_delete_topic.py": (1, "a flush that never comes"),
    "engine/test_inner_batches.py": (1, "small files of batch queues, which no setting makes"),
    "engine/test_keys_views.py": (1, "which keys a view gathered itself"),
    "engine/test_long_polls.py": (1, "a later look at a queue fails"),
    "engine/test_preparing_bursts.py": (1, "a burst that never rests, on machines of any speed"),
    "engine/test_retention.py": (1, "a retention that forgets to flush queues first"),
    "engine/test_topics_file.py": (1, "dies between two files that an opening writes"),
    "faults/test_failed_sync.py": (2, "comes in between the verdict and the line that tells it"),
    "fuzz/targets/seal.py": (1, "a reader without a log behind it"),
    "index/test_index_memory.py": (1, "how much memory an entry takes"),
    "index/test_queue_sync.py": (1, "whether this kernel's file system tells of failed writes"),
    "schedule/test_timer_failures.py": (2, "deliveries that stop in the middle; the length of the timer log"),
    "spark/test_stream_reader.py": (4, "segments that go while a batch is planned; which view is read"),
    "store/test_group_commit.py": (5, "the order in which the pure reference wakes waiters"),
    "store/test_kernel.py": (1, "every way of the kernel's CRC, of which it takes one"),
    "store/test_kernel_messages.py": (2, "the bytes that the kernel makes fields of"),
    "store/test_ordinary_put.py": (1, "the attribute in which the kernel's put looks for its fast path"),
    "store/test_seal.py": (1, "one step of a seal, on columns made for it"),
    "tools/test_bench_delay.py": (1, "lateness that was seen, without waiting for it"),
}
"""File below tests/ -> how many there are, and what for. None is to be added where tests can see the same from outside
or in `THE_ONE_PLACE`."""
MUTANTS = {
    "crash/test_mutants_log.py": 31,
    "crash/test_mutants_state.py": 29,
    "crash/test_simulated_cuts.py": 3,
    "model/test_state_machine.py": 2,
}
"""Files that put mutants into the product: each replaces a step that nothing outside may leave out."""
NAME = re.compile(r"_[A-Za-z]\w*")


def is_private(name: str) -> bool:
    return NAME.fullmatch(name) is not None and name not in FOREIGN


def hidden_uses(call: ast.Call) -> Iterator[str]:
    """Names that a call takes as text: `setattr(log, "_end", 0)`, `patch("a.b._c")`."""
    for place, argument in enumerate(call.args):
        text = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""
        *owners, name = text.split(".")
        if (place or owners) and all(map(str.isidentifier, owners)) and is_private(name):
            yield name


def private_uses(node: ast.AST, *, is_in_class: bool = False) -> Iterator[str]:
    """Private names of anything but oneself, each time that they occur."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute) and is_private(child.attr):
            of = child.value
            is_own = is_in_class and isinstance(of, ast.Name) and of.id in ("self", "cls")
            is_inherited = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super"
            if not is_own and not is_inherited:
                yield child.attr
        elif isinstance(child, ast.Call):
            yield from hidden_uses(child)
        elif isinstance(child, ast.ImportFrom):
            yield from (alias.name for alias in child.names if is_private(alias.name) and alias.name not in MODULES)
        yield from private_uses(child, is_in_class=is_in_class or isinstance(child, ast.ClassDef))


def test_private_uses_are_few_and_each_has_a_reason(house: House) -> None:
    found = Counter[str]()
    for file in house.sources(".py"):
        if file.parts[0] == "tests":
            uses = private_uses(ast.parse((house.root / file).read_text()))
            found.update(str(file.relative_to("tests")) for _ in uses)
    assert found.pop(THE_ONE_PLACE) <= IN_THE_ONE_PLACE_MAX
    assert {file: found.pop(file, 0) for file in MUTANTS} == MUTANTS
    assert found == {file: count for file, (count, _) in USES.items()}
    assert found.total() <= USES_MAX


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("store._log.end", 1),
        ("store._log._active", 2),
        ("class A:\n    def f(self): self._log", 0),
        ("class A:\n    def f(self): self.store._log", 1),
        ("def spoilt(self): self._log", 1),
        ("class A:\n    def f(self): super()._log", 0),
        ("store.__class__", 0),
        ("row._replace(size=0)", 0),
        ("os._exit(1)", 0),
        ("setattr(store, '_log', None)", 1),
        ("getattr(store, '_log')", 1),
        ("around(patch, CommitLog, '_sync', spoilt)", 1),
        ("patch('flightlog.store._log')", 1),
        ("print('_log', 'a b._c')", 0),
        ("from flightlog.store.log import _log, log", 1),
        ("from flightlog.store.native import _kernel", 0),
        ("service._thread", 1),
    ],
)
def test_a_private_use_is_one_of_others(code: str, count: int) -> None:
    assert len(list(private_uses(ast.parse(code)))) == count


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
