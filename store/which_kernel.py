"""A warning where the kernel that serves is not the one that was built.

Python looks into the current folder first: started in the folder above a clone that is called `flightlog`, it imports
the clone in place of the installed package, and a clone has no kernel until one is built in it. Spark starts its
workers in the driver's folder, so they do the same, even if the driver was started with `-P`.

No warning: FLIGHTLOG_PURE=1 (a choice), an editable install, an install that was made without a compiler, a package
that is imported from a zip (Spark's `--py-files`: no kernel can be loaded from there), and free-threaded builds of
Python, which cannot load the kernel.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import warnings
from pathlib import Path

from . import native

PACKAGE = Path(__file__).absolute().parents[1]
BUILD_FILE = "pyproject.toml"
"""Only a checkout has it beside the modules of the package."""


def warn_if_another_was_built() -> None:
    """Issue at most one RuntimeWarning, with what serves, why, and the remedy. To be called once, at import."""
    if os.environ.get("FLIGHTLOG_PURE") == "1" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return
    if not PACKAGE.is_dir():  # in a zip
        return
    serves = {"c": "the C kernel", "pure": "the pure Python reference, which is many times slower,"}[native.NAME]
    installed = _shadowed_package()
    if installed is not None:
        text = (
            f"flightlog was imported from the checkout {PACKAGE}, which shadows the installed package {installed}: "
            f"{serves} serves. Start Python in another folder than {PACKAGE.parent} and keep that folder out of "
            f"PYTHONPATH, or install the checkout itself: python -m pip install -e {PACKAGE}"
        )
    elif native.NAME == "pure" and (built := _built_kernels()):
        text = (
            f"{built[0]} was built, but it cannot be loaded ({_why_not()}): {serves} serves. Build flightlog again "
            "with this Python: python -m pip install --force-reinstall --no-deps flightlog (for a checkout: "
            f"-e {PACKAGE}). FLIGHTLOG_PURE=1 chooses the reference without this warning"
        )
    else:
        return
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def _shadowed_package() -> Path | None:
    """The folder of the installed package, if this is a checkout that Python found in its place."""
    if not (PACKAGE / BUILD_FILE).is_file() or not _is_on_the_path(PACKAGE.parent):
        return None
    # Only a checkout pays for this import.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution("flightlog")
    except PackageNotFoundError:
        return None
    folder = Path(str(found.locate_file("flightlog")))
    if origin := found.read_text("direct_url.json"):
        what = json.loads(origin)
        if what.get("dir_info", {}).get("editable"):
            from urllib.parse import urlsplit
            from urllib.request import url2pathname

            folder = Path(url2pathname(urlsplit(what["url"]).path))
    if not folder.is_dir() or folder.samefile(PACKAGE):
        return None
    return folder


def _is_on_the_path(folder: Path) -> bool:
    return any(os.path.abspath(entry) == str(folder) for entry in sys.path)


def _built_kernels() -> list[Path]:
    return sorted((PACKAGE / "store" / "native").glob("_kernel*.so"))


def _why_not() -> str:
    from importlib import import_module

    try:
        import_module(native.MODULES["c"], native.__name__)
    except ImportError as error:
        return str(error)
    return "it can be loaded now"
