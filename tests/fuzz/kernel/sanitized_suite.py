"""`sanitized_suite.py KERNEL ARGUMENT…`: pytest with these arguments, over a kernel that was built with sanitizers.

For a Python under which AddressSanitizer was loaded (the Makefile makes one). The kernel is put where `flightlog` looks
for its own before anything of `flightlog` is imported.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Final

import pytest

KERNEL: Final = "flightlog.store.native._kernel"


def main(path: str, *arguments: str) -> int:
    if not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise SystemExit("AddressSanitizer is not loaded: start this with the Python that the Makefile makes")
    loader = ExtensionFileLoader(KERNEL, path)
    spec = spec_from_loader(KERNEL, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[KERNEL] = module
    from flightlog.store import native

    native.use("c")
    assert native.walk is module.walk
    return pytest.main([*arguments])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
