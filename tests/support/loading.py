"""Modules of the tests. No folder of theirs is on the path, so whoever needs one, program or test, begins with

load = runpy.run_path(str(Path(__file__).with_name("loading.py")))["load"]
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(name: str, folder: Path = Path(__file__).parent) -> ModuleType:
    """`name`.py of tests/support/ or of another folder, once in a process."""
    full_name = f"flightlog_tests_{folder.name}_{name}"
    if full_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(full_name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module  # dataclasses look their module up while it is executed
        spec.loader.exec_module(module)
    return sys.modules[full_name]
