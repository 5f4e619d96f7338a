"""What lies where: the list of packages, the root without stray modules, small files."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

LINES_MAX = 600
FILE_SIZE_MAX = 1_000_000
LARGE_FILES = {
    "tests/data/golden/abort-late.tar.xz": "5,321 messages as RocketMQ reported them; xz -9e gets no lower",
}
"""Tracked files that may be larger than that, each with its reason."""
MACHINE_PATH = re.compile(rb"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/[\w.-]+")
EXAMPLE_PATHS = {b"/root/broker-b", b"/home/admin/broker-a.conf", b"/home/admin/broker-b.conf"}
"""Paths in RocketMQ's own sample configurations."""


def test_packages_are_listed_as_they_are_on_disk(house: House) -> None:
    on_disk = {
        ".".join(["flightlog", *file.parent.parts]) for file in house.package_modules() if file.name == "__init__.py"
    }
    setuptools = house.pyproject()["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted({*on_disk, "pyspark_flightlog"})
    assert (house.root / setuptools["package-dir"]["pyspark_flightlog"] / "__init__.py").is_file()


def test_every_module_lies_in_a_package(house: House) -> None:
    stray = [str(file) for file in house.package_modules() if not (house.root / file.parent / "__init__.py").is_file()]
    assert not stray, "not installed, because their folders have no __init__.py"


def test_the_root_holds_the_face_and_nothing_else(house: House) -> None:
    assert sorted(path.name for path in house.root.glob("*.py")) == ["__init__.py", "__main__.py"]


def test_tests_and_benches_are_no_packages(house: House) -> None:
    # With one, pytest would import the root a second time under the checkout's name.
    marked = [str(file) for file in house.sources(".py") if file.name == "__init__.py"]
    assert not [file for file in marked if Path(file).parts[0] in ("tests", "benches")]


def test_the_kernel_is_built_from_all_its_sources(house: House) -> None:
    [extension] = house.pyproject()["tool"]["setuptools"]["ext-modules"]
    in_c = [file for file in house.sources(".c", ".h") if file.parts[0] not in ("tests", "benches")]
    assert sorted(extension["sources"]) == [str(file) for file in in_c if file.suffix == ".c"]
    assert sorted(extension["depends"]) == [str(file) for file in in_c if file.suffix == ".h"]


def test_the_kernel_counts_every_reference_itself(house: House) -> None:
    """The headers of Python 3.12 and later return None and True uncounted, for there they live for ever. A kernel made
    with them is loaded by 3.11, too, which then frees None after some thousand puts, and dies."""
    uncounted = [str(file) for file in house.sources(".c", ".h") if b"Py_RETURN_" in (house.root / file).read_bytes()]
    assert uncounted == []


def test_mypy_checks_every_room(house: House) -> None:
    rooms = {f".dev/flightlog/{file.parts[0]}" for file in house.package_modules()}
    ours = {".dev/flightlog/tests", ".dev/flightlog/benches", "docs"}
    assert set(house.pyproject()["tool"]["mypy"]["files"]) == rooms | ours


def test_every_file_that_the_documents_name_is_there(house: House) -> None:
    rooms = {file.parts[0] for file in house.package_modules() if len(file.parts) > 1} | {"tests", "benches", "docs"}
    named = [
        (str(document), name)
        for document in (*house.root.glob("*.md"), *house.root.glob("docs/*.md"))
        for name in re.findall(r"`([\w./*-]+/[\w./*-]*)`", document.read_text())
        if name.split("/")[0] in rooms
    ]
    assert named
    assert [(document, name) for document, name in named if not any(house.root.glob(name))] == []


def test_no_source_file_is_long(house: House) -> None:
    lengths = {
        str(file): (house.root / file).read_bytes().count(b"\n") for file in house.sources(".py", ".c", ".h", ".java")
    }
    assert {file: lines for file, lines in lengths.items() if lines > LINES_MAX} == {}


def test_no_tracked_file_is_large_without_a_reason(house: House) -> None:
    large = {str(file) for file in house.tracked_files() if (house.root / file).stat().st_size > FILE_SIZE_MAX}
    assert large == set(LARGE_FILES)


def test_no_tracked_file_is_a_binary_or_a_memory_image(house: House) -> None:
    binaries = []
    for file in house.tracked_files():
        with open(house.root / file, "rb") as opened:
            if opened.read(4) == b"\x7fELF":
                binaries.append(str(file))
    assert binaries == []


def test_no_tracked_file_names_a_path_of_a_machine(house: House) -> None:
    own = str(house.root).encode() + b"/"
    named = {}
    for file in house.tracked_files():
        content = (house.root / file).read_bytes()
        found = {*MACHINE_PATH.findall(content), *([own] if own in content else [])} - EXAMPLE_PATHS
        if found:
            named[str(file)] = found
    assert named == {}


def test_what_the_library_tells_is_logged_with_fields_under_a_name_of_ours(house: House) -> None:
    calls = {f"log.{level}" for level in ("debug", "info", "warning", "error", "exception", "log")}
    for file in house.package_modules():
        if file.parts[0] in ("tools", "__main__.py") or "packaging" in file.parts:  # programs
            continue
        for node in ast.walk(ast.parse((house.root / file).read_text())):
            if isinstance(node, ast.Call):
                called, where = ast.unparse(node.func), f"{file}:{node.lineno}"
                assert called != "print", f"{where}: log it"
                assert called != "logging.getLogger" or ast.literal_eval(node.args[0]).startswith("flightlog."), where
                assert called not in calls or any(keyword.arg == "extra" for keyword in node.keywords), (
                    f'{where}: give it fields, as in extra={{"path": str(path)}}'
                )
