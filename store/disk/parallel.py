"""Doing many small things: one after the other on a disk of this machine, several at a time where each waits for
another machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .disk import Disk

AT_ONCE = 16
"""Requests under way at a time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(disk: Disk, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
    """The function's result for every item, in order; raised where it is taken. All of it is over when this ends."""
    if disk.maps_files:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(function, items)
