"""Read files that another process may remove between listing and reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...store.errors import SegmentGoneError

MORE_LOOKS = 20
"""How often files are listed again because one is gone. A file that stays listed and cannot be opened is an error."""

Found = TypeVar("Found")


def look_again_where_files_go(look: Callable[[], Found]) -> Found:
    """Return the result of `look`, which lists files and reads them; call it again if one is gone meanwhile.

    Raises SegmentGoneError for a segment of the log at once: the caller has to start over.
    """
    for left in range(MORE_LOOKS, -1, -1):
        try:
            return look()
        except FileNotFoundError as e:
            if isinstance(e, SegmentGoneError) or not left:
                raise
    raise AssertionError("the last look returns or raises")
