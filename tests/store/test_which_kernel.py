"""A package that is not the installed one, or a kernel that was built and does not load, is named once, at import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import flightlog
from flightlog.store import native

SOURCE = Path(flightlog.__file__).parent
ROOMS = ("consume", "engine", "index", "produce", "schedule", "spark", "store")
TELL = "import flightlog; print(flightlog.kernel, flightlog.__path__[0])"


def copy_package(folder: Path) -> Path:
    """The modules of the package without a kernel, as `folder/flightlog`."""
    target = folder / "flightlog"
    target.mkdir(parents=True)
    for module in [*SOURCE.glob("*.py"), *(file for room in ROOMS for file in (SOURCE / room).rglob("*.py"))]:
        place = target / module.relative_to(SOURCE)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, place)
    return target


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder like site-packages with flightlog in it."""
    package = copy_package(tmp_path / "site")
    metadata = package.parent / f"flightlog-{flightlog.__version__}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flightlog\nVersion: {flightlog.__version__}\n")
    return package.parent


def run(cwd: Path, *path: Path, **environment: str) -> tuple[str, str]:
    """Stdout and stderr of an import in `cwd`, with `path` as PYTHONPATH."""
    env = {name: value for name, value in os.environ.items() if name not in ("FLIGHTLOG_PURE", "PYTHONSAFEPATH")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
    finished = subprocess.run([sys.executable, "-c", TELL], cwd=cwd, env=env, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, finished.stderr


def test_a_clone_that_shadows_the_installed_package_is_named_once(tmp_path: Path, installed: Path) -> None:
    clone = copy_package(tmp_path / "above")
    (clone / "pyproject.toml").touch()
    out, err = run(clone.parent, installed)
    assert out.split()[:2] == ["pure", str(clone)]
    assert err.count("RuntimeWarning") == 1
    assert all(word in err for word in (str(clone), str(installed / "flightlog"), "pure Python", "pip install -e"))
    assert run(clone.parent, installed, FLIGHTLOG_PURE="1")[1] == "", "a choice"
    assert run(tmp_path, installed)[1] == "", "Python was started elsewhere"


def test_a_kernel_that_was_built_and_does_not_load_is_named(tmp_path: Path, installed: Path) -> None:
    assert run(tmp_path, installed)[1] == "", "an install without a compiler is complete"
    built = installed / "flightlog" / "store" / "native" / "_kernel.abi3.so"
    built.write_bytes(b"for another machine")
    out, err = run(tmp_path, installed)
    assert out.startswith("pure ")
    assert err.count("RuntimeWarning") == 1 and str(built) in err and "cannot be loaded" in err


def test_a_zip_serves_the_reference_without_a_word(tmp_path: Path) -> None:
    package = copy_package(tmp_path / "zipped")
    archive = tmp_path / "flightlog.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        for file in package.rglob("*.py"):
            writer.write(file, file.relative_to(package.parent))
    out, err = run(tmp_path, archive)
    assert out.startswith(f"pure {archive}") and err == ""


def test_this_install_gives_no_warning() -> None:
    finished = subprocess.run(
        [sys.executable, "-P", "-W", "error::RuntimeWarning", "-c", TELL], capture_output=True, text=True, check=True
    )
    assert finished.stderr == ""


def test_the_name_follows_the_kernel_in_use(kernel: str) -> None:
    assert flightlog.kernel == native.NAME == kernel
