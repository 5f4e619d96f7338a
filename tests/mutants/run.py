"""Mutation run: change one thing in a copy of the tree, run the tests that touch its line, see whether one fails.

    make mutants                          # 500 mutants of store, index, schedule and engine, drawn with SEED=0
    make mutants MUTANTS=2000 SEED=7

1. The tree is copied to `.mutants/tree`; `.mutants/path/flightlog` is a link to it, and comes first on the path.
2. The quick tests of these rooms run once under coverage, one context a test (tests/mutants/contexts.py), each file in
   a forked process.
3. Every possible mutant is listed (cosmic-ray's operators, and one that removes a statement that is a call), a sample
   is drawn, and each is tried in a forked process: tests that run its line, quick ones of every file first, until one
   fails.

Each result is appended to `.mutants/results-SEED.jsonl` as soon as it is known; a later run with the same seed goes on
behind it. Remove `.mutants` when the code or the tests have changed. Tests wait for disks: TMPDIR on a tmpfs makes all
of this several times as quick. Left out are annotations, and statements that log. The C kernel is not mutated; its
pure-Python reference is, and the tests run both.

(mutmut 3 takes a package's name from its folder, and this one's is the root of the repository; cosmic-ray's own runner
has one command for all mutants, and so runs the whole suite for each.)
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import fcntl
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.python.tree import Name

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("schedule", "index", "engine", "store")
HANGS_S = 60
"""A mutant hangs a test that takes longer: it is found."""
LIMIT_S = 600.0
"""Nothing is known of a mutant whose tests take longer together than three times what they should, and this."""
MEASURE_LIMIT_S = 120.0
"""A file of tests that takes longer under coverage."""
QUIETLY = ("-q", "-n0", "-p", "no:cacheprovider", "--benchmark-disable", "--tb=short")
LOADED = ("numpy", "crc32c", "hypothesis", "pyarrow", "pytest_timeout", "pytest_benchmark.plugin")
"""Imported once: what takes long to import, and is not ours."""
ELSEWHERE = 99
"""The exit code of tests that imported something else than the copy, be it the kernel alone."""
SENSELESS = ("_Is", "_IsNot")
"""Comparisons of numbers by identity: most are the same."""


class RemoveCall(Operator):  # type: ignore[misc]
    """Remove a statement that is nothing but a call."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "simple_stmt" and node.children[0].type in ("atom_expr", "power"):
            call = node.children[0]
            if call.children[-1].get_code().startswith("("):
                yield call.start_pos, call.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        call = node.children[0]
        node.children[0] = Name("pass", call.start_pos, prefix=call.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


@dataclass(frozen=True, order=True)
class Mutant:
    path: str
    line: int
    column: int
    operator: str
    occurrence: int


def operators() -> dict[str, Any]:
    names = [name for name in operator_names() if not name.endswith(SENSELESS)]
    found = {name.split("/")[1]: get_operator(name) for name in names if not get_operator(name).arguments()}
    return {**{name: cls() for name, cls in found.items()}, "RemoveCall": RemoveCall()}


def left_out(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """From where to where a mutant says nothing: annotations, what only type checkers read, and what is logged."""
    for node in ast.walk(tree):
        parts: list[ast.expr | ast.stmt | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        elif (isinstance(node, ast.Expr) and ast.unparse(node).startswith("log.")) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            parts.append(node)
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)


def mutants_of(path: Path, name: str) -> list[Mutant]:
    source = path.read_text()
    spans = list(left_out(ast.parse(source)))
    nodes, found = list(ast_nodes(get_ast(source))), list[Mutant]()
    for operator_name, operator in operators().items():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [
            Mutant(name, place[0], place[1], operator_name, occurrence)
            for occurrence, place in enumerate(places)
            if not any(start <= place < end for start, end in spans)
        ]
    return found


def sample(tree: Path, rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Places at random, and at each of them one of its operators: the many replacements of a `+` count as one."""
    at: dict[tuple[str, int, int], list[Mutant]] = {}
    for room in rooms:
        for path in sorted((tree / room).rglob("*.py")):
            for mutant in mutants_of(path, str(path.relative_to(tree))):
                at.setdefault((mutant.path, mutant.line, mutant.column), []).append(mutant)
    dice = random.Random(seed)
    places = sorted(at)
    dice.shuffle(places)
    print(
        f"{sum(map(len, at.values()))} mutants at {len(places)} places; {min(count, len(places))} are tried", flush=True
    )
    return [dice.choice(sorted(at[place])) for place in places[:count]]  # of a larger sample these are the first


def copy_tree(work: Path) -> Path:
    """Also where there is one: a run that was killed has left a mutant in it."""
    tree, link = work / "tree", work / "path" / "flightlog"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    files = [ROOT / os.fsdecode(name) for name in names.split(b"\0") if name]
    for path in [*files, *(ROOT / "store" / "native").glob("*.so")]:
        if path.exists():
            target = tree / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    compileall.compile_dir(tree, quiet=2, force=True)  # once, for all forks; a mutated file is newer than its bytecode
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(tree)
    return tree


def measure(work: Path, tree: Path, rooms: Sequence[str]) -> None:
    """Each file of these rooms' quick tests once under coverage, in a forked process that has `MEASURE_LIMIT_S`; those
    that were measured before are left as they are. Tests of a file that takes longer find no mutant."""
    rc, folder = work / "coveragerc", work / "measured"
    rc.write_text("[run]\nsource_dirs =\n" + "".join(f"    {tree / room}\n" for room in ROOMS))
    folder.mkdir(exist_ok=True)
    for room in rooms:
        for path in sorted((tree / "tests" / room).rglob("test_*.py")):
            seconds = folder / f"{room}-{path.stem}.json"
            if seconds.exists():
                continue

            def run(path: Path = path, seconds: Path = seconds) -> int:
                os.environ["FLIGHTLOG_MUTANTS_TESTS"] = str(seconds)
                measured = coverage.Coverage(data_file=str(seconds.with_suffix(".coverage")), config_file=str(rc))
                measured.start()
                code = int(pytest.main([*QUIETLY, "-p", "contexts", "-m", "not ci", str(path.relative_to(tree))]))
                measured.stop()
                measured.save()
                return code

            started = time.monotonic()
            if in_fork(tree, run, MEASURE_LIMIT_S, work / "measure.log") is None:
                seconds.write_text("{}")
            print(f"measured {path.relative_to(tree)} in {time.monotonic() - started:.1f} s", flush=True)


class Tests:
    """Which tests run a line, and how long each takes."""

    def __init__(self, work: Path, tree: Path, budget_s: float) -> None:
        self._tree, self._budget_s = tree, budget_s
        self.seconds: dict[str, float] = {}
        self._by_line: dict[str, dict[int, set[str]]] = {}
        for path in sorted((work / "measured").glob("*.json")):
            self.seconds |= json.loads(path.read_text())
            data = coverage.CoverageData(str(path.with_suffix(".coverage")))
            data.read()
            for source in data.measured_files():
                lines = self._by_line.setdefault(source, {})
                for line, contexts in data.contexts_by_lineno(source).items():
                    lines.setdefault(line, set()).update(contexts)

    def of(self, mutant: Mutant) -> list[str]:
        """Those that run its line, as many as the budget allows: the quickest of each file first, then the second of
        each. Of a line that runs when its module is imported, those that run any line of the module."""
        lines = self._by_line.get(str(self._tree / mutant.path), {})
        nodes = ast.walk(ast.parse((self._tree / mutant.path).read_text()))
        spans = [
            (node.lineno, node.end_lineno or node.lineno)
            for node in nodes
            if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or node.lineno)
        ]
        first = max(spans, default=(mutant.line, mutant.line))[0]
        contexts = set().union(*(lines.get(line, set()) for line in range(first, mutant.line + 1)))
        if contexts == {""}:
            contexts = set().union(*lines.values())
        found, left_s, turns = list[str](), self._budget_s, Counter[str]()
        places: list[tuple[int, float, str]] = []
        for seconds, test in sorted((self.seconds[test], test) for test in contexts & self.seconds.keys()):
            file = test.partition("::")[0]
            places.append((turns[file], seconds, test))
            turns[file] += 1
        for _, _, test in sorted(places):
            left_s -= self.seconds[test]
            if found and left_s < 0:
                break
            found.append(test)
        return found


def end(pid: int) -> None:
    """Kill a forked process and what it started."""
    with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "flightlog"


def in_fork(tree: Path, run: Callable[[], int], limit_s: float, log: Path) -> int | None:
    """The exit code of what ran in a forked process; None if it was killed, for it took longer than `limit_s`."""
    started, pid = time.monotonic(), os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(tree)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = ELSEWHERE
        try:
            code = run()
        except BaseException:  # also pytest's own, where a mutant cannot be imported
            traceback.print_exc()
            code = int(pytest.ExitCode.TESTS_FAILED)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    try:
        while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() - started > limit_s:
                end(pid)
                return None
            time.sleep(0.02)
    except BaseException:
        end(pid)
        raise
    return os.waitstatus_to_exitcode(found[1])


def try_tests(tree: Path, tests: list[str], limit_s: float, log: Path) -> str:
    """survived, killed or timeout, of the tree as it is."""

    def run() -> int:
        outcome = int(pytest.main([*QUIETLY, f"--timeout={HANGS_S}", "--timeout-method=thread", "-x", *tests]))
        ours = [getattr(module, "__file__", None) for name, module in sys.modules.items() if is_ours(name)]
        return outcome if all(path is None or Path(path).resolve().is_relative_to(tree) for path in ours) else ELSEWHERE

    code = in_fork(tree, run, limit_s, log)
    if code is None:
        return "timeout"
    assert code not in (ELSEWHERE, pytest.ExitCode.NO_TESTS_COLLECTED), f"{code}: {log.read_text()}"
    return "survived" if code == 0 else "killed"


def try_mutant(tree: Path, mutant: Mutant, tests: list[str], limit_s: float, log: Path) -> tuple[str, str]:
    """What became of it, and its line as it was mutated."""
    path = tree / mutant.path
    source, times = path.read_text(), path.stat()
    changed = MutationVisitor.mutate_code(source, operators()[mutant.operator], mutant.occurrence)
    assert changed is not None
    pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
    text = next((new.strip() for old, new in pairs if old != new), "")
    try:
        compile(changed, str(path), "exec")
    except SyntaxError:  # the `*` of a signature is no product
        return "no mutant", text
    if not tests:
        return "no test", text
    try:
        path.write_text(changed)
        return try_tests(tree, tests, limit_s, log), text
    finally:
        path.write_text(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def check_canary(work: Path, tree: Path, tests: Tests) -> None:
    """The sound copy passes, and one that cannot be imported fails: else the tests would not see the copy."""
    test, path, log = min(tests.seconds, key=lambda one: tests.seconds[one]), tree / "__init__.py", work / "canary.log"
    assert try_tests(tree, [test], LIMIT_S, log) == "survived", log.read_text()
    source = path.read_text()
    path.write_text(source + "\nraise RuntimeError('canary')\n")
    assert try_tests(tree, [test], LIMIT_S, log) == "killed", "the tests do not import the copy"
    assert "RuntimeError: canary" in log.read_text()
    path.write_text(source)


def tell(results: list[dict[str, Any]]) -> None:
    """The table, and the score: of those that a test runs."""
    for one in sorted(results, key=lambda one: (one["path"], one["line"])):
        if one["outcome"] not in ("killed", "no mutant"):
            print(f"{one['path']}:{one['line']}  {one['outcome']}  {one['operator']}  {one['text']}")
    for room in (*ROOMS, ""):
        counts = Counter(one["outcome"] for one in results if one["path"].startswith(room))
        found, tested = counts["killed"], counts["killed"] + counts["survived"]
        share = f"{found / max(tested, 1):.1%}"
        print(f"{room or 'all'}: {found} of {tested} that a test runs were found ({share}); {dict(counts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="stop then; the next run goes on")
    parser.add_argument(
        "--budget", type=float, default=20, help="seconds of tests a mutant, as measured under coverage"
    )
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS, help="these alone, with their own tests")
    parser.add_argument("--work", type=Path, default=ROOT / ".mutants")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; the next run goes on"))
    work: Path = given.work.resolve()
    work.mkdir(exist_ok=True)
    lock = (work / "lock").open("w")
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two runs over one copy would try each other's mutants
    ends = time.monotonic() + given.minutes * 60
    tree = copy_tree(work)
    sys.path[:0] = [str(work / "path"), str(ROOT / "tests" / "mutants")]
    os.environ |= {"PYTHONPATH": str(work / "path"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    sys.dont_write_bytecode = True  # a mutant's must not be taken for that of the next
    for name in LOADED:
        importlib.import_module(name)
    measure(work, tree, given.rooms)
    tests = Tests(work, tree, given.budget)
    check_canary(work, tree, tests)
    file = work / f"results-{given.seed}.jsonl"
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(one["path"], one["operator"], one["occurrence"]) for one in results}
    for mutant in sample(tree, given.rooms, given.count, given.seed):
        if (mutant.path, mutant.operator, mutant.occurrence) in done:
            continue
        if time.monotonic() > ends:
            break
        chosen = tests.of(mutant)
        limit_s = LIMIT_S + 3 * sum(tests.seconds[test] for test in chosen)
        outcome, text = try_mutant(tree, mutant, chosen, limit_s, work / "last.log")
        results.append(asdict(mutant) | {"outcome": outcome, "text": text, "tests": len(chosen)})
        with file.open("a") as target:
            target.write(json.dumps(results[-1]) + "\n")
        print(f"{len(results)} {outcome} {mutant.path}:{mutant.line} {mutant.operator}: {text}", flush=True)
    tell(results)


if __name__ == "__main__":
    main()
