"""What is built: the source archive, the wheel made from it, and the wheel of a machine without a compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flightlog.tests.house.conftest import House

pytestmark = pytest.mark.ci
KERNEL = "flightlog/store/native/_kernel.abi3.so"


@pytest.fixture(scope="module")
def checkout(house: House, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without what earlier builds left, as a clean clone would be."""
    left_out = shutil.ignore_patterns(".*", "build", "dist", "target", "*.egg-info", "__pycache__", "*.so")
    return Path(shutil.copytree(house.root, tmp_path_factory.mktemp("build") / "flightlog", ignore=left_out))


def build(checkout: Path, out: Path, *arguments: str, **environment: str) -> list[Path]:
    command = [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(out), *arguments, str(checkout)]
    finished = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    return sorted(out.iterdir())


def has_compiler() -> bool:
    """Whether the compiler that a build would take finds Python's headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_path("include")
    try:
        arguments = ["-fsyntax-only", "-I", include, "-x", "c", "-"]
        tried = subprocess.run([*compiler, *arguments], input=b"#include <Python.h>\n", capture_output=True)
    except OSError:
        return False
    return tried.returncode == 0


def python_files(house: House) -> set[str]:
    package = {f"flightlog/{file}" for file in house.package_modules()}
    return {*package, "flightlog/py.typed", "pyspark_flightlog/__init__.py"}


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def data_files(house: House) -> set[str]:
    places = ("tools/data/*.tar.xz", "tools/bench/*.java", "serve/page/static/*", "serve/page/templates/*.html")
    return {f"flightlog/{path.relative_to(house.root)}" for place in places for path in house.root.glob(place)}


def test_source_archive_and_the_wheel_made_from_it(house: House, checkout: Path, tmp_path: Path) -> None:
    if not has_compiler():
        pytest.skip("no C compiler with Python's headers here")
    wheel, archive = build(checkout, tmp_path / "out")
    with tarfile.open(archive) as tar:
        in_archive = {name.partition("/")[2] for name in tar.getnames()}
    assert {str(file) for file in house.sources(".c", ".h") if file.parts[0] == "store"} <= in_archive
    assert {"LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml"} <= in_archive

    assert wheel.name.startswith("flightlog-0.1.0-cp311-abi3-"), "the kernel did not compile"
    assert contents(wheel) == {*python_files(house), *data_files(house), KERNEL}
    with zipfile.ZipFile(wheel) as opened:
        entry_points = opened.read("flightlog-0.1.0.dist-info/entry_points.txt").decode()
        metadata = opened.read("flightlog-0.1.0.dist-info/METADATA").decode()
    assert "flightlog = flightlog.__main__:main" in entry_points
    required = {line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and ";" not in line}
    assert required == {"Requires-Dist: crc32c>=2.4", "Requires-Dist: numpy>=1.26"}


def test_without_a_compiler_the_wheel_is_pure_and_works(house: House, checkout: Path, tmp_path: Path) -> None:
    [wheel] = build(checkout, tmp_path / "out", "--wheel", CC="/bin/false")
    assert wheel.name == "flightlog-0.1.0-py3-none-any.whl"
    assert contents(wheel) == python_files(house) | data_files(house)

    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); sys.meta_path = [finder for finder in sys.meta_path "
        "if 'editable' not in getattr(finder, '__module__', '')]\n"
        "import flightlog; from flightlog.store import native; print(flightlog.__file__, native.NAME)"
    )
    finished = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == [str(installed / "flightlog" / "__init__.py"), "pure"]
