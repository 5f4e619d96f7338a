"""System calls that Python has no function for, by the C library's own wrappers."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any


def system_call(name: str, *argument_types: Any) -> Callable[..., int] | None:
    """The wrapper, or None where there is none. It returns -1 where the call failed (`ctypes.get_errno` tells why), and
    releases the GIL."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is not None:
        function.argtypes, function.restype = argument_types, ctypes.c_int
    return function
