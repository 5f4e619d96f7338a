"""The tree of errors that `store/errors.py` draws is the one that there is, and all of it stands on the face."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import flightlog
from flightlog.consume.deduplication import deduplication_window
from flightlog.consume.group import group_errors
from flightlog.consume.pop import pop_errors
from flightlog.index.filter import invalid_filter
from flightlog.produce import send_errors
from flightlog.serve.client import client_errors
from flightlog.spark.options import data_loss
from flightlog.store import errors, message_check, timer_errors


def drawn() -> dict[str, str]:
    """Error -> the one that it hangs on, by the picture."""
    found, above = dict[str, str](), dict[int, str]()
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([ │├└─]+)(\w+Error)\b", line)
        if match:
            depth = len(match[1])
            above[depth] = match[2]
            if depth - 4 in above:
                found[match[2]] = above[depth - 4]
    return found


PLACES = (
    *(
        errors,
        message_check,
        timer_errors,
        invalid_filter,
        group_errors,
        pop_errors,
        send_errors,
        deduplication_window,
        data_loss,
    ),
    client_errors,
)
MODULES = {place.__name__ for place in PLACES}


def below(cls: type[Exception]) -> Iterator[type[Exception]]:
    for one in cls.__subclasses__():
        if one.__module__ in MODULES:
            yield one
            yield from below(one)


THERE = {one.__name__: one for one in below(flightlog.FlightlogError)}


def test_the_tree_that_is_drawn_is_the_one_that_there_is() -> None:
    assert drawn() == {name: one.__bases__[0].__name__ for name, one in THERE.items()}


@pytest.mark.parametrize("name", THERE)
def test_every_error_is_on_the_face(name: str) -> None:
    assert getattr(flightlog, name) is THERE[name]
    assert name in flightlog.__all__
