"""The kernel's fuzz targets for a moment, a wounded kernel to show that they see, and its suite under sanitizers.

`make fuzz` runs the same targets for as long as one likes.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "fuzz" / "run.py"
KERNEL_TARGETS = ROOT / "tests" / "fuzz" / "kernel"
NATIVE = ROOT / "store" / "native" / "c"
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in KERNEL_TARGETS.glob("fuzz_*.c"))
DRIVEN_BY_PYTHON = {"fast_path"}
PYTHON_TAKES = 20
"""Times as long as C, for an execution."""
WOUND_RUNS = 20_000_000
"""Every wound was found within 230,000 executions, from each of 20 seeds. The number depends on more than the seed: the
fuzzer prefers inputs that run quickly. It stops at the first that breaks something, so a large bound costs nothing."""
SEED = 1 + int(os.environ["FLIGHTLOG_SEED"])  # of 0 the fuzzer would draw one

pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("kernel_fuzz")]


@dataclass(frozen=True, slots=True)
class Run:
    exit_code: int
    said: str
    found: list[Path]


def fuzz(work: Path, runs: int, *names: str, native: Path = NATIVE) -> Run:
    options = ["--runs", str(runs), "--seed", str(SEED), "--work", str(work), "--native", str(native)]
    finished = subprocess.run([sys.executable, "-P", str(RUN), *options, *names], capture_output=True, text=True)
    return Run(finished.returncode, finished.stdout + finished.stderr, sorted((work / "found").glob("*")))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder in which all targets, and the kernel as a module, lie built."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not here: install it with its compiler-rt (Debian: clang libclang-rt-dev)")
    build = tmp_path_factory.mktemp("fuzz") / "build"
    command = ["make", "-s", "-j2", "-C", str(KERNEL_TARGETS), f"OUT={build}", f"PYTHON={sys.executable}"]
    made = subprocess.run([*command, "all", str(build / "modules" / "_kernel.so")], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return build.parent


@pytest.mark.parametrize("driver", ["C", "Python"])
def test_nothing_is_found_in_a_moment(driver: str, built: Path, scale: Scale) -> None:
    runs = scale.pick(ci=15_000, full=1_000_000) // (1 if driver == "C" else PYTHON_TAKES)
    targets = {name for name in TARGETS if (name in DRIVEN_BY_PYTHON) is (driver == "Python")}
    run = fuzz(built, runs, *sorted(targets))
    assert run.exit_code == 0, run.said
    executed = {
        name: int(count.replace(",", "")) for name, count in re.findall(r"^(\w+) +([\d,]+) exec", run.said, re.M)
    }
    assert set(executed) == {*targets, "together"}, run.said
    assert all(count >= runs for count in executed.values()), run.said
    assert not run.found


WOUNDS = {
    "record_beyond_stop": ("walk", "walk.c", "size > left)", "size > left + 64)"),
    "body_beyond_record": ("walk", "walk.c", "body_size < 0 || body_size > variable_size", "body_size < 0"),
    "row_beyond_table": (
        "walk",
        "walk.c",
        "row;\n        if (filled == capacity)",
        "row;\n        if (filled > capacity)",
    ),
    "size_loaded_twice": (
        "changing_log",
        "walk.c",
        "(int32_t)little32(row.size);",
        "load32_once(data + at + SIZE_AT);",
    ),
    "place_too_long": ("places", "walk.c", "!= (int64_t)place.size ?", "> (int64_t)place.size ?"),
    "range_loaded_twice": (
        "changing_places",
        "columns.c",
        "found->size = (size_t)size;",
        "found->size = (size_t)column64_once(ranges->sizes, i);",
    ),
    "range_beyond_data": (
        "gather",
        "columns.c",
        "start > ranges->data.size - (uint64_t)size",
        "start > ranges->data.size",
    ),
    "copy_beyond_room": ("changing_columns", "columns.c", "|| range.size > out_size - done", ""),
    "records_beyond_room": ("changing_columns", "columns.c", "|| one > size - done) return 0;", ") return 0;"),
    "wrong_offset": ("columns", "columns.c", "shared.physical_offset + done;", "shared.physical_offset + one;"),
    "wrong_mold": ("columns", "encode.c", "store32(body - 4,", "store32(body - 8,"),
    "text_beyond_room": ("texts", "text_columns.c", "head_size >= room - value.size", "head_size > room - value.size"),
    "wrong_queue": ("texts", "columns.c", "<= id ? place + half", "< id ? place + half"),
    "topic_beyond_rest": ("fields", "messages.c", "topic_size < 0 || topic_size > variable_size", "topic_size < 0"),
    "value_is_empty": ("fields", "property_text.h", " || name_end + 1 == at + size", ""),
    "more_than_room": ("fields", "messages.c", "one > max_size - *size", "one > max_size"),
    "key_beyond_room": ("listing", "listing.c", "if (i >= listing->key_room)", "if (i > listing->key_room)"),
    "text_loaded_twice": (
        "changing_listing",
        "listing.c",
        "ROW32(row, topic_size), topic) &&",
        "ROW32(row, topic_size), topic) && (topic->size = (size_t)ROW32(row, topic_size), 1) &&",
    ),
    "wrong_previous": ("links", "key_links.c", "previous = newest->number != 0", "previous = newest->number > 9"),
    "size_overflows": ("record_size", "encode.c", "> (size_t)INT32_MAX - rest", "> (size_t)INT32_MAX"),
    "wrong_length": (
        "encode",
        "encode.c",
        "(int16_t)record->properties.size",
        "(int16_t)(record->properties.size & 4095)",
    ),
    "wrong_table": ("crc", "crc32.c", "tables[1][(word >> 48) & 0xFF]", "tables[1][(word >> 49) & 0xFF]"),
    "written_then_refused": ("module", "module_columns.c", "size >= 0 && (uint64_t)size == out.size", "size >= 0"),
    "property_beyond_room": (
        "fast_path",
        "fast_path_record.c",
        "size >= out->end - out->at",
        "size >= 2 * FAST_PATH_PROPERTIES_MAX",
    ),
    "record_beyond_limit": (
        "fast_path",
        "fast_path_put.c",
        "fast_path->limit - fast_path->end < (int64_t)prepared.size + BLANK_SIZE",
        "fast_path->limit - fast_path->end < BLANK_SIZE",
    ),
    "body_where_it_goes": ("module", "module.c", "touches(at, (size_t)size, record->body)", "0"),
}
if platform.machine() == "x86_64":
    WOUNDS["crc_beyond_data"] = ("crc", "crc32_fold.h", "load(end - 16)", "load(end - 15)")
    WOUNDS["wrong_copy_of_the_rest"] = ("crc", "crc32_fold.h", "load(to - 16)", "load(to - 15)")


@pytest.mark.parametrize("wound", WOUNDS)
def test_a_wounded_kernel_is_found_out(wound: str, built: Path, tmp_path: Path) -> None:
    target, file, right, wrong = WOUNDS[wound]
    native, work = tmp_path / "native", tmp_path / "work"
    shutil.copytree(NATIVE, native)
    source = (native / file).read_text()
    assert source.count(right) == 1, "name another wound: the kernel has changed"
    (native / file).write_text(source.replace(right, wrong))
    shutil.copytree(built / "build" / "kernel", work / "build" / "kernel")  # what did not change is not built again
    run = fuzz(work, WOUND_RUNS, target, native=native)
    assert run.exit_code == 1 and f"broken: {target}" in run.said, run.said
    assert [path.name.split("-")[:2] for path in run.found] == [[target, "crash"]], run.said
    program, [found] = work / "build" / f"fuzz_{target}", run.found
    assert subprocess.run([program, found], capture_output=True).returncode != 0, "what was found must break it again"


def test_the_suite_of_the_kernel_under_sanitizers(built: Path, tmp_path: Path) -> None:
    program, kernel = KERNEL_TARGETS / "sanitized_suite.py", built / "build" / "modules" / "_kernel.so"
    options = ["-q", "-n0", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'suite'}"]
    options += ["-k", "not pure and not test_choice"]
    tests = sorted(str(path) for path in (ROOT / "tests" / "store").glob("test_kernel*.py"))
    finished = subprocess.run(
        [built / "build" / "python", program, kernel, *options, *tests],
        cwd=ROOT,
        env={
            **os.environ,
            "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=4",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"^\d{3} passed", finished.stdout, re.M), finished.stdout
