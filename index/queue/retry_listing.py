"""Looks at files that another process may remove between their listing and the look into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...store.errors import SegmentGoneError

MORE_LOOKS = 20
"""How often files are listed anew because one of them has gone: one that stays in the list and cannot be opened is
told."""

Found = TypeVar("Found")


def look_again_where_files_go(look: Callable[[], Found]) -> Found:
    """What a look finds, which lists files and looks into them; it begins anew where one of them has gone meanwhile.

    A segment of the log that has gone is for the caller: with it goes what a look rests on.
    """
    for left in range(MORE_LOOKS, -1, -1):
        try:
            return look()
        except FileNotFoundError as e:
            if isinstance(e, SegmentGoneError) or not left:
                raise
    raise AssertionError("the last look returns or raises")
