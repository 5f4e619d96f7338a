"""Turning a refused start of a thread into an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import ThreadStartError

REFUSED = "can't start new thread"
"""How CPython begins the RuntimeError of a thread that the system refused."""


@contextmanager
def thread_start_errors(thread: str) -> Iterator[None]:
    """Raise ThreadStartError for a thread that cannot be started in this block; `thread` names it."""
    try:
        yield
    except ThreadStartError:
        raise
    except RuntimeError as e:
        if not str(e).startswith(REFUSED):
            raise
        raise ThreadStartError(thread, str(e)) from e
